"""Live metrics in TensorBoard or Weights & Biases."""

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
    """Mirrors the file `metrics/STAGE.jsonl` of a run directory to another tool.

    That file is authoritative. When training resumes, the file is cut back to the checkpoint, and `begin` receives the
    rows that were kept, so that each row of the file is shown exactly once. A run that is tracked only from its middle
    on is therefore still shown in full. Steps are environment steps. Non-finite values are left out: the series of a
    seed ends where it diverged, and the mean is over the other seeds.
    """

    @abc.abstractmethod
    def begin(self, stage: str, rows: Sequence[Json], unit: int) -> None:
        """Begin a stage, or resume it after these rows of its file. A step counts as `unit` environment steps."""

    @abc.abstractmethod
    def log(self, step: int, metrics: Mapping[str, Num[np.ndarray, " seed"]]) -> None:
        """Show the metrics of one step of the stage. Each is an array over seeds."""

    @abc.abstractmethod
    def close(self) -> None:
        """Write buffered metrics and close the connection."""


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
    """Writes event files to `RUN/tensorboard/STAGE`: one for the mean over seeds, and one per seed.

    When a stage resumes, each series gets a new file with its whole history, which tells TensorBoard to discard the
    earlier events. The old files stay, because a running TensorBoard would not notice that they were replaced.
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
            number = len(list(folder.glob("events*")))  # file names have whole seconds and are read in order
            self._writers[name] = self._package.SummaryWriter(
                str(folder), purge_step=0, flush_secs=2, filename_suffix=f".{number:04d}"
            )
        return self._writers[name]


class WeightsAndBiases(AbstractTracker):
    """Logs one Weights & Biases run per stage, with a series for the mean over seeds and one per seed.

    A stage that resumes continues its run there, which accepts only later steps. That suffices, because steps that are
    trained again after a checkpoint give the same metrics. Offline (WANDB_MODE=offline), each start writes the whole
    history to a new folder in `RUN/wandb`; synchronise the newest one.
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
                settings=self._package.Settings(console="off"),  # keeps our progress bars out of the log
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
"""Constructors by name. Each takes a run directory and its configuration."""


@contextlib.contextmanager
def open_tracker(name: str, directory: Path, config: Json) -> Iterator[AbstractTracker]:
    """Open a tracker by name and close it at the end. Raises `ConfigError` if its package is not installed."""
    require(name in TRACKERS, f"track must be one of {', '.join(TRACKERS)}, not {name!r}")
    tracker = TRACKERS[name](directory, config)
    try:
        yield tracker
    finally:
        tracker.close()


def _parsed(row: Json) -> tuple[int, dict[str, np.ndarray]]:
    """The step and the metrics of a row of a metrics file, as the arguments of `log`."""
    return row["step"], {name: np.asarray(values) for name, values in row.items() if name != "step"}


def _series(metrics: Mapping[str, Num[np.ndarray, " seed"]]) -> dict[str, dict[str, float]]:
    """The series `mean` and `seed_N`, each with its finite values by metric."""
    named = {name.replace(" ", "_"): np.asarray(values, float) for name, values in metrics.items()}
    finite = {name: values[np.isfinite(values)] for name, values in named.items()}
    series = {"mean": {name: float(values.mean()) for name, values in finite.items() if values.size}}
    for seed in range(max(values.size for values in named.values())):
        series[f"seed_{seed}"] = {
            name: float(values[seed]) for name, values in named.items() if np.isfinite(values[seed])
        }
    return series


def _identity(path: Path) -> str:
    """The random identifier of a run directory, created at the first call and stored in `path`."""
    if not path.exists():
        write_bytes(path, secrets.token_hex(4).encode())
    return path.read_text()


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ConfigError(f"track: {name} is not installed; pip install 'cooptions[track]'") from None
