"""Metrics for people to watch while training goes on: in TensorBoard, or in Weights & Biases."""

import abc
import contextlib
import importlib
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import Num

from cooptions.errors import ConfigError, require
from cooptions.files import Json, write_bytes


class AbstractTracker(abc.ABC):
    """Shows elsewhere what `metrics/STAGE.jsonl` of a run directory holds.

    That file is the truth. After a stop it is cut back to the checkpoint that training goes on from, and `begin` is
    handed what was kept: whatever was shown before, the rows of the file are then shown once each, and no others.
    A run may thus be tracked from its middle on, and still be shown whole. Steps are environment steps. A value that
    is not finite is not shown: the series of a seed ends where it diverged, and the mean is over the others.
    """

    @abc.abstractmethod
    def begin(self, stage: str, rows: Sequence[Json], unit: int) -> None:
        """A stage begins, or goes on after these rows of its file; `unit` is what a step of the stage counts as."""

    @abc.abstractmethod
    def log(self, step: int, metrics: Mapping[str, Num[np.ndarray, " seed"]]) -> None:
        """The metrics of the stage at one of its steps, each an array over seeds."""

    @abc.abstractmethod
    def close(self) -> None:
        """Write what is still in memory."""


class NoTracker(AbstractTracker):
    """Shows nothing."""

    def __init__(self, directory: Path | None = None, config: Json | None = None) -> None:
        pass

    def begin(self, stage: str, rows: Sequence[Json], unit: int) -> None:
        pass

    def log(self, step: int, metrics: Mapping[str, Num[np.ndarray, " seed"]]) -> None:
        pass

    def close(self) -> None:
        pass


class TensorBoard(AbstractTracker):
    """Event files in `RUN/tensorboard/STAGE`: one for the mean over seeds, and one for each seed.

    When a stage goes on, each gets a successor with the whole history, which tells TensorBoard to forget what came
    before. The old ones stay: one that is reading them would not notice if they were replaced.
    """

    def __init__(self, directory: Path, config: Json) -> None:
        self._package = _import("tensorboardX")
        self._directory = directory / "tensorboard"
        self._stage, self._unit = "", 1
        self._writers: dict[str, Any] = {}

    def begin(self, stage: str, rows: Sequence[Json], unit: int) -> None:
        self.close()
        self._stage, self._unit = stage, unit
        for row in rows:
            self.log(*_parsed(row))

    def log(self, step: int, metrics: Mapping[str, Num[np.ndarray, " seed"]]) -> None:
        for name, values in _series(metrics).items():
            writer = self._writer(name)
            for metric, value in values.items():
                writer.add_scalar(f"{self._stage}/{metric}", value, step * self._unit)

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()
        self._writers = {}

    def _writer(self, name: str) -> Any:
        if name not in self._writers:
            folder = self._directory / self._stage / name
            number = len(list(folder.glob("events*")))  # names have whole seconds, and are read in their order
            self._writers[name] = self._package.SummaryWriter(
                str(folder), purge_step=0, flush_secs=2, filename_suffix=f".{number:04d}"
            )
        return self._writers[name]


class WeightsAndBiases(AbstractTracker):
    """One run of Weights & Biases for each stage that is trained, with a series for the mean and one for each seed.

    A stage that goes on is the same run there, to which only later steps can be added. That suffices: what is trained
    again after a checkpoint comes out as before. Offline (WANDB_MODE=offline) nobody remembers the earlier part, and
    what is kept in `RUN/wandb` each time is the whole history: the newest one is to be synchronised.
    """

    def __init__(self, directory: Path, config: Json) -> None:
        self._package = _import("wandb")
        self._directory, self._config = directory, config
        self._unit, self._next = 1, 0
        self._run: Any = None

    def begin(self, stage: str, rows: Sequence[Json], unit: int) -> None:
        self.close()
        name = self._directory.resolve().name
        try:
            self._run = self._package.init(
                project=os.environ.get("WANDB_PROJECT", "cooptions"),
                group=name,
                name=f"{name} {stage}",
                id=f"{_identity(self._directory / 'wandb' / 'id')}-{stage}",
                resume="allow",
                dir=str(self._directory),
                config=self._config,
                settings=self._package.Settings(console="off"),  # our progress bars are no log
            )
        except self._package.Error as error:
            raise ConfigError(f"track: wandb: {error}; run `wandb login`, or set WANDB_MODE=offline") from None
        self._unit, self._next = unit, self._run.step
        for row in rows:
            self.log(*_parsed(row))

    def log(self, step: int, metrics: Mapping[str, Num[np.ndarray, " seed"]]) -> None:
        at = step * self._unit
        if at >= self._next:
            series = _series(metrics).items()
            self._run.log({f"{name}/{metric}": v for name, values in series for metric, v in values.items()}, step=at)

    def close(self) -> None:
        if self._run is not None:
            self._run.finish()
        self._run = None


TRACKERS: dict[str, Callable[[Path, Json], AbstractTracker]] = {
    "none": NoTracker,
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
}
"""Ways to watch a run directory, which was made with this configuration."""


@contextlib.contextmanager
def open_tracker(name: str, directory: Path, config: Json) -> Iterator[AbstractTracker]:
    """A tracker by name for a run directory, closed at the end; refused at once where its package is missing."""
    require(name in TRACKERS, f"track must be one of {', '.join(TRACKERS)}, not {name!r}")
    tracker = TRACKERS[name](directory, config)
    try:
        yield tracker
    finally:
        tracker.close()


def _parsed(row: Json) -> tuple[int, dict[str, np.ndarray]]:
    """A row of a metrics file as `log` takes it."""
    return row["step"], {name: np.asarray(values) for name, values in row.items() if name != "step"}


def _series(metrics: Mapping[str, Num[np.ndarray, " seed"]]) -> dict[str, dict[str, float]]:
    """The finite values of the mean over seeds, and of each seed, by metric."""
    named = {name.replace(" ", "_"): np.asarray(values, float) for name, values in metrics.items()}
    finite = {name: values[np.isfinite(values)] for name, values in named.items()}
    series = {"mean": {name: float(values.mean()) for name, values in finite.items() if values.size}}
    for seed in range(max(values.size for values in named.values())):
        series[f"seed_{seed}"] = {
            name: float(values[seed]) for name, values in named.items() if np.isfinite(values[seed])
        }
    return series


def _identity(path: Path) -> str:
    """The name by which a run directory is known elsewhere, made up when it is first asked for."""
    if not path.exists():
        write_bytes(path, secrets.token_hex(4).encode())
    return path.read_text()


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ConfigError(f"track: {name} is not installed; pip install 'cooptions[track]'") from None
