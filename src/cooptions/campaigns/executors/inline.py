"""Run one job after the other in this process."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from cooptions.campaigns.executors.base import AbstractExecutor, do_job, do_tracked
from cooptions.campaigns.jobs import Job
from cooptions.campaigns.work import Failures


@dataclass(frozen=True)
class Inline(AbstractExecutor):
    """Runs jobs in the order of the plan. The training loop handles Ctrl-C."""

    def run(self, jobs: Sequence[Job]) -> Failures:
        failures: Failures = {}
        for job in jobs:
            blocks = tuple(block for block in job.blocks if block not in failures)
            if blocks:
                failures |= self._do(Job(job.name, job.work, blocks))
        return failures

    def _do(self, job: Job) -> Failures:
        begun = time.monotonic()
        self.site.watch.begun(job)
        failed = self._work(job)
        self.site.watch.ended(job, "failed" if failed else "done", time.monotonic() - begun)
        self.site.keep([block for block in job.blocks if block not in failed])
        return failed

    def _work(self, job: Job) -> Failures:
        log = self.site.log(job)
        if self.site.watch.is_live:  # the table has the terminal
            return do_job(job, self.site.runs, log, self.site.track)
        return do_tracked(job, self.site.runs, log, self.site.track, self.site.console)
