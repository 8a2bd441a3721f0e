"""Several programs at once, each in a process of its own: one alone leaves a large device waiting for the next launch.

What is made is on disk, so that processes tell each other nothing but what failed. They are spawned, not forked, as JAX
has threads, and have a session of their own: a Ctrl-C reaches this process alone, which passes it on once.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing import connection, get_context
from multiprocessing.context import SpawnProcess
from pathlib import Path

from rich.console import Console

from cooptions.campaigns.execute import Failures, Keep, attempt, discover, learn_group, prepared
from cooptions.campaigns.plan import Group, Plan
from cooptions.campaigns.rows import Block
from cooptions.errors import Interrupted
from cooptions.files import Json
from cooptions.runs.directory import RunDirectory
from cooptions.training.loop import StopSignals
from cooptions.training.progress import Progress

Work = Callable[[Sequence[Block], Path, Progress], Failures]
"""What a process does for some blocks; what failed."""


@dataclass(frozen=True)
class Job:
    """What one process makes, once others are made."""

    name: str
    work: Work
    blocks: tuple[Block, ...]
    after: frozenset[str] = frozenset()
    """The names of those it waits for. Blocks that failed there are left out."""


@dataclass
class Process:
    """A job that is being done."""

    job: Job
    process: SpawnProcess
    answer: connection.Connection
    log: Path
    begun: float = field(default_factory=time.monotonic)
    asked: bool = False
    """Whether it was asked to stop."""

    def ask_to_stop(self) -> None:
        """Once: asked a second time, it would stop at once and lose what it did since its last checkpoint."""
        if not self.asked and self.process.is_alive():
            os.kill(self.process.pid or 0, signal.SIGINT)
        self.asked = True

    def failures(self) -> Failures:
        """What failed, of a process that is over."""
        self.process.join()
        try:
            return self.answer.recv()
        except EOFError:
            reason = f"its process ended with exit code {self.process.exitcode}; see {self.log}"
            return dict.fromkeys(self.job.blocks, reason)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.begun


def execute_beside(plan: Plan, runs: Path, progress: Progress, after: Keep, num: int) -> Failures:
    """What `execute` does, with up to so many processes; each writes to a file among the runs' logs."""
    return run_jobs(jobs(plan, runs), runs, progress.console, after, num)


def jobs(plan: Plan, runs: Path) -> list[Job]:
    """Discoveries that are missing, each made once, then what learns from them; what learns from none need not wait."""
    discoveries: dict[str, Job] = {}
    learning = []
    for group in plan.groups:
        found = [block for block in group.blocks if _discovers(block, runs)]
        for block in found:
            discoveries.setdefault(_discovery(block), Job(_name("discover", block), discover_blocks, (block,)))
        needs = frozenset(discoveries[_discovery(block)].name for block in found)
        learning.append(Job(_name("learn", group.blocks[0]), learn_blocks, group.blocks, needs))
    alone = (Job(_name("make", block), discover_blocks, (block,)) for block in plan.alone)
    return [*discoveries.values(), *learning, *alone]


def _discovers(block: Block, runs: Path) -> bool:
    """Whether something before learning is missing."""
    return not _before_learning(block).keys() <= RunDirectory(runs / block.place).manifest.keys()


def _discovery(block: Block) -> str:
    """What tells discoveries apart: blocks that agree in it take over each other's."""
    return f"{block.row.place} {_before_learning(block)}"


def _before_learning(block: Block) -> dict[str, Json]:
    return {stage: config for stage, config in block.stages.items() if stage != "learning"}


def _name(what: str, block: Block) -> str:
    return ".".join([what, *block.place.parts])


def discover_blocks(blocks: Sequence[Block], runs: Path, progress: Progress) -> Failures:
    """All that comes before learning."""
    failures: Failures = {}
    for block in blocks:
        make = prepared if block.row.learns else discover
        attempt(failures, [block], progress, lambda block=block, make=make: make(block, runs, progress))
    return failures


def learn_blocks(blocks: Sequence[Block], runs: Path, progress: Progress) -> Failures:
    """Learning, in one program."""
    failures: Failures = {}
    learn_group(Group(tuple(blocks)), runs, progress, failures)
    return failures


def run_jobs(todo: Sequence[Job], runs: Path, console: Console, after: Keep, num: int) -> Failures:
    """Do every job whose turn it is, in the order they came in; `after` sees the blocks that were just made."""
    waiting, running, over = list(todo), list[Process](), set[str]()
    failures: Failures = {}
    with StopSignals() as stop:
        while running or (waiting and not stop.requested):
            free = 0 if stop.requested else num - len(running)
            for job in [job for job in waiting if job.after <= over][:free]:
                waiting.remove(job)
                if left := [block for block in job.blocks if block not in failures]:
                    running.append(_start(replace(job, blocks=tuple(left)), runs))
                    console.print(f"begun: {job.name}; {running[-1].log}", markup=False, soft_wrap=True)
                else:
                    over.add(job.name)
            for each in _ended(running):
                running.remove(each)
                over.add(each.job.name)
                failed = each.failures()
                failures |= failed
                became = ("stopped" if each.asked else "failed") if failed else "done"
                console.print(f"{became}: {each.job.name}, {each.seconds:.0f} s", markup=False)
                after([block for block in each.job.blocks if block not in failures])
            if stop.requested:
                for each in running:
                    each.ask_to_stop()
    if stop.requested:
        raise Interrupted("reproduce: stopped; run the same command to go on")
    return failures


def _start(job: Job, runs: Path) -> Process:
    log = runs / "logs" / f"{job.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    answer, end = connection.Pipe(duplex=False)
    process = get_context("spawn").Process(target=_do, args=(job, runs, log, end, sys.orig_argv), daemon=True)
    process.start()
    end.close()  # so that an end of file is seen here when the process ends without an answer
    return Process(job, process, answer, log)


def _do(job: Job, runs: Path, log: Path, answer: connection.Connection, command: list[str]) -> None:
    """What happens in the process. What it makes names the command that was typed, not the one that spawned it."""
    os.setsid()
    sys.orig_argv = command
    with log.open("a", buffering=1) as file, answer:
        console = Console(file=file, width=120)
        try:
            answer.send(job.work(job.blocks, runs, Progress(console)))
        except (Interrupted, KeyboardInterrupt) as stopped:
            console.print(f"stopped: {stopped}", markup=False)
            sys.exit(128 + signal.SIGINT)


def _ended(running: Sequence[Process]) -> list[Process]:
    """Those that are over, or none after a second: a signal may have come."""
    over = connection.wait([each.process.sentinel for each in running], timeout=1.0)
    return [each for each in running if each.process.sentinel in over]
