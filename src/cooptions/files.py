"""Files: written whole or not at all, trees of arrays by name, configurations as JSON."""

import dataclasses
import hashlib
import json
import os
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np

from cooptions.errors import ArtifactError

Tree = TypeVar("Tree")
Json = dict[str, Any]


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(partial, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise ArtifactError(
            f"{path}: cannot be written: {error.strerror}; earlier files are untouched: make room and run it again"
        ) from None


def write_json(path: Path, value: Any) -> None:
    write_bytes(path, (json.dumps(value, indent=1, sort_keys=True) + "\n").encode())


def read_json(path: Path) -> Json:
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ArtifactError(f"{path}: damaged: {error}; restore it or choose another --out") from None


def file_digest(path: Path) -> str:
    """The SHA-256 of a file."""
    return digest(path.read_bytes())


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def named_leaves(tree: Any) -> list[tuple[str, Any]]:
    """Each leaf with its path in the tree as a name."""
    return [
        (jax.tree_util.keystr(path, simple=True, separator="."), leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    ]


def fill(like: Tree, arrays: dict[str, np.ndarray]) -> Tree:
    """A tree of the structure of `like`, with the arrays that carry its leaves' names."""
    names = [name for name, _ in named_leaves(like)]
    if set(names) != set(arrays):
        odd = sorted(set(names) ^ set(arrays))
        raise ArtifactError(f"artefact and code disagree on {', '.join(odd)}: it was made by another version; rerun it")
    return jax.tree.unflatten(jax.tree.structure(like), [jax.numpy.asarray(arrays[name]) for name in names])


def config_json(config: Any) -> Json:
    """A frozen dataclass as plain JSON, with the class name where a union leaves it open."""
    return {
        "type": type(config).__name__,
        **{
            field.name: config_json(value) if dataclasses.is_dataclass(value) else json.loads(json.dumps(value))
            for field in dataclasses.fields(config)
            for value in [getattr(config, field.name)]
        },
    }


def differences(old: Any, new: Any, field: str = "") -> list[str]:
    """The fields in which two configurations differ, with both values."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return [] if old == new else [f"{field} is {old!r} there, {new!r} now"]
    keys = dict.fromkeys([*old, *new])
    return [text for key in keys for text in differences(old.get(key), new.get(key), f"{field}.{key}".strip("."))]
