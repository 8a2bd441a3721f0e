"""Live status of a campaign: a table on a terminal, lines elsewhere. Workers report in files beside their logs."""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cooptions.campaigns.jobs import Job
from cooptions.campaigns.rows import Block, Row
from cooptions.errors import ArtifactError
from cooptions.files import Json, read_json, write_json
from cooptions.training.progress import Progress, StageProgress

JobStatus = Literal["running", "done", "failed", "stopped"]

REPORT_SECONDS = 1.0
"""The minimum interval between a worker's reports."""


class ReportingProgress(Progress):
    """Progress that is also written to a report file."""

    def __init__(self, progress: Progress, path: Path) -> None:
        super().__init__(progress.console, progress.tracker)
        self.path = path

    @contextlib.contextmanager
    def stage(self, name: str, num_steps: int, done: int = 0) -> Iterator[StageProgress]:
        with super().stage(name, num_steps, done) as show:
            yield _Reporting(show, self.path)  # pyright: ignore[reportReturnType]


class _Reporting:
    """Wraps the progress of a stage and writes it to a report file at most every `REPORT_SECONDS`."""

    def __init__(self, show: StageProgress, path: Path) -> None:
        self.show, self.path = show, path
        self.begun, self.begun_at, self.spoken = time.monotonic(), show.done, 0.0
        self.report()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.show, name)

    def advance(self, steps: int, metrics: dict[str, Any], *, earlier: bool = False) -> None:
        self.show.advance(steps, metrics, earlier=earlier)
        self.begun_at += steps if earlier else 0
        self.report()

    def report(self) -> None:
        now = time.monotonic()
        done, num_steps = self.show.done, self.show.num_steps
        if now - self.spoken < REPORT_SECONDS and done < num_steps:
            return
        self.spoken = now
        speed = (done - self.begun_at) / max(now - self.begun, 1e-9)
        left = (num_steps - done) / speed if speed > 0 else None
        with contextlib.suppress(ArtifactError):  # training continues without reports
            write_json(self.path, {"stage": self.show.name, "done": done, "of": num_steps, "seconds_left": left})


def reporting(progress: Progress, log: Path) -> Progress:
    """Progress that is also reported in a file beside the log."""
    return ReportingProgress(progress, report_path(log))


def report_path(log: Path) -> Path:
    return log.with_suffix(".json")


@dataclass
class Watch:
    """Shows the status of every row: as a table on a terminal, elsewhere as a line for each job."""

    rows: Mapping[Row, Sequence[Block]]
    """All blocks of each row."""
    missing: Sequence[Block]
    console: Console
    logs: Path
    is_live: bool = False
    running: dict[str, Job] = field(default_factory=dict)
    done: set[Block] = field(default_factory=set)
    failed: set[Block] = field(default_factory=set)
    begun_at: float = field(default_factory=time.monotonic)
    _live: Live | None = None

    def __enter__(self) -> "Watch":
        self.begun_at = time.monotonic()
        if self.is_live:
            self._live = Live(get_renderable=self.table, console=self.console, refresh_per_second=1, transient=False)
            self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def begun(self, job: Job) -> None:
        self.running[job.name] = job
        self._print(f"begun: {job.name}")

    def ended(self, job: Job, became: JobStatus, seconds: float) -> None:
        del self.running[job.name]
        if became == "done" and not job.name.startswith("discover"):
            self.done |= set(job.blocks)
        if became == "failed":
            self.failed |= set(job.blocks)
        report_path(self.logs / f"{job.name}.log").unlink(missing_ok=True)
        self._print(f"{became}: {job.name}, {seconds:.0f} s")

    def refresh(self) -> None:
        if self._live is not None:
            self._live.refresh()

    def table(self) -> Table:
        """The status table: for each incomplete row its finished seeds, current stages and time left."""
        table = Table("scenario", "method", "seeds", "state", "time left", box=None, pad_edge=False)
        reports = {name: self._report(name) for name in list(self.running)}
        for row, blocks in self.rows.items():
            if any(block in self.missing for block in blocks):
                table.add_row(*map(Text, self._cells(row, blocks, reports)))
        table.caption = self.summary(reports)
        return table

    def summary(self, reports: Mapping[str, Json]) -> str:
        """The number of finished blocks, and the estimated time left at the current speed, in words."""
        total, made = len(self.missing), len(self.done)
        begun = sum(_share(reports[name]) * len(job.blocks) for name, job in self._learning() if name in reports)
        share = (made + begun) / max(total, 1)
        elapsed = time.monotonic() - self.begun_at
        left = f"; about {_clock(elapsed * (1 - share) / share)} left" if 0 < share < 1 else ""
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"{made} of {total} blocks made{failed} in {_clock(elapsed)}{left}"

    def _learning(self) -> list[tuple[str, Job]]:
        return [(name, job) for name, job in list(self.running.items()) if not name.startswith("discover")]

    def _report(self, name: str) -> Json:
        try:
            return read_json(report_path(self.logs / f"{name}.log"))
        except ArtifactError:
            return {}

    def _cells(self, row: Row, blocks: Sequence[Block], reports: Mapping[str, Json]) -> list[str]:
        there = [block for block in blocks if block not in self.missing or block in self.done]
        seeds = f"{sum(b.num_seeds for b in there)} of {sum(b.num_seeds for b in blocks)}"
        at_work = [reports[name] for name, job in list(self.running.items()) if set(job.blocks) & set(blocks)]
        if len(there) == len(blocks):
            return [row.place, row.label, seeds, "done", ""]
        if not at_work:
            return [row.place, row.label, seeds, "failed" if set(blocks) & self.failed else "waiting", ""]
        states = dict.fromkeys(f"{report.get('stage', 'starting')} {_share(report):.0%}" for report in at_work)
        left = [report["seconds_left"] for report in at_work if report.get("seconds_left") is not None]
        return [row.place, row.label, seeds, ", ".join(states), _clock(max(left)) if left else ""]

    def _print(self, line: str) -> None:
        if not self.is_live:
            self.console.print(line, markup=False, soft_wrap=True)


def _share(report: Json) -> float:
    return report["done"] / max(report["of"], 1) if report else 0.0


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
