"""Drop compiled programs before they exceed the process's limit on memory maps."""

import gc
from pathlib import Path

import jax

SHARE = 0.5
"""The fraction of the allowed memory maps beyond which compiled programs are dropped."""


def make_room_for_programs() -> None:
    """Drop all compiled programs if the process holds too many memory maps.

    On a CPU a program holds some dozens, and a tiny run of all stages 17,000 (`benchmarks/load.py`). Linux aborts a
    process that needs more than 65,530. Programs that are still needed are compiled again.
    """
    if maps_held() > SHARE * maps_allowed():
        jax.clear_caches()
        gc.collect()


def maps_held() -> int:
    """The number of memory maps of this process, or 0 if the system does not report it."""
    try:
        return Path("/proc/self/maps").read_bytes().count(b"\n")
    except OSError:
        return 0


def maps_allowed() -> int:
    """The number of memory maps that a process may have."""
    try:
        return int(Path("/proc/sys/vm/max_map_count").read_text())
    except (OSError, ValueError):
        return 65_530
