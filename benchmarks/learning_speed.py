"""Time updates, including learning: our learners, with and without joint options, and JaxMARL's scripts.

    python -m benchmarks.learning_speed --baselines DIR > learning_speed.json

DIR has the scripts of JaxMARL's `baselines` in one folder. They run unmodified, with the same settings as ours, the
same dynamics and in the same process. `benchmarks.jaxmarl_baselines` lists what differs. `ratios` compares each script
with our counterpart, and everything else with our IQL.

With `--turn`, several of these programs can compile side by side on one device and take turns with the clock. They need
XLA_PYTHON_CLIENT_PREALLOCATE=false. With `--only-compile` and JAX_COMPILATION_CACHE_DIR, a later start finds the
programs there.
"""

import contextlib
import fcntl
import hashlib
import json
import statistics
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jax
import tyro
from rich.console import Console
from rich.table import Table

from benchmarks.contestants import CONTESTANTS, Clock, Contestant, Task, Timing
from benchmarks.jaxmarl_baselines import SCRIPTS, load_script
from cooptions.envs.scenarios import make_env
from cooptions.errors import require
from cooptions.files import encode
from cooptions.runs.directory import provenance
from cooptions.runs.paper import IQL, IQL_FOR_PICTURES

console = Console(stderr=True)


@dataclass(frozen=True)
class Arguments(Clock):
    """Time updates of all seeds together, in steady state."""

    scenario: Literal["lbf", "overcooked", "all"] = "all"
    only: tuple[str, ...] = ()
    """The names of the contestants to time. Empty for all."""
    shrink: int = 1
    """A divisor of batch and replay sizes, or of rollouts, for trying this out on a small machine."""
    turn: Path | None = None
    """A file that is locked while the clock runs, so that several of these programs can compile side by side."""
    only_compile: bool = False
    """Compile all contestants, and run none."""
    profile: Path | None = None
    """A folder for a trace of each of our contestants, which `benchmarks.profiles` reads."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.shrink >= 1, f"shrink must be at least 1, not {self.shrink}")
        unknown = [name for name in self.only if name not in CONTESTANTS]
        require(not unknown, f"only: unknown {', '.join(unknown)}; there are {', '.join(CONTESTANTS)}")
        theirs = [name for name in self.only if CONTESTANTS[name].script]
        require(self.baselines is not None or not theirs, f"only: {', '.join(theirs)} needs --baselines")


def tasks(arguments: Arguments) -> list[Task]:
    every = [
        Task("lbf", make_env("lbf-15x15-4p-3f"), IQL, 20),
        Task("overcooked", make_env("overcooked-counter_circuit"), IQL_FOR_PICTURES, 40),
    ]
    return [task.shrunk(arguments.shrink) for task in every if arguments.scenario in (task.name, "all")]


def contestants(task: Task, arguments: Arguments) -> list[str]:
    """The names of the requested contestants that can run."""
    names = [name for name, entry in CONTESTANTS.items() if entry.fits(task)]
    names = [name for name in names if not arguments.only or name in arguments.only]
    return [name for name in names if not CONTESTANTS[name].script or arguments.baselines is not None]


def row(task: Task, name: str, arguments: Arguments, timing: Timing) -> dict[str, Any]:
    seconds = statistics.median(timing.seconds)
    require(seconds > 0, f"{task.name}: {name}: its trainings are too short to time; raise --updates")
    steps = arguments.seeds * timing.steps
    return {
        "scenario": task.name,
        "name": name,
        "against": CONTESTANTS[name].against,
        "ms_per_update": round(seconds * 1e3, 3),
        "ms_each": [round(each * 1e3, 3) for each in timing.seconds],
        "steps_per_second": round(steps / seconds),
        "gigabytes": round(timing.bytes / 1e9, 3),
        "estimated_gigabytes": timing.estimated_bytes and round(timing.estimated_bytes / 1e9, 3),
        "compile_seconds": round(timing.compile_seconds, 1),
    }


def ratios(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The time per step of every contestant divided by that of the one it is compared with, if that one was timed.

    Updates of different learners have different numbers of steps.
    """
    speeds = {(row["scenario"], row["name"]): row["steps_per_second"] for row in rows}
    pairs = [(row, speeds.get((row["scenario"], row["against"]))) for row in rows]
    return {comparison(row): round(other / row["steps_per_second"], 2) for row, other in pairs if other is not None}


def comparison(row: dict[str, Any]) -> str:
    return f"{row['scenario']}: {row['name']} / {row['against']}"


def show(rows: list[dict[str, Any]], relative: dict[str, float]) -> None:
    table = Table("scenario", "contestant", "ms an update", "steps/s", "GB", "times as long a step", "as")
    for row in rows:
        cells = [row["ms_per_update"], f"{row['steps_per_second']:,}", row["gigabytes"]]
        cells += [relative.get(comparison(row), ""), row["against"] or ""]
        table.add_row(row["scenario"], row["name"], *(str(cell) for cell in cells))
    console.print(table)


def compile_all(pairs: list[tuple[Task, str]], arguments: Arguments) -> list[Contestant]:
    """Compile side by side, and report each on standard error."""

    def compile_one(pair: tuple[Task, str]) -> Contestant:
        task, name = pair
        made = CONTESTANTS[name].compile(task, arguments)
        print(f"{task.name}: {name} compiled in {made.compile_seconds:.1f} s", file=sys.stderr, flush=True)
        return made

    with ThreadPoolExecutor() as pool:
        return list(pool.map(compile_one, pairs))


@contextlib.contextmanager
def turn(path: Path | None) -> Iterator[None]:
    """Hold a file's lock, which other programs wait for."""
    if path is None:
        yield
        return
    with path.open("a") as file:  # closing it releases the lock
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def time_one(task: Task, name: str, take_time: Contestant, arguments: Arguments) -> dict[str, Any]:
    with turn(arguments.turn):
        found = row(task, name, arguments, take_time(arguments.profile and arguments.profile / f"{task.name}-{name}"))
    print(json.dumps(found), file=sys.stderr, flush=True)  # kept even if a later one fails
    return found


def main(arguments: Arguments) -> None:
    todo = tasks(arguments)
    pairs = [(task, name) for task in todo for name in contestants(task, arguments)]
    hashes = hashes_of_scripts(pairs, arguments)
    compiled = compile_all(pairs, arguments)
    if arguments.only_compile:
        return
    rows = [time_one(*pair, take_time, arguments) for pair, take_time in zip(pairs, compiled, strict=True)]
    relative = ratios(rows)
    show(rows, relative)
    result = {
        "seeds": arguments.seeds,
        "rows": rows,
        "ratios": relative,
        "device_peak_gigabytes": round((jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0) / 1e9, 3),
        "configs": {task.name: encode(task.config) for task in todo},
        "learners": {f"{task.name}: {name}": encode(task.learner(CONTESTANTS[name].learner)) for task, name in pairs},
        "scripts": hashes,
        **provenance(),
    }
    print(json.dumps(result))


def hashes_of_scripts(pairs: list[tuple[Task, str]], arguments: Arguments) -> dict[str, str]:
    """The scripts that are needed, by name. They are loaded here, before several threads use them."""
    entries = [(task, CONTESTANTS[name]) for task, name in pairs]
    scripts = [SCRIPTS[task.name][entry.learner] for task, entry in entries if entry.script]
    paths = [script.path(arguments.baselines) for script in scripts if arguments.baselines is not None]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths if load_script(path)}


if __name__ == "__main__":
    main(tyro.cli(Arguments))
