"""Checkpoints of training state. Each is one file, written atomically, with a SHA-256 of its content."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from cooptions.errors import ArtifactError
from cooptions.files import open_plain, write_whole

State = TypeVar("State")


@dataclass(frozen=True)
class Checkpoint(Generic[State]):
    """The state of training after `step` steps."""

    step: int
    rows: int
    """Rows of metrics logged before it."""
    state: State


class Checkpoints:
    """Numbered checkpoints in a directory. The newest two are kept."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def steps(self) -> list[int]:
        return sorted(int(file.stem) for file in self.path.glob("*.safetensors") if file.stem.isdecimal())

    def file(self, step: int) -> Path:
        return self.path / f"{step}.safetensors"

    def save(self, step: int, rows: int, state: Any) -> None:
        arrays = {name: np.asarray(leaf) for name, leaf in _as_arrays(state).items()}
        metadata = {"rows": str(rows), "check": _check(rows, arrays)}
        write_whole(self.file(step), lambda path: save_file(arrays, path, metadata))
        for old in self.steps()[:-2]:
            self.file(old).unlink(missing_ok=True)

    def restore(self, like: State, warn: Callable[[str], None]) -> Checkpoint[State] | None:
        """The newest intact checkpoint as a pytree like `like`; None if there are no checkpoints.

        A damaged checkpoint is skipped with a warning. If all are damaged, raise `ArtifactError`.
        """
        steps = self.steps()
        for step in reversed(steps):
            try:
                return self._read(step, like)
            except ArtifactError as error:
                before = [other for other in steps if other < step]
                if not before:
                    raise ArtifactError(
                        f"{error}; no checkpoint is left before it: restore it, or delete {self.path} to train this "
                        "stage from its beginning"
                    ) from None
                warn(f"{error}; the checkpoint before it, of step {before[-1]}, is used")
        return None

    def damage(self) -> dict[Path, str]:
        """The damaged checkpoint files, each with the error it raises."""
        found = {}
        for step in self.steps():
            try:
                _load_arrays(self.file(step))
            except ArtifactError as error:
                found[self.file(step)] = str(error)
        return found

    def _read(self, step: int, like: State) -> Checkpoint[State]:
        rows, arrays = _load_arrays(self.file(step))
        expected = {name: (leaf.shape, leaf.dtype) for name, leaf in _as_arrays(like).items()}
        if expected != {name: (array.shape, array.dtype) for name, array in arrays.items()}:
            raise ArtifactError(f"{self.file(step)}: made by another version of the code")
        return Checkpoint(step, rows, _from_arrays(arrays, like))


def _load_arrays(path: Path) -> tuple[int, dict[str, np.ndarray]]:
    """Load a checkpoint and verify its SHA-256. Returns the number of logged rows and the arrays."""
    try:
        open_plain(path).close()
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
        rows = int(metadata["rows"])
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (SafetensorError, KeyError, ValueError, TypeError, AttributeError):
        raise ArtifactError(f"{path}: damaged: not a whole checkpoint") from None
    if metadata.get("check") != _check(rows, arrays):
        raise ArtifactError(f"{path}: damaged: its check does not fit")
    return rows, arrays


def _check(rows: int, arrays: dict[str, np.ndarray]) -> str:
    """The SHA-256 of everything in a checkpoint."""
    form = {name: [str(array.dtype), list(array.shape)] for name, array in sorted(arrays.items())}
    content = hashlib.sha256(json.dumps([rows, form]).encode())
    for name in form:
        content.update(np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8))
    return content.hexdigest()


def _is_key(leaf: Any) -> bool:
    return jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _as_arrays(state: Any) -> dict[str, Any]:
    """The leaves by number, with random keys as plain integers. Leaves without elements are left out."""
    leaves = enumerate(jax.tree.leaves(state))
    return {f"{i:05d}": jax.random.key_data(leaf) if _is_key(leaf) else leaf for i, leaf in leaves if leaf.size}


def _from_arrays(arrays: dict[str, np.ndarray], like: State) -> State:
    def leaf(old: jax.Array, array: np.ndarray | None) -> jax.Array:
        if array is None:
            return old
        if _is_key(old):
            return jax.device_put(jax.random.wrap_key_data(array, impl=jax.random.key_impl(old)), old.sharding)
        return jax.device_put(array, old.sharding)

    leaves = [leaf(old, arrays.get(f"{i:05d}")) for i, old in enumerate(jax.tree.leaves(like))]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)
