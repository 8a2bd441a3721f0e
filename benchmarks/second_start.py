"""Time a command from its start to its first row of metrics, without and with a cache of compiled programs.

    python -m benchmarks.second_start > second_start-cpu.json

Each command starts several times with one cache, which is empty at first, and makes a new run each time. The seconds
until the first row are divided among imports and what JAX does: tracing, lowering, compiling and reading the cache. The
row ends with an evaluation, so all programs of the learning stage have run by then.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from cooptions.errors import CooptionsError, require
from cooptions.files import CACHE
from cooptions.runs.directory import provenance

COMMANDS = {
    "meet": "train meet --steps 2000 --learning.evaluations 1 --learning.episodes 8 --walk.transitions 2000 "
    "--walk.num-envs 20 --options.learner.steps 12800 --options.num-starts 64",
    "iql": "train lbf-15x15-4p-3f --method iql --seeds 1 --steps 6400 --learning.evaluations 1 --learning.episodes 8",
}
"""The whole pipeline with options, and one learner alone; both with very few steps."""

EVENTS = {
    "/jax/compilation_cache/cache_retrieval_time_sec": "read the cache",
    "/jax/core/compile/backend_compile_duration": "compile",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower",
    "/jax/core/compile/jaxpr_trace_duration": "trace",
}
"""JAX's events by what it does, innermost first: reading the cache lies within compiling, which can lie in tracing."""

CHILD = """
import json, sys, time
from cooptions.cli.main import main
import jax
file = open(sys.argv.pop(1), "w", buffering=1)
def note(event, seconds, **details):
    print(json.dumps([event, seconds, time.time()]), file=file)
jax.monitoring.register_event_duration_secs_listener(note)
main()
"""
"""The command line, with a file of JAX's events."""

READY = "compiled programs are kept"
"""What the command prints once it has imported everything and checked its arguments."""

POLL = 0.01
"""Seconds between looks at the files of a started command."""


@dataclass(frozen=True)
class Arguments:
    """Start each command several times with one cache."""

    only: tuple[str, ...] = ()
    """The commands to start. Empty for all."""
    starts: int = 3
    """Starts of each command. The first has an empty cache."""
    least: float | None = None
    """Compile seconds below which JAX does not keep a program. Without it, the command's own setting."""

    def __post_init__(self) -> None:
        unknown = [name for name in self.only if name not in COMMANDS]
        require(not unknown, f"only: unknown {', '.join(unknown)}; there are {', '.join(COMMANDS)}")
        require(self.starts >= 1, f"starts must be at least 1, not {self.starts}")


@dataclass(frozen=True)
class Event:
    """Something JAX did, by the clock of `time.time`."""

    kind: str
    begun: float
    ended: float


@dataclass(frozen=True)
class Times:
    """The moments of one start, by the same clock."""

    begun: float
    ready: float
    first_row: float
    ended: float


def start(words: Sequence[str], cache: Path, least: float | None) -> dict[str, Any]:
    """Start a command in a new run directory, and divide its time."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        variables = {**os.environ, CACHE: str(cache)}
        if least is not None:
            variables["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = str(least)
        given = [sys.executable, "-c", CHILD, str(folder / "events"), *words, "--out", str(folder / "run")]
        times = watched(given, variables, folder)
        events = events_in(folder / "events")
    before = [event for event in events if event.ended <= times.first_row]
    backend, read = (sum(event.kind == kind for event in before) for kind in ("compile", "read the cache"))
    return {
        "first_row_seconds": round(times.first_row - times.begun, 2),
        "whole_seconds": round(times.ended - times.begun, 2),
        "seconds": {"import": round(times.ready - times.begun, 2), **divided(before, times)},
        "programs": {"compiled": backend - read, "read from the cache": read},
        "cache_megabytes": round(sum(path.stat().st_size for path in cache.rglob("*") if path.is_file()) / 1e6, 1),
    }


def watched(given: Sequence[str], variables: dict[str, str], folder: Path) -> Times:
    """Run a process and look at its files until it ends."""
    said, row = folder / "said", folder / "run" / "metrics" / "learning.jsonl"
    with open(said, "wb") as file:
        begun = time.time()
        with subprocess.Popen(given, env=variables, stdout=file, stderr=file) as process:
            ready = wait_for(process, lambda: READY in said.read_text())
            first_row = wait_for(process, lambda: row.exists() and row.read_bytes().endswith(b"\n"))
        ended = time.time()
    if process.returncode != 0:
        raise CooptionsError(f"exit {process.returncode}: {said.read_text()[-2000:]}")
    return Times(begun, ready, first_row, ended)


def wait_for(process: subprocess.Popen, happened: Callable[[], bool]) -> float:
    """The time at which something happened, or at which the process ended."""
    while process.poll() is None and not happened():
        time.sleep(POLL)
    return time.time()


def events_in(path: Path) -> list[Event]:
    """The events of known kinds that a process has written."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [Event(EVENTS[name], ended - seconds, ended) for name, seconds, ended in lines if name in EVENTS]


def divided(events: Sequence[Event], times: Times) -> dict[str, float]:
    """Seconds between the imports and the first row. Time in several events belongs to the innermost kind."""
    seconds, inner = {}, 0.0
    for number, kind in enumerate(EVENTS.values(), start=1):
        kinds = list(EVENTS.values())[:number]
        spans = [(max(event.begun, times.ready), event.ended) for event in events if event.kind in kinds]
        covered = union_length(spans)
        seconds[kind], inner = round(covered - inner, 2), covered
    return {**seconds, "run and everything else": round(times.first_row - times.ready - inner, 2)}


def union_length(spans: Sequence[tuple[float, float]]) -> float:
    """The length of the union of intervals."""
    length, reached = 0.0, 0.0
    for begun, ended in sorted(spans):
        length += max(0.0, ended - max(begun, reached))
        reached = max(reached, ended)
    return length


def main(arguments: Arguments) -> None:
    rows = []
    for name in arguments.only or COMMANDS:
        with tempfile.TemporaryDirectory() as cache:
            for number in range(1, arguments.starts + 1):
                row = start(COMMANDS[name].split(), Path(cache), arguments.least)
                rows.append({"name": name, "start": number, **row, "load": round(os.getloadavg()[0], 1)})
                print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    commands = {name: f"cooptions {words}" for name, words in COMMANDS.items()}
    result = {"rows": rows, "commands": commands, "least": arguments.least, "cores": os.cpu_count(), **provenance()}
    print(json.dumps(result))


if __name__ == "__main__":
    main(tyro.cli(Arguments))
