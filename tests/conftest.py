"""Every test runs with shapes and types checked at run time."""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")  # for the tests of sharding

from jaxtyping import install_import_hook

install_import_hook("cooptions", "beartype.beartype")
