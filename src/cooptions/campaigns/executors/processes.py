"""Several programs at once, each in a process of its own: one alone leaves a large device waiting for the next launch.

Processes are spawned, not forked, as JAX has threads, and have a session of their own: a Ctrl-C reaches this process
alone, which passes it on once. When this process dies, however it dies, they end at once and leave no lock behind.
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
    """A job in a process."""

    process: SpawnProcess
    answer: connection.Connection
    alive: connection.Connection
    """Held open as long as this process lives."""
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
    """On this machine."""

    beside: int = 2
    """How many at once."""

    def __post_init__(self) -> None:
        require(self.beside >= 1, f"beside must be at least 1, not {self.beside}")
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # or the first takes all memory of a GPU

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
        end.close()  # so that an end of file is seen here when the process ends without an answer
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
    """What happens in the process. What it makes names the command that was typed, not the one that spawned it."""
    os.setsid()
    threading.Thread(target=_end_with_parent, args=(watched,), daemon=True).start()
    sys.orig_argv = command
    with answer:
        try:
            answer.send(do_job(job, runs, log, track))
        except (Interrupted, KeyboardInterrupt):
            sys.exit(128 + signal.SIGINT)


def _end_with_parent(watched: connection.Connection) -> None:
    """Nothing is ever sent: there is something to read once the other end is closed, by whatever closed it."""
    watched.poll(None)
    os._exit(1)
