"""Run jobs as tasks of a Ray cluster whose nodes share the storage of the run directories.

If a worker or node dies, Ray starts its task again elsewhere. The task resumes from its last checkpoint on the shared
storage.
"""

import importlib
import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from cooptions.campaigns.executors.base import AbstractConcurrent, AbstractTask, do_job
from cooptions.campaigns.jobs import Job
from cooptions.campaigns.work import Failures, wait_until_free
from cooptions.errors import ConfigError, Interrupted, require

LOCK_SECONDS = 120.0
"""How long a restarted task waits for locks that its dying predecessor still holds."""

PASSED_ON = ("XLA_FLAGS", "JAX_PLATFORMS", "JAX_COMPILATION_CACHE_DIR", "PYTHONPATH")
"""Environment variables that are passed on to tasks if they are set."""


@dataclass
class RayTask(AbstractTask):
    """A job that runs on the cluster."""

    ray: ModuleType
    reference: Any
    log: Path

    def stop(self) -> None:
        self.ray.cancel(self.reference, force=False)  # raises KeyboardInterrupt in the task

    def failures(self) -> Failures:
        try:
            return self.ray.get(self.reference)
        except (self.ray.exceptions.RayError, Interrupted, KeyboardInterrupt) as error:
            lines = str(error).strip().splitlines() or [""]
            reason = f"{type(error).__name__}: {lines[-1]}; see {self.log}"
            return dict.fromkeys(self.job.blocks, reason)


@dataclass(frozen=True)
class OnRay(AbstractConcurrent):
    """Runs jobs on a Ray cluster, or on a local one that it starts."""

    address: str = ""
    """The cluster's address: `auto` on one of its nodes, or `ray://HOST:10001`. Empty to start a local cluster."""
    gpus: float = 0.0
    """The fraction of a GPU that a task takes. With 0.25, four tasks share a GPU."""
    cpus: float = 1.0
    """The number of cores that a task takes."""
    retries: int = 5
    """How often a task is restarted if its worker or node dies."""

    def __post_init__(self) -> None:
        require(self.gpus >= 0, f"gpus must not be negative, not {self.gpus}")
        require(self.cpus >= 0, f"cpus must not be negative, not {self.cpus}")
        require(self.gpus + self.cpus > 0, "gpus, cpus: a task must take something of a node")
        require(self.retries >= 0, f"retries must not be negative, not {self.retries}")

    @property
    def places(self) -> int:
        """Unlimited: all jobs are submitted, and the cluster decides how many run at once."""
        return sys.maxsize

    @cached_property
    def ray(self) -> ModuleType:
        """The `ray` package, connected to the cluster."""
        try:
            ray = importlib.import_module("ray")
        except ImportError:
            raise ConfigError("executor: ray is not installed; pip install 'cooptions[cluster]'") from None
        if not ray.is_initialized():
            try:
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)  # Ray's daemons do not use JAX
                    ray.init(**self._options)
            except (ConnectionError, OSError, RuntimeError, ValueError) as error:
                raise ConfigError(f"address: no cluster at {self.address!r}: {_first_line(error)}") from None
        return ray

    @property
    def _options(self) -> dict[str, Any]:
        if self.address:
            return {"address": self.address, "log_to_driver": False}
        return {"address": "local", "log_to_driver": False, "include_dashboard": False}

    def begin(self, job: Job) -> RayTask:
        runs = self.site.runs.absolute()
        log = replace(self.site, runs=runs).log(job)
        variables = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        options = {
            "num_gpus": self.gpus,
            "num_cpus": self.cpus,
            "max_retries": self.retries,
            "name": job.name,
            "runtime_env": {"env_vars": {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **variables}},
        }
        task = self.ray.remote(_do).options(**options)
        return RayTask(job, self.ray, task.remote(job, runs, log, self.site.track, sys.orig_argv), log)

    def ended(self, tasks: Sequence[RayTask]) -> list[RayTask]:
        if not tasks:
            return []
        over, _ = self.ray.wait([task.reference for task in tasks], timeout=1.0)
        return [task for task in tasks if task.reference in over]


def _do(job: Job, runs: Path, log: Path, track: str, command: list[str]) -> Failures:
    """The function that a worker of the cluster runs."""
    sys.orig_argv = command
    wait_until_free(job.blocks, runs, LOCK_SECONDS)
    return do_job(job, runs, log, track)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
