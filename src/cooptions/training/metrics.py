"""The metrics file of a stage: one row per `log_steps` steps, each with a checksum that reveals damage."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cooptions.errors import ArtifactError
from cooptions.files import Json, digest, read_plain, write_bytes

CHECK = ', "check": "'
"""The text between a row and its checksum."""
LENGTH = 16
"""Hexadecimal digits of a checksum: the first 64 bits of a SHA-256."""


class MetricsFile:
    """A JSON Lines file. A row has the step at which it ends, each metric as a list over seeds, and a checksum.

    Rows end at fixed steps that do not depend on chunks, so the file is the same however often a run was stopped.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def rows(self) -> list[Json]:
        """All rows. Raises `ArtifactError` if one is damaged. A last row without a line end is ignored."""
        return [self._row(number, line) for number, line in enumerate(self._lines()[:-1], start=1)]

    @property
    def holds_rows(self) -> bool:
        return self._lines() != [b""]

    def resume(self, steps: Sequence[int], warn: Callable[[str], None]) -> list[Json]:
        """The rows of these steps, all of which must exist. Later rows are dropped: those steps are trained again."""
        if self.path is None:
            return []
        lines = self._lines()
        self._warn_of_damage(lines[len(steps) :], len(steps), warn)
        rows = [self._row(number, line) for number, line in enumerate(lines[:-1][: len(steps)], start=1)]
        for number, step in enumerate(steps, start=1):
            if len(rows) < number or rows[number - 1]["step"] != step:
                raise ArtifactError(f"{self.path}: line {number}: lacks the row of step {step}; {self._remedy}")
        write_bytes(self.path, b"".join(line + b"\n" for line in lines[: len(steps)]))
        return rows

    def append(self, step: int, metrics: dict[str, np.ndarray]) -> Json:
        row = {"step": step, **{key: value.tolist() for key, value in metrics.items()}}
        if self.path is not None:
            with open(self.path, "ab") as file:
                file.write(line_of(row))
        return row

    def flush(self) -> None:
        """Flush all rows to the disk, so that a checkpoint never has more rows than the file."""
        if self.path is not None and self.path.exists():
            with open(self.path, "ab") as file:
                os.fsync(file.fileno())

    @property
    def _remedy(self) -> str:
        assert self.path is not None
        checkpoints = self.path.parents[1] / "checkpoints" / self.path.stem
        return f"restore it, or delete it and {checkpoints} to train this stage again"

    def _lines(self) -> list[bytes]:
        """The file split at line ends. The last item is what follows the last line end; it is empty in a whole file."""
        try:
            return read_plain(self.path).split(b"\n") if self.path is not None else [b""]
        except FileNotFoundError:
            return [b""]
        except OSError as error:
            raise ArtifactError(f"{self.path}: cannot be read: {error.strerror}") from None

    def _warn_of_damage(self, lines: list[bytes], kept: int, warn: Callable[[str], None]) -> None:
        if any(line and _parsed(line) is None for line in lines):
            warn(f"{self.path}: line {kept + 1} or one after it is cut off or damaged; it is made again")

    def _row(self, number: int, line: bytes) -> Json:
        row = _parsed(line)
        if row is None:
            raise ArtifactError(f"{self.path}: line {number} is damaged: its check does not fit; {self._remedy}")
        return row


def line_of(row: Json) -> bytes:
    """A row as a line of the file."""
    text = json.dumps(row)[:-1]
    return f'{text}{CHECK}{_check(text)}"}}\n'.encode()


def finite_so_far(rows: Sequence[Json], num_seeds: int) -> np.ndarray:
    """For each seed, whether all its values in all rows are finite."""
    finite = np.ones(num_seeds, bool)
    for row in rows:
        for key, values in row.items():
            finite &= np.isfinite(values) if key != "step" else True
    return finite


def diverged_at(rows: Sequence[Json], seed: int) -> int | None:
    """The step of the first row in which a seed has a non-finite value; None if there is no such row."""
    bad = (row["step"] for row in rows if not finite_so_far([row], len(next(iter(_values(row)))))[seed])
    return next(bad, None)


def _values(row: Json) -> list[list[float]]:
    return [values for name, values in row.items() if name != "step"]


def _check(text: str) -> str:
    return digest(text.encode())[:LENGTH]


def _parsed(line: bytes) -> Json | None:
    """The row of a line without its checksum; None if the checksum does not match or the line is not a row."""
    try:
        text, found, check = line.decode().rpartition(CHECK)
        if found:
            if check != f'{_check(text)}"}}':
                return None
            line = f"{text}}}".encode()
        row: Any = json.loads(line)  # rows of the first version have no check
    except (ValueError, RecursionError):
        return None
    whole = isinstance(row, dict) and "step" in row and all(_is_value(name, row[name]) for name in row)
    return row if whole else None


def _is_value(name: str, value: Any) -> bool:
    """Whether a row may have this value: an integer as its step, a list of numbers as any metric."""
    if name == "step":
        return type(value) is int
    return isinstance(value, list) and all(type(each) in (int, float, bool) for each in value)
