"""Test whether a process leaks memory, open files or memory maps while it makes and deletes runs.

python -m benchmarks.load --minutes 60 --json results/faults/load-cpu.json

Each cycle makes a tiny run with new seeds. Ctrl-C stops each trained stage once, and the next session resumes it. Then
the result is loaded and evaluated. Methods alternate. The first cycle of each method compiles and is not counted.
"""

import contextlib
import json
import os
import shutil
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import jax
import tyro
from rich.console import Console

from cooptions.cli.compilation import keep_compiled
from cooptions.cli.early import divide_early
from cooptions.cli.pipeline import asked_for
from cooptions.cli.train import TrainArguments
from cooptions.errors import Interrupted
from cooptions.files import Json, write_bytes
from cooptions.runs.config import Config
from cooptions.runs.directory import provenance
from cooptions.runs.learned import evaluate_run, write_scores
from cooptions.runs.option_sets import write_option_sets
from cooptions.runs.run import Run
from cooptions.runs.stages import stage_configs
from cooptions.scores.tables import markdown_table
from cooptions.training.progress import Progress, StageProgress
from cooptions.training.signals import obey_signals

LEARNING = "--seeds 2 --learning.evaluations 4 --learning.episodes 8 --learning.learner.steps 6400"
DISCOVERY = (
    "--walk.transitions 2000 --walk.num-envs 20 --laplacian.num-eigenfunctions 2 "
    "--options.learner.steps 12800 --options.num-starts 64"
)
METHODS = (
    f"--method iql+hit {DISCOVERY} --representation.steps 100 {LEARNING}",
    f"--method mappo {LEARNING} --learning.learner.num-envs 16 --learning.learner.rollout 20",
)
"""Flags of `cooptions train`: one method with our discovery and options, one without options."""
SCENARIO = "grid-5x5-2p,task=meet"
STAGES = ("representation", "options", "learning")
"""The stages that are trained, and so can be stopped midway."""
COLUMNS = ("minute", "cycles", "resident MB", "open files", "memory maps", "threads", "programs", "seconds a cycle")


@dataclass(frozen=True)
class Arguments:
    """The duration and the result file."""

    minutes: float = 60.0
    json: Path = Path("results/faults/load-cpu.json")
    """The result file, with a line for each minute."""


@dataclass(frozen=True)
class Look:
    """The resources of the process after a cycle."""

    at: float
    """Seconds since the start."""
    resident: float
    """Resident memory in megabytes."""
    files: int
    maps: int
    threads: int
    programs: int
    """The number of programs compiled in the cycle."""
    seconds: float
    """The duration of the cycle."""


class Stopped(Progress):
    """Sends SIGINT in the middle of one stage."""

    def __init__(self, stage: str) -> None:
        super().__init__(Console(quiet=True))
        self.wanted = stage

    @contextlib.contextmanager
    def stage(self, name: str, num_steps: int, done: int = 0) -> Iterator[StageProgress]:
        with super().stage(name, num_steps, done) as show:
            advance = show.advance

            def count(steps: int, metrics: dict, *, earlier: bool = False) -> None:
                advance(steps, metrics, earlier=earlier)
                if name == self.wanted and not earlier and show.done >= num_steps / 3:
                    self.wanted = ""
                    os.kill(os.getpid(), signal.SIGINT)

            show.advance = count
            yield show


def configuration(number: int) -> Config:
    """The configuration of a cycle, made from a command line. It differs from earlier ones only in the seeds."""
    words = [SCENARIO, *METHODS[number % len(METHODS)].split(), "--seed", str(2 * number)]
    return asked_for("train", TrainArguments, *divide_early("train", TrainArguments, words))


def cycle(number: int, folder: Path) -> None:
    """Make a whole run in several sessions, all but the last of which are stopped."""
    path, stages = folder / f"run-{number}", stage_configs(configuration(number), "learning")
    for stage in (*(each for each in STAGES if each in stages), ""):
        config, progress = configuration(number), Stopped(stage)
        try:
            with obey_signals(), Run.open(config, path, "learning", progress) as run:
                fill(run)
        except Interrupted:
            if progress.wanted or not stage:  # not our own signal
                raise
    with Run.reopen(path) as run:
        evaluate_run(run, 8, run.config.keys("evaluate"))
    shutil.rmtree(path)


def fill(run: Run) -> None:
    """Make the missing stages of a run, like `cooptions train`."""
    for name in run.stages("learning"):
        run.make(name)
    if run.config.discovers:
        write_option_sets(run)
    write_scores(run)


def work(seconds: float, programs: Callable[[], int], tell: Callable[[Look], None]) -> list[Look]:
    """Run cycles until the time is over. The time starts after one cycle of each method, which compiles it."""
    looks: list[Look] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(len(METHODS)):
            cycle(number, Path(folder))
        begun = time.monotonic()
        while time.monotonic() - begun < seconds:
            before, compiled = time.monotonic(), programs()
            cycle(len(METHODS) + len(looks), Path(folder))
            now = time.monotonic()
            looks.append(look(now - begun, programs() - compiled, now - before))
            tell(looks[-1])
    return looks


def look(at: float, programs: int, seconds: float) -> Look:
    lines = Path("/proc/self/status").read_text().splitlines()
    resident = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
    maps = len(Path("/proc/self/maps").read_bytes().splitlines())
    return Look(
        at,
        resident * 1024 / 1e6,
        len(os.listdir("/proc/self/fd")),
        maps,
        len(os.listdir("/proc/self/task")),
        programs,
        seconds,
    )


def count_programs() -> Callable[[], int]:
    """A function that returns the number of programs compiled since this call."""
    counted = []

    def count(event: str, seconds: float, **details: object) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            counted.append(event)

    jax.monitoring.register_event_duration_secs_listener(count)
    return lambda: len(counted)


def by_minute(looks: list[Look]) -> list[list[float]]:
    """A row for each minute in which a cycle ended: medians, and the sum of compiled programs."""
    rows = []
    for minute in sorted({int(each.at // 60) for each in looks}):
        those = [each for each in looks if int(each.at // 60) == minute]
        middle = [statistics.median(values) for values in zip(*map(_measured, those), strict=True)]
        programs = sum(each.programs for each in those)
        rows.append([minute, len(those), *(round(value, 1) for value in middle), programs, _seconds(those)])
    return rows


def _measured(one: Look) -> tuple[float, ...]:
    return one.resident, one.files, one.maps, one.threads


def _seconds(looks: list[Look]) -> float:
    return round(statistics.median(each.seconds for each in looks), 1)


def summary(looks: list[Look], minutes: float) -> Json:
    """The resources in minutes 5 to 10, in the last ten minutes, and at most."""
    early = [each for each in looks if 300 <= each.at < 600] or looks[: len(looks) // 2]
    late = [each for each in looks if each.at >= 60 * minutes - 600][-len(looks) // 2 :]
    names = ("resident MB", "open files", "memory maps", "threads")
    columns = (list(zip(*map(_measured, those), strict=True)) for those in (early, late, looks))
    rows = {}
    for name, first, last, every in zip(names, *columns, strict=True):
        begin, end = statistics.median(first), statistics.median(last)
        change = round(100 * (end / begin - 1), 2)
        rows[name] = {"early": round(begin, 1), "late": round(end, 1), "most": round(max(every), 1), "change %": change}
    return rows


def written(looks: list[Look], minutes: float) -> bytes:
    """The content of the result file, with a line for each minute."""
    head = {"cycles": len(looks), "minutes": minutes, "held": summary(looks, minutes), "columns": COLUMNS}
    head |= {"cores": os.cpu_count(), **provenance()}
    rows = ",\n  ".join(json.dumps(row) for row in by_minute(looks))
    return f'{json.dumps(head, indent=1)[:-2]},\n "rows": [\n  {rows}\n ]\n}}\n'.encode()


def main(arguments: Arguments) -> None:
    keep_compiled(True)  # as every command does
    looks = work(60 * arguments.minutes, count_programs(), lambda each: print(each, flush=True))
    write_bytes(arguments.json, written(looks, arguments.minutes))
    held = summary(looks, arguments.minutes)
    rows = [[name, *(str(value) for value in each.values())] for name, each in held.items()]
    print(markdown_table(["", "minutes 5 to 10", "last 10 minutes", "most", "change %"], rows), end="")


if __name__ == "__main__":
    main(tyro.cli(Arguments))
