"""Run several programs at once, each in its own process, because a single one does not keep a large device busy.

Processes are spawned, not forked, because JAX has threads. Each has its own session, so that Ctrl-C reaches only the
parent process, which forwards it once. If the parent dies in any way, they end at once and leave no lock behind.
"""

import os
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import connection, get_context
from multiprocessing.context import SpawnProcess
from pathlib import Path

from cooptions.campaigns.executors.base import AbstractConcurrent, AbstractTask, do_job
from cooptions.campaigns.jobs import Job
from cooptions.campaigns.work import Failures
from cooptions.errors import Interrupted, require


@dataclass
class Process(AbstractTask):
    """A job that runs in a process."""

    process: SpawnProcess
    answer: connection.Connection
    alive: connection.Connection
    """The end of a pipe that stays open as long as the parent process lives."""
    log: Path

    def stop(self) -> None:
        if self.process.is_alive():
            os.kill(self.process.pid or 0, signal.SIGINT)

    def failures(self) -> Failures:
        self.process.join()
        self.alive.close()
        try:
            return self.answer.recv()
        except EOFError:
            reason = f"its process ended with exit code {self.process.exitcode}; see {self.log}"
            return dict.fromkeys(self.job.blocks, reason)


@dataclass(frozen=True)
class Processes(AbstractConcurrent):
    """Runs jobs in parallel processes on this machine."""

    beside: int = 2
    """The number of parallel processes."""

    def __post_init__(self) -> None:
        require(self.beside >= 1, f"beside must be at least 1, not {self.beside}")
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # otherwise the first takes all memory of a GPU

    @property
    def places(self) -> int:
        return self.beside

    def begin(self, job: Job) -> Process:
        answer, end = connection.Pipe(duplex=False)
        watched, alive = connection.Pipe(duplex=False)
        log = self.site.log(job)
        arguments = (job, self.site.runs, log, self.site.track, end, watched, sys.orig_argv)
        process = get_context("spawn").Process(target=_do, args=arguments, daemon=True)
        process.start()
        end.close()  # so that reading ends with an end of file if the process dies without an answer
        watched.close()
        return Process(job, process, answer, alive, log)

    def ended(self, tasks: Sequence[Process]) -> list[Process]:
        over = connection.wait([task.process.sentinel for task in tasks], timeout=1.0)
        return [task for task in tasks if task.process.sentinel in over]


def _do(
    job: Job,
    runs: Path,
    log: Path,
    track: str,
    answer: connection.Connection,
    watched: connection.Connection,
    command: list[str],
) -> None:
    """The main function of the process. Its artefacts record the parent's command line, `command`."""
    os.setsid()
    threading.Thread(target=_end_with_parent, args=(watched,), daemon=True).start()
    sys.orig_argv = command
    with answer:
        try:
            answer.send(do_job(job, runs, log, track))
        except (Interrupted, KeyboardInterrupt):
            sys.exit(128 + signal.SIGINT)


def _end_with_parent(watched: connection.Connection) -> None:
    """Exit when the parent's end of the pipe is closed. Nothing is ever sent, so `poll` returns only then."""
    watched.poll(None)
    os._exit(1)
