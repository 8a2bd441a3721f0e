"""A cache of compiled programs on disk, so that the second run of a configuration starts in seconds."""

import hashlib
import os
import platform
import sys
from pathlib import Path

from cooptions.files import cache_place


def keep_compiled(wanted: bool) -> None:
    """Enable JAX's compilation cache on disk, unless it is turned off or the user has configured one."""
    place = cache_place()
    if not wanted or place is None:
        return
    import jax

    if jax.config.values.get("jax_compilation_cache_dir") is not None:  # the user has set JAX_COMPILATION_CACHE_DIR
        return
    path = place / "compiled" / machine()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print(f"cooptions: compiled programs are not kept: {path}: {error.strerror}", file=sys.stderr)
        return
    jax.config.update("jax_compilation_cache_dir", str(path))
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)  # a run has over a hundred small programs
    print(f"cooptions: compiled programs are kept in {path} (--no-cache turns this off)", file=sys.stderr)


def machine() -> str:
    """A name for the kind of machine, because code compiled for one processor may not run on another."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        features = sorted({line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))})
    except OSError:
        features = [platform.processor()]
    description = "\n".join([platform.system(), platform.machine(), *features])
    return f"{platform.machine()}-{hashlib.sha256(description.encode()).hexdigest()[:12]}"
