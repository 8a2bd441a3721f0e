"""The base class of executors, and of those that run several jobs at once."""

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
"""A function that is called with blocks that were just finished."""


@dataclass(frozen=True)
class Site:
    """The folder and output channels that all jobs of a campaign share."""

    runs: Path
    """The folder for run directories. All workers need access to it."""
    console: Console
    keep: Keep
    watch: Watch
    track: str = "none"
    """The tracker that shows live metrics."""

    def log(self, job: Job) -> Path:
        """The path of a job's log."""
        return self.runs / "logs" / f"{job.name}.log"


@dataclass(frozen=True)
class AbstractExecutor(abc.ABC):
    """Runs jobs in the order of their dependencies. Jobs write their results to disk and return only failures."""

    site: Site

    @abc.abstractmethod
    def run(self, jobs: Sequence[Job]) -> Failures:
        """Run all jobs. A failed job does not stop the others. A signal raises `Interrupted`."""


@dataclass
class AbstractTask(abc.ABC):
    """A job that runs in another process."""

    job: Job
    begun: float = field(default_factory=time.monotonic, init=False)
    asked: bool = field(default=False, init=False)
    """Whether it has been asked to stop."""

    @abc.abstractmethod
    def failures(self) -> Failures:
        """The failures of a finished job."""

    @abc.abstractmethod
    def stop(self) -> None:
        """Ask it to save a checkpoint and end."""

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.begun


class AbstractConcurrent(AbstractExecutor):
    """Runs several jobs at once in other processes."""

    @property
    @abc.abstractmethod
    def places(self) -> int:
        """The number of jobs that may run at once."""

    @abc.abstractmethod
    def begin(self, job: Job) -> AbstractTask: ...

    @abc.abstractmethod
    def ended(self, tasks: Sequence[AbstractTask]) -> list[AbstractTask]:
        """The finished tasks. Returns after at most a second, so that signals are noticed."""

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
    """Stop a task unless it has been asked already: a second request would end it without a checkpoint."""
    if not task.asked:
        task.asked = True
        task.stop()


def do_job(job: Job, runs: Path, log: Path, track: str) -> Failures:
    """Do a job in a worker, with its output in a log file and its progress in a report beside it."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", buffering=1) as file:
        console = Console(file=file, width=120)
        try:
            return do_tracked(job, runs, log, track, console)
        except (Interrupted, KeyboardInterrupt) as stopped:
            console.print(f"stopped: {stopped}", markup=False)
            raise


def do_tracked(job: Job, runs: Path, log: Path, track: str, console: Console) -> Failures:
    """Do a job with progress on a console and in a tracker, which has a folder for each job beside the logs."""
    blocks = {"blocks": [str(block) for block in job.blocks]}
    with open_tracker(track, log.with_suffix(""), blocks) as tracker:
        return job.work(job.blocks, runs, reporting(Progress(console, tracker), log))
