"""Every test runs with shapes and types checked at run time."""

import gc
import os

# Four devices for the tests of sharding; most of the suite's time is compilation, so that is made quick, not thorough.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_force_host_platform_device_count=4 --xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false",
)

os.environ["COOPTIONS_CACHE"] = "off"  # every test compiles for itself

from jaxtyping import install_import_hook

install_import_hook("cooptions", "beartype.beartype")

import jax  # noqa: E402 (after the hook)
import pytest  # noqa: E402

gc.set_threshold(10_000)  # compilation makes little garbage: a twelfth of the time went into looking for it


@pytest.fixture(autouse=True, scope="module")
def forget_compiled_programs():
    """Each holds pieces of memory, of which a process may have so many: a file of tests shares none with another."""
    yield
    jax.clear_caches()
