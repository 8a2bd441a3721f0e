"""Options that a whole team of agents executes together."""

import os
from typing import Any

# XLA's default CPU scheduler deadlocks now and then on programs with many small independent operations (seen with
# jaxlib 0.10.2 on two cores: all workers asleep, in `cmi` each time). It is read when JAX first needs a device.
_SAFE_SCHEDULER = "--xla_cpu_enable_concurrency_optimized_scheduler=false"
if "concurrency_optimized_scheduler" not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_SAFE_SCHEDULER}".strip()


def __getattr__(name: str) -> Any:
    """`__version__`, looked up when it is asked for: to start takes less."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("cooptions")
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "0+unknown"
