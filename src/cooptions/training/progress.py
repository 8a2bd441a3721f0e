"""Progress of training: a bar with speed and time left on a terminal, or a line every ten seconds elsewhere."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from cooptions.training.tracking import AbstractTracker, NoTracker


class Progress:
    """Shows the stages of a run on the console and, if there is one, in a tracker."""

    seeds: Sequence[int] = ()
    """The numbers of the trained seeds, in order. Without them, seeds are counted from 0."""

    def __init__(self, console: Console, tracker: AbstractTracker | None = None) -> None:
        self.console = console
        self.tracker = tracker or NoTracker()

    def seed_name(self, index: int) -> str:
        """The name of the seed at this position, for messages."""
        return f"seed {self.seeds[index] if index < len(self.seeds) else index}"

    @classmethod
    def silent(cls) -> "Progress":
        return cls(Console(quiet=True))

    @classmethod
    def of(cls, progress: "Progress | bool | None") -> "Progress":
        """The `Progress` for an argument `progress=`: on standard error for True, silent for False or None."""
        if isinstance(progress, Progress):
            return progress
        return cls(Console(stderr=True)) if progress else cls.silent()

    def warn(self, message: str) -> None:
        self.console.print("[yellow]warning:[/]", escape(message), soft_wrap=True)

    @contextlib.contextmanager
    def stage(self, name: str, num_steps: int, done: int = 0) -> Iterator["StageProgress"]:
        columns = (
            TextColumn("{task.description:>12}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        with RichProgress(*columns, console=self.console, disable=not self.console.is_terminal) as bars:
            task = bars.add_task(name, total=num_steps, completed=done, speed="", note="")
            yield StageProgress(self.console, bars, task, name, num_steps, done)


class StageProgress:
    """Progress of one stage."""

    def __init__(
        self, console: Console, bars: RichProgress, task: TaskID, name: str, num_steps: int, done: int
    ) -> None:
        self.console, self.bars, self.task = console, bars, task
        self.name, self.num_steps, self.done = name, num_steps, done
        self.begun, self.begun_at = time.monotonic(), done
        self.spoken = self.begun
        self.note, self.said_compiling = "", False

    @contextlib.contextmanager
    def compiling(self) -> Iterator[None]:
        """Show `compiling ...` while the body runs."""
        self.bars.update(self.task, note="compiling ...")
        if not self.console.is_terminal and not self.said_compiling:
            self.said_compiling = True
            self.console.print(f"{self.name:>12} compiling ...")
        try:
            yield
        finally:
            self.bars.update(self.task, note="")
            if self.done == self.begun_at:  # the speed leaves compilation out
                self.begun = time.monotonic()

    def advance(self, steps: int, metrics: dict[str, np.ndarray], *, earlier: bool = False) -> None:
        """Add `steps` to the bar. `earlier` steps come from a checkpoint. Empty metrics keep those shown before."""
        self.done += steps
        self.begun_at += steps if earlier else 0
        now = time.monotonic()
        speed = f"{(self.done - self.begun_at) / max(now - self.begun, 1e-9):,.0f} steps/s"
        shown = sorted(metrics.items(), key=lambda item: not item[0].startswith("evaluated"))[:3]
        self.note = ", ".join(f"{key} {_mean(value):.3g}" for key, value in shown) or self.note
        self.bars.update(self.task, completed=self.done, speed=speed, note=self.note)
        if not self.console.is_terminal and not earlier and (now - self.spoken > 10 or self.done == self.num_steps):
            self.spoken = now
            self.console.print(f"{self.name:>12} {self.done}/{self.num_steps}  {speed}  {self.note}")


def _mean(value: Any) -> float:
    finite = np.asarray(value)[np.isfinite(value)]
    return float(finite.mean()) if finite.size else float("nan")
