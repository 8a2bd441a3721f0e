"""Atomic file writes, pytrees of arrays as safetensors, and configurations as JSON."""

import contextlib
import dataclasses
import errno
import hashlib
import json
import math
import os
import stat
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as format_tensors

from cooptions.errors import ArtifactError, ConfigError
from cooptions.parts import registry_of

Tree = TypeVar("Tree")
Header = TypeVar("Header")
Json = dict[str, Any]
PARTIAL = ".partial"
"""The suffix of a file that is being written."""

LONGEST_TEXT = 1000
DEEPEST = 64
"""The maximum depth of lists and objects in a JSON file."""
LARGEST_EXACT = 2**53
"""Every integer up to this one can be represented exactly as a float."""


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The errors of a full disk."""

CACHE = "COOPTIONS_CACHE"
"""The environment variable with the path of the cache, or `off`."""


def cache_place() -> Path | None:
    """The path of the cache for compiled programs and downloads; None if it is turned off."""
    place = os.environ.get(CACHE, "")
    return None if place == "off" else Path(place or user_cache() / "cooptions")


def user_cache() -> Path:
    """The system's cache folder for this user."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    write_whole(path, lambda partial: partial.write_bytes(content))


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Write a file atomically: `write` fills a temporary file, which is flushed to disk and then moved to `path`."""
    partial = path.with_name(f".{path.name}.{os.getpid()}{PARTIAL}")
    try:
        _refuse_device(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.unlink(missing_ok=True)  # it might be a link to another file
        write(partial)
        with open(partial, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    except (OSError, SafetensorError) as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        full = isinstance(error, SafetensorError) or error.errno in FULL
        advice = "make room and run it again" if full else "choose another place, or make this one writable"
        raise ArtifactError(
            f"{path}: cannot be written: {_reason(error)}; earlier files are untouched: {advice}"
        ) from None


def _refuse_device(path: Path) -> None:
    """Raise `OSError` for a device such as `/dev/null`, which a move to its path would remove for everyone."""
    with contextlib.suppress(FileNotFoundError):
        mode = path.stat().st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            raise OSError(errno.EINVAL, "it is a device", str(path))


def _reason(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error).splitlines()[0]


def write_json(path: Path, value: Any) -> None:
    write_bytes(path, (json.dumps(value, indent=1, sort_keys=True) + "\n").encode())


def open_plain(path: Path) -> BinaryIO:
    """Open a regular file for reading. Raises `OSError` for a pipe or device, which might never end."""
    file = open(  # noqa: SIM115 (returned open)
        path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))
    )
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a plain file", str(path))
    return file


def read_plain(path: Path) -> bytes:
    """The content of a regular file."""
    with open_plain(path) as file:
        return file.read()


def read_json(path: Path) -> Json:
    """The JSON object in a file; empty if there is no file."""
    try:
        value = parse_json(read_plain(path))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise ArtifactError(f"{path}: damaged: {error}; restore it, or see `cooptions repair`") from None
    if not isinstance(value, dict):
        raise ArtifactError(f"{path}: damaged: it is no JSON object; restore it, or see `cooptions repair`")
    return value


def parse_json(content: bytes) -> Any:
    """Parse strict JSON: UTF-8, no duplicate names, no NaN or infinity, at most `DEEPEST` levels."""
    value = json.loads(
        content.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_number, parse_float=_finite
    )
    if _nests_deeper(value, DEEPEST):
        raise ValueError(f"it nests deeper than {DEEPEST} levels")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> Json:
    found: Json = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the name {name[:80]!r} stands there twice")
        found[name] = value
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is no finite number")
    return number


def _nests_deeper(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels == 0 or any(_nests_deeper(item, levels - 1) for item in inner)


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def file_digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with open_plain(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def named_leaves(tree: Any) -> list[tuple[str, Any]]:
    """Each leaf of a pytree with its path as a name."""
    return [
        (jax.tree_util.keystr(path, simple=True, separator="."), leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    ]


def fill(like: Tree, arrays: dict[str, np.ndarray]) -> Tree:
    """A pytree with the structure of `like` and the arrays of the same names as its leaves."""
    shapes = {name: tuple(leaf.shape) for name, leaf in named_leaves(like)}
    names = list(shapes)
    odd = sorted(set(names) ^ set(arrays)) or [name for name in names if shapes[name] != arrays[name].shape]
    if odd:
        raise ArtifactError(
            f"artefact and code disagree on {', '.join(odd[:8])}: it was made by another version; rerun it"
        )
    return jax.tree.unflatten(jax.tree.structure(like), [jax.numpy.asarray(arrays[name]) for name in names])


def save_tree(path: Path, header: Any, tree: Any) -> None:
    """Write a dataclass and a pytree of arrays as one safetensors file with a SHA-256 in its header."""
    arrays = {name: np.asarray(leaf, order="C") for name, leaf in named_leaves(tree)}
    text = json.dumps(encode(header), sort_keys=True)
    write_bytes(path, format_tensors(arrays, metadata={"header": text, "sha256": _tree_digest(text, arrays)}))


def load_tree(path: Path, kind: type[Header], *, trust: bool = False) -> tuple[Header, dict[str, np.ndarray]]:
    """Load the header and arrays that `save_tree` wrote, after verifying the SHA-256."""
    try:
        with safe_open(path, framework="numpy") as file:
            text, expected = (file.metadata()[name] for name in ("header", "sha256"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dictionary)
        header = json.loads(text)
    except (OSError, SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArtifactError(f"{path}: not a whole file: {error}; make it again") from None
    if expected != _tree_digest(text, arrays):
        raise ArtifactError(f"{path}: damaged: its SHA-256 is not the one in its header; make it again")
    return decode(kind, header, str(path), trust=trust), arrays


def _tree_digest(header: str, arrays: Mapping[str, np.ndarray]) -> str:
    sha = hashlib.sha256(header.encode())
    for name, array in sorted(arrays.items()):
        sha.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return sha.hexdigest()


def encode(value: Any) -> Any:
    """A frozen dataclass as plain JSON, tagged with its class name, or `module:attribute` for classes from outside."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"type": _tag(type(value)), **fields}
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    return json.loads(json.dumps(value))


def _tag(kind: type) -> str:
    ours = kind.__module__.partition(".")[0] == "cooptions"
    return kind.__name__ if ours else f"{kind.__module__}:{kind.__qualname__}"


def decode(kind: Any, value: Any, where: str, *, trust: bool = False) -> Any:
    """The inverse of `encode` for untrusted JSON. Errors name the field whose value has the wrong type.

    Only the constructors of `kind` and of its fields' types are called. A part from outside the package is imported
    only if `trust` is true. A field whose metadata says `may_be_absent` is newer than some files: a missing value is
    its default.
    """
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return decode(parts[0], value, where, trust=trust)
    if origin in (Union, types.UnionType):
        return _one_of(parts, value, where, trust)
    if origin is tuple:
        return _tuple(parts, value, where, trust)
    if origin is Literal:
        if value not in parts:
            raise ArtifactError(f"{where} must be one of {', '.join(map(str, parts))}, not {shown(value)}")
        return value
    if dataclasses.is_dataclass(kind) or registry_of(kind) is not None:
        return _record(kind, value, where, trust)
    if kind is float and type(value) is int and abs(value) <= LARGEST_EXACT:
        return float(value)
    if type(value) is not kind or (isinstance(value, str) and not _is_fit(value)):
        raise ArtifactError(f"{where} must be a {getattr(kind, '__name__', kind)}, not {shown(value)}")
    return value


def shown(value: Any) -> str:
    """An untrusted value in printable form: ASCII, one line, at most 80 characters."""
    text = json.dumps(value, default=repr)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _record(kind: Any, value: Any, where: str, trust: bool) -> Any:
    if not isinstance(value, dict):
        raise ArtifactError(f"{where} must hold fields, not {shown(value)}")
    given = dict(value)
    tag = given.pop("type", None)
    registry = registry_of(kind)
    try:
        if registry is not None:
            kind = registry.by_type(tag if isinstance(tag, str) else "", trust=trust)
        elif tag != _tag(kind):
            raise ArtifactError(f"{where}.type must be {_tag(kind)}, not {shown(tag)}")
        hints = get_type_hints(kind)
        names = [field.name for field in dataclasses.fields(kind)]
        absent = {field.name for field in dataclasses.fields(kind) if field.metadata.get("may_be_absent")} - set(given)
        if odd := sorted((set(names) ^ set(given)) - absent):
            problem = "is missing" if odd[0] in names else "is no field"
            raise ArtifactError(f"{where}.{shown(odd[0])[1:-1]} {problem}; there are {', '.join(names)}")
        present = [name for name in names if name in given]
        return kind(**{name: decode(hints[name], given[name], f"{where}.{name}", trust=trust) for name in present})
    except ConfigError as error:
        raise ArtifactError(f"{where}: {error}") from None


def _one_of(parts: tuple[Any, ...], value: Any, where: str, trust: bool) -> Any:
    """Decode a value of a union type. The type is None, or follows from the value's tag or its own type."""
    kinds = [part for part in parts if part is not types.NoneType]
    if value is None and len(kinds) < len(parts):
        return None
    if isinstance(value, dict):
        kinds = [kind for kind in kinds if _tag(kind) == value.get("type")] or kinds[:1]
    else:
        kinds = [kind for kind in kinds if kind is type(value)] or kinds[:1]
    return decode(kinds[0], value, where, trust=trust)


def _tuple(parts: tuple[Any, ...], value: Any, where: str, trust: bool) -> Any:
    any_length = parts[-1] is Ellipsis
    if not isinstance(value, list) or (not any_length and len(value) != len(parts)):
        raise ArtifactError(f"{where} must be a list{'' if any_length else f' of {len(parts)}'}, not {shown(value)}")
    kinds = parts[:1] * len(value) if any_length else parts
    pairs = enumerate(zip(kinds, value, strict=True))
    return tuple(decode(part, item, f"{where}[{i}]", trust=trust) for i, (part, item) in pairs)


def _is_fit(text: str) -> bool:
    """Whether a text can be printed: one line without control characters, of limited length."""
    return text.isprintable() and len(text) <= LONGEST_TEXT


def differences(old: Any, new: Any, field: str = "") -> list[str]:
    """The fields in which two configurations differ, with both values."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return [] if old == new else [f"{field} is {old!r} there, {new!r} now"]
    keys = dict.fromkeys([*old, *new])
    return [text for key in keys for text in differences(old.get(key), new.get(key), f"{field}.{key}".strip("."))]
