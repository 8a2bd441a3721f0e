"""Compiled programs, which are forgotten before there are more than a process may hold."""

import gc
from pathlib import Path

import jax

SHARE = 0.5
"""Of the memory maps that a process may have: beyond it, programs are forgotten."""


def make_room_for_programs() -> None:
    """Forget every compiled program if together they hold too many memory maps.

    On a CPU a program holds some dozens, and a tiny run of all stages 17,000 (`benchmarks/load.py`). Linux aborts a
    process that asks for more than 65,530. What is still needed is compiled again.
    """
    if maps_held() > SHARE * maps_allowed():
        jax.clear_caches()
        gc.collect()


def maps_held() -> int:
    """The memory maps of this process; 0 where the system does not tell."""
    try:
        return Path("/proc/self/maps").read_bytes().count(b"\n")
    except OSError:
        return 0


def maps_allowed() -> int:
    """How many a process may have."""
    try:
        return int(Path("/proc/sys/vm/max_map_count").read_text())
    except (OSError, ValueError):
        return 65_530
