"""Sealed folders: sets of files whose sizes and SHA-256 hashes are listed in a manifest.

A folder may come from an untrusted source. Each file is opened once, as a regular file of the size in the manifest,
and its hash is verified before its content is used.
"""

import json
import math
import os
import re
import shutil
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cooptions.errors import ArtifactError
from cooptions.files import Json, digest, shown, write_bytes

MANIFEST = "manifest.json"
SAFE_NAME = re.compile(r"(?:[a-z]+/)?[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""File names that are valid on every system, with at most one folder."""
HUB_FILES = frozenset({".cache", ".git", ".gitattributes"})
"""Files that git and model hubs add to a folder. They are ignored."""

LARGEST_MANIFEST = 1 << 20
LARGEST_TOTAL = 1 << 28
"""The maximum total size of the files in bytes. Hashing that takes well under a second."""
MOST_ENTRIES = 2000
DEEPEST = 16
"""The maximum number of nested levels of lists and objects in a JSON file."""

Place = Path | str
"""The location of a folder: a path, or a name on the hub."""


@dataclass(frozen=True)
class Manifest:
    """The manifest of a folder."""

    kind: str
    """The kind of folder, with the version of its format."""
    files: dict[str, Json]
    """`size` and `sha256` of every file by name."""


@dataclass(frozen=True)
class Sealed:
    """The content of a folder that was read and verified."""

    kind: str
    files: dict[str, bytes]
    """The content of each file by name, without the manifest."""


def write_sealed(path: Path, files: Mapping[str, bytes], *, kind: str) -> None:
    """Write files and their manifest to a temporary folder, read it back, and then rename it to `path`.

    An existing folder at `path` is replaced.
    """
    path = Path(os.path.realpath(path))
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    replaced = path.with_name(f".{path.name}.{os.getpid()}.replaced")
    for name in sorted(HUB_FILES):
        if (path / name).exists():
            raise ArtifactError(f"{path}: holds {name}, which would be lost: save elsewhere, and copy the files here")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        for name, content in files.items():
            _require_safe(path, name)
            write_bytes(partial / name, content)
        write_bytes(partial / MANIFEST, format_manifest(files, kind))
        read_sealed(partial, kind=kind)
        if path.exists():
            path.rename(replaced)
        partial.rename(path)
    except OSError as error:
        raise ArtifactError(
            f"{path}: cannot be written: {error.strerror}; what was there before is untouched"
        ) from None
    finally:
        if replaced.exists() and not path.exists():
            replaced.rename(path)
        for leftover in (partial, replaced):
            shutil.rmtree(leftover, ignore_errors=True)


def read_sealed(path: Path, *, kind: str | Collection[str]) -> Sealed:
    """Read all files of a folder of this kind, or of one of these kinds.

    Raises `ArtifactError` if a file is missing, changed or not listed.
    """
    present = entries(path)
    manifest = read_manifest(path, read_plain(path / MANIFEST, LARGEST_MANIFEST), kind)
    listed = manifest.files
    require_listed(path, present, listed)
    contents = ((name, read_plain(path / name, listed[name]["size"])) for name in listed)
    return Sealed(manifest.kind, {name: checked(path, name, content, listed) for name, content in contents})


def require_listed(where: Place, present: Collection[str], listed: Mapping[str, Json]) -> None:
    """Raise `ArtifactError` unless a folder has exactly the files of its manifest, within the size limit."""
    for name in listed:
        if name not in present:
            raise ArtifactError(f"{where}/{name}: missing, though the manifest names it; get it all again")
    for name in sorted(set(present) - {*listed, MANIFEST}):
        raise ArtifactError(f"{where}: the manifest does not name the file {shown(name)}; remove it")
    total = sum(entry["size"] for entry in listed.values())
    if total > LARGEST_TOTAL:
        raise ArtifactError(f"{where}/{MANIFEST}: {total} bytes of files, more than the {LARGEST_TOTAL} that are read")


def checked(where: Place, name: str, content: bytes, listed: Mapping[str, Json]) -> bytes:
    """Return the content of a file if it matches the manifest, else raise `ArtifactError`."""
    if len(content) != listed[name]["size"] or digest(content) != listed[name]["sha256"]:
        raise ArtifactError(f"{where}/{name}: damaged: not the bytes of the manifest's SHA-256; get it again")
    return content


def read_plain(path: Path, largest: int) -> bytes:
    """Read a regular file of at most `largest` bytes. Links, pipes and devices raise `ArtifactError`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read as a plain file: {error.strerror}") from None
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ArtifactError(f"{path}: not a plain file")
        if status.st_size > largest:
            raise ArtifactError(f"{path}: damaged: {status.st_size} bytes, more than the {largest} there may be")
        return file.read(largest + 1)


def parse_json(where: Place, content: bytes) -> Any:
    """Parse JSON with finite numbers and at most `DEEPEST` levels."""
    try:
        value = json.loads(content, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        reason = "it nests too deeply" if isinstance(error, RecursionError) else str(error)
        raise ArtifactError(f"{where}: not JSON: {reason}") from None
    if _nests_deeper(value, DEEPEST):
        raise ArtifactError(f"{where}: nests deeper than {DEEPEST} levels")
    return value


def parse_object(where: Place, content: bytes) -> Json:
    """Parse a JSON object."""
    value = parse_json(where, content)
    if not isinstance(value, dict):
        raise ArtifactError(f"{where}: must hold a JSON object, not {shown(value)}")
    return value


def canonical_json(value: Json) -> bytes:
    """The canonical JSON text of a value."""
    return (json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def format_manifest(files: Mapping[str, bytes], kind: str) -> bytes:
    """The manifest of these files."""
    listed = {name: {"sha256": digest(content), "size": len(content)} for name, content in files.items()}
    value = {"format": kind, "files": listed}
    return canonical_json({**value, "sha256": digest(canonical_json(value))})


def read_manifest(where: Place, content: bytes, kind: str | Collection[str]) -> Manifest:
    """Parse a manifest, which must be byte for byte what `format_manifest` writes."""
    file = f"{where}/{MANIFEST}"
    value = parse_object(file, content)
    kinds = (kind,) if isinstance(kind, str) else tuple(kind)
    if value.get("format") not in kinds:
        known = " or ".join(map(shown, kinds))
        raise ArtifactError(f"{file}: its format is {shown(value.get('format'))}, this version reads {known}")
    sealed = {name: part for name, part in value.items() if name != "sha256"}
    if canonical_json(value) != content or value.get("sha256") != digest(canonical_json(sealed)):
        raise ArtifactError(f"{file}: damaged: its own SHA-256 is not that of its content; get it again")
    listed = value.get("files")
    if not isinstance(listed, dict) or set(value) != {"format", "files", "sha256"}:
        raise ArtifactError(f"{file}: must hold format, files and sha256")
    for name, entry in listed.items():
        _require_safe(file, name)
        if not _is_entry(entry):
            raise ArtifactError(f"{file}: {shown(name)} needs a sha256 and a size, not {shown(entry)}")
    return Manifest(value["format"], listed)


def _require_safe(where: Place, name: str) -> None:
    if not SAFE_NAME.fullmatch(name) or name == MANIFEST:
        raise ArtifactError(f"{where}: {shown(name)} is no name for a file of a shared folder")


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and set(entry) == {"sha256", "size"}
        and isinstance(entry["sha256"], str)
        and type(entry["size"]) is int
        and entry["size"] >= 0
    )


def entries(path: Path) -> set[str]:
    """The names of all files in a folder, without `HUB_FILES`. Raises for links and nested folders."""
    found: set[str] = set()
    waiting = [path]
    try:
        while waiting:
            folder = waiting.pop()
            with os.scandir(folder) as items:
                for item in items:
                    name = str(Path(item.path).relative_to(path))
                    if name in HUB_FILES and not item.is_symlink():
                        continue
                    if item.is_symlink() or (folder != path and item.is_dir()):
                        kind = "a link" if item.is_symlink() else "a folder in a folder"
                        raise ArtifactError(f"{path}: {shown(name)} is {kind}, which is never shared; remove it")
                    if item.is_dir():
                        waiting.append(Path(item.path))
                    else:
                        found.add(name)
                    if len(found) + len(waiting) > MOST_ENTRIES:
                        raise ArtifactError(f"{path}: more than {MOST_ENTRIES} files: no folder that can be shared")
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read: {error.strerror}") from None
    return found


def _nests_deeper(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels == 0 or any(_nests_deeper(item, levels - 1) for item in inner)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is no finite number")
    return number
