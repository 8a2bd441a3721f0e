"""Checkpoints of training state: written by orbax, entered by their hashes, so that half a one is none."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any, TypeVar

import jax
import orbax.checkpoint as ocp

from cooptions.errors import ArtifactError
from cooptions.files import write_json

State = TypeVar("State")


class Checkpoints:
    """Numbered checkpoints in a directory, of which the newest two are kept.

    A checkpoint counts once `STEP.json`, the SHA-256 of each of its files, lies beside it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    def steps(self) -> list[int]:
        return sorted(int(file.stem) for file in self.path.glob("*.json"))

    def _instead(self, step: int) -> str:
        """What to do where one cannot be used."""
        before = "use the one before" if len(self.steps()) > 1 else "begin again: there is none before"
        return f"delete {step}.json to {before}"

    def save(self, step: int, state: Any) -> None:
        folder = self.path / str(step)
        shutil.rmtree(folder, ignore_errors=True)
        try:
            with ocp.StandardCheckpointer() as checkpointer:
                checkpointer.save(folder, _as_arrays(state))
        except (OSError, ValueError, RuntimeError) as error:
            shutil.rmtree(folder, ignore_errors=True)
            reason = str(error).splitlines()[0]
            raise ArtifactError(f"{folder}: cannot be written: {reason}; earlier checkpoints are untouched") from None
        write_json(self.path / f"{step}.json", _hashes(folder))
        for old in self.steps()[:-2]:
            (self.path / f"{old}.json").unlink()
            shutil.rmtree(self.path / str(old), ignore_errors=True)

    def restore(self, like: State) -> tuple[int, State]:
        """The newest checkpoint and its step, or `like` and 0 where there is none."""
        if not self.steps():
            return 0, like
        step = self.steps()[-1]
        folder = self.path / str(step)
        recorded = json.loads((self.path / f"{step}.json").read_text())
        for name, digest in _hashes(folder).items():
            if recorded.pop(name, None) != digest:
                raise ArtifactError(f"{folder / name}: damaged; {self._instead(step)}")
        if recorded:
            raise ArtifactError(f"{folder}: lacks {', '.join(recorded)}; {self._instead(step)}")
        target = jax.tree.map(ocp.utils.to_shape_dtype_struct, _as_arrays(like))
        with ocp.StandardCheckpointer() as checkpointer:
            arrays = checkpointer.restore(folder, target)
        return step, _from_arrays(arrays, like)


def _hashes(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _is_key(leaf: Any) -> bool:
    return jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _as_arrays(state: Any) -> dict[str, jax.Array]:
    """Leaves by number, typed random keys as plain integers: orbax need not know our classes, nor take empty arrays."""
    leaves = enumerate(jax.tree.leaves(state))
    return {f"{i:05d}": jax.random.key_data(leaf) if _is_key(leaf) else leaf for i, leaf in leaves if leaf.size}


def _from_arrays(arrays: dict[str, jax.Array], like: State) -> State:
    def leaf(old: jax.Array, array: jax.Array | None) -> jax.Array:
        if array is None:
            return old
        return jax.random.wrap_key_data(array, impl=jax.random.key_impl(old)) if _is_key(old) else array

    leaves = [leaf(old, arrays.get(f"{i:05d}")) for i, old in enumerate(jax.tree.leaves(like))]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)
