"""What an executor is, and what those that do several jobs at once have in common."""

import abc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console

from cooptions.campaigns.jobs import Job
from cooptions.campaigns.live import JobStatus, Watch, reporting
from cooptions.campaigns.rows import Block
from cooptions.campaigns.work import Failures
from cooptions.errors import Interrupted
from cooptions.training.loop import StopSignals
from cooptions.training.progress import Progress
from cooptions.training.tracking import open_tracker

Keep = Callable[[Sequence[Block]], None]
"""What is done with blocks that were just made."""


@dataclass(frozen=True)
class Site:
    """Where jobs are done, and who is told."""

    runs: Path
    """Where run directories go. All workers see it."""
    console: Console
    keep: Keep
    watch: Watch
    track: str = "none"
    """Where else its metrics are shown."""

    def log(self, job: Job) -> Path:
        """Where a job writes what it has to say."""
        return self.runs / "logs" / f"{job.name}.log"


@dataclass(frozen=True)
class AbstractExecutor(abc.ABC):
    """Does jobs, each once those before it are done. What a job makes is on disk; it tells only what failed."""

    site: Site

    @abc.abstractmethod
    def run(self, jobs: Sequence[Job]) -> Failures:
        """Do all jobs; a job that fails does not keep the others. A stop raises `Interrupted`."""


@dataclass
class AbstractTask(abc.ABC):
    """A job that is being done elsewhere."""

    job: Job
    begun: float = field(default_factory=time.monotonic, init=False)
    asked: bool = field(default=False, init=False)
    """Whether it was asked to stop."""

    @abc.abstractmethod
    def failures(self) -> Failures:
        """What failed, of a job that is over."""

    @abc.abstractmethod
    def stop(self) -> None:
        """Ask it to keep a checkpoint and end."""

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.begun


class AbstractConcurrent(AbstractExecutor):
    """Does several jobs at once, elsewhere."""

    @property
    @abc.abstractmethod
    def places(self) -> int:
        """How many jobs are begun at a time."""

    @abc.abstractmethod
    def begin(self, job: Job) -> AbstractTask: ...

    @abc.abstractmethod
    def ended(self, tasks: Sequence[AbstractTask]) -> list[AbstractTask]:
        """Those that are over, or none after a second: a signal may have come."""

    def run(self, jobs: Sequence[Job]) -> Failures:
        waiting, running, over = list(jobs), list[AbstractTask](), set[str]()
        failures: Failures = {}
        with StopSignals() as stop:
            while running or (waiting and not stop.requested):
                free = 0 if stop.requested else self.places - len(running)
                for job in [job for job in waiting if job.after <= over][:free]:
                    waiting.remove(job)
                    if left := tuple(block for block in job.blocks if block not in failures):
                        running.append(self._begun(replace(job, blocks=left)))
                    else:
                        over.add(job.name)
                for task in self.ended(running):
                    running.remove(task)
                    over.add(task.job.name)
                    failures |= self._finished(task)
                self.site.watch.refresh()
                if stop.requested:
                    for task in running:
                        _stop_once(task)
        if stop.requested:
            raise Interrupted("campaign: stopped; run the same command to go on")
        return failures

    def _begun(self, job: Job) -> AbstractTask:
        task = self.begin(job)
        self.site.watch.begun(job)
        return task

    def _finished(self, task: AbstractTask) -> Failures:
        failed = task.failures()
        became: JobStatus = ("stopped" if task.asked else "failed") if failed else "done"
        self.site.watch.ended(task.job, became, task.seconds)
        self.site.keep([block for block in task.job.blocks if block not in failed])
        return failed


def _stop_once(task: AbstractTask) -> None:
    """Asked a second time, it would stop at once and lose what it did since its last checkpoint."""
    if not task.asked:
        task.asked = True
        task.stop()


def do_job(job: Job, runs: Path, log: Path, track: str) -> Failures:
    """A job, with what it says in a file and its progress beside it. This is what happens elsewhere."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", buffering=1) as file:
        console = Console(file=file, width=120)
        try:
            return do_tracked(job, runs, log, track, console)
        except (Interrupted, KeyboardInterrupt) as stopped:
            console.print(f"stopped: {stopped}", markup=False)
            raise


def do_tracked(job: Job, runs: Path, log: Path, track: str, console: Console) -> Failures:
    """A job, shown on a console and to a tracker, which has a folder for each job beside the logs."""
    blocks = {"blocks": [str(block) for block in job.blocks]}
    with open_tracker(track, log.with_suffix(""), blocks) as tracker:
        return job.work(job.blocks, runs, reporting(Progress(console, tracker), log))
