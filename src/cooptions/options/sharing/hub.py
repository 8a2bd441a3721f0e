"""Shared folders on the Hugging Face Hub, named `hf://owner/name` or `hf://owner/name@revision`.

A download stays in memory until every byte has been verified against the folder's manifest, so a repository cannot
name a path on the disk. Verified folders are kept in the user's cache by commit, and verified again when they are read.
"""

import contextlib
import functools
import re
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

from cooptions.errors import ArtifactError, require
from cooptions.files import cache_place, shown
from cooptions.options.sharing.hub_requests import LOG_IN, endpoint, get, one_line_errors, token
from cooptions.options.sharing.sealed import (
    HUB_FILES,
    LARGEST_MANIFEST,
    LARGEST_TOTAL,
    MANIFEST,
    MOST_ENTRIES,
    SAFE_NAME,
    Place,
    Sealed,
    checked,
    format_manifest,
    parse_json,
    parse_object,
    read_manifest,
    read_sealed,
    require_listed,
    write_sealed,
)

LARGEST_LISTING = 1 << 21
WORKERS = 8
"""The number of parallel downloads."""

_NAME = re.compile(r"hf:/{1,2}([A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95})(?:@([A-Za-z0-9][\w./-]{0,99}))?", re.A)
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class HubName:
    """A folder on the hub."""

    repository: str
    """`owner/name`."""
    revision: str = "main"
    """A branch, a tag or a commit."""

    @classmethod
    def parse(cls, text: Place) -> "HubName":
        """Parse a name. `Path("hf://...")` drops a slash, which is accepted."""
        match = _NAME.fullmatch(str(text))
        require(
            match is not None and ".." not in str(text) and "--" not in match[1],
            f"{shown(str(text))[1:-1]}: a name on the hub is hf://owner/name or hf://owner/name@revision",
        )
        assert match is not None
        return cls(match[1], match[2] or "main")

    def __str__(self) -> str:
        return f"hf://{self.repository}" + (f"@{self.revision}" if self.revision != "main" else "")


def is_hub_name(place: Place) -> bool:
    """Whether a place is a name on the hub and not a path."""
    return str(place).startswith("hf:/")


def read_shared(place: Place, *, kind: str | Collection[str]) -> Sealed:
    """Read and verify a shared folder of one of these kinds, on the disk or on the hub."""
    return read_hub(HubName.parse(place), kind=kind) if is_hub_name(place) else read_sealed(Path(place), kind=kind)


def pinned(place: str) -> str:
    """A name on the hub, resolved to a commit at this process's first call. Any other place is returned unchanged.

    A run thus uses and records one commit from its beginning to its end.
    """
    return str(_pinned(HubName.parse(place), endpoint())) if is_hub_name(place) else place


@functools.cache
def _pinned(name: HubName, hub: str) -> HubName:
    """Resolve and cache a name. `hub`, the hub's address, is part of the cache key."""
    return HubName(name.repository, _commit(name))


def read_hub(name: HubName, *, kind: str | Collection[str]) -> Sealed:
    """Read a folder from the cache if its commit is there and intact, otherwise download it."""
    commit = _commit(name)
    kept = _kept(name, commit)
    if kept is not None:
        with contextlib.suppress(ArtifactError):
            return read_sealed(kept, kind=kind)
    found = download(name, commit, kind)
    if kept is not None:
        with contextlib.suppress(ArtifactError):  # the disk may be full or read-only
            write_sealed(kept, found.files, kind=found.kind)
    return found


def download(name: HubName, commit: str, kind: str | Collection[str]) -> Sealed:
    """Download a folder at a commit. File names and sizes are checked before the download, contents after it."""
    where, sizes = str(name), _sizes(name, commit)
    if MANIFEST not in sizes:
        raise ArtifactError(f"{where}: no {MANIFEST}: neither an option set nor a team of cooptions")
    if sizes[MANIFEST] > LARGEST_MANIFEST:
        raise ArtifactError(
            f"{where}/{MANIFEST}: {sizes[MANIFEST]} bytes, more than the {LARGEST_MANIFEST} there may be"
        )
    manifest = read_manifest(where, _file(name, commit, MANIFEST, sizes[MANIFEST]), kind)
    listed = manifest.files
    require_listed(where, sizes, listed)
    for file, entry in listed.items():
        if sizes[file] != entry["size"]:
            raise ArtifactError(f"{where}/{file}: damaged: {sizes[file]} bytes, not the {entry['size']} listed")
    with ThreadPoolExecutor(WORKERS) as pool:
        contents = pool.map(lambda file: checked(where, file, _file(name, commit, file, sizes[file]), listed), listed)
        return Sealed(manifest.kind, dict(zip(listed, contents, strict=True)))


def upload(name: HubName, folder: Sealed, *, private: bool = False) -> HubName:
    """Replace the content of a repository with a folder. Returns the name of the new commit.

    The repository is created if it does not exist. A repository that holds anything else is refused. Its earlier
    content stays in its history.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

    where, known = str(name), token()
    require(not _COMMIT.fullmatch(name.revision), f"{where}: a commit cannot be changed: push to a branch")
    if known is None:
        raise ArtifactError(f"{where}: no token: {LOG_IN}; it needs to be allowed to write")
    files = {**folder.files, MANIFEST: format_manifest(folder.files, folder.kind)}
    with one_line_errors(where):
        hub = HfApi(endpoint=endpoint(), token=known, library_name="cooptions")
        hub.create_repo(name.repository, private=private or None, exist_ok=True)  # None keeps the owner's default
        present = _sizes(name, name.revision)
        _require_same_kind(name, present, folder.kind)
        added = [CommitOperationAdd(file, content) for file, content in files.items()]
        removed = [CommitOperationDelete(file) for file in sorted(set(present) - set(files))]
        commit = hub.create_commit(
            name.repository, [*added, *removed], revision=name.revision, commit_message=f"Upload a {folder.kind}"
        )
    _pinned.cache_clear()
    return HubName(name.repository, require_commit(where, commit.oid))


def _require_same_kind(name: HubName, present: Mapping[str, int], kind: str) -> None:
    """Raise `ArtifactError` if a repository holds anything other than a card or a folder of this kind."""
    if set(present) <= {"README.md"}:
        return
    if MANIFEST not in present:
        other = sorted(set(present) - {"README.md"})[0]
        raise ArtifactError(f"{name}: not overwritten: {shown(other)} is no file of cooptions; push to another name")
    largest = min(present[MANIFEST], LARGEST_MANIFEST)
    there = parse_object(f"{name}/{MANIFEST}", _file(name, name.revision, MANIFEST, largest)).get("format")
    what = kind.rpartition(" ")[0]
    if not isinstance(there, str) or there.rpartition(" ")[0] != what:
        raise ArtifactError(f"{name}: not overwritten: it holds {shown(there)}, not a {what}; push to another name")


def require_commit(where: str, commit: object) -> str:
    """Check that a commit is a SHA-1, because it becomes the name of a folder in the cache."""
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        raise ArtifactError(f"{where}: the hub names the commit {shown(commit)}, which is no SHA-1")
    return commit


def _commit(name: HubName) -> str:
    """The commit that a name's revision currently refers to."""
    if _COMMIT.fullmatch(name.revision):
        return name.revision
    where, revision = str(name), quote(name.revision, safe="")
    answer = get(where, f"api/models/{name.repository}/revision/{revision}?expand=sha", LARGEST_LISTING)
    return require_commit(where, parse_object(f"{where}: the answer of the hub", answer).get("sha"))


def _sizes(name: HubName, revision: str) -> dict[str, int]:
    """The size of every file of a revision, without those that a hub adds. Only regular files are accepted."""
    where, asked = str(name), quote(revision, safe="")
    answer = get(where, f"api/models/{name.repository}/tree/{asked}?recursive=true", LARGEST_LISTING)
    listed = parse_json(f"{where}: the answer of the hub", answer)
    if not isinstance(listed, list) or len(listed) > MOST_ENTRIES:
        raise ArtifactError(f"{where}: the hub lists no files that can be a folder of cooptions")
    sizes: dict[str, int] = {}
    for entry in listed:
        path, size, kind = (entry.get(key) if isinstance(entry, dict) else None for key in ("path", "size", "type"))
        if not isinstance(path, str) or kind not in ("file", "directory"):
            raise ArtifactError(f"{where}: the hub lists {shown(path)} as {shown(kind)}: only plain files are loaded")
        if path.partition("/")[0] in HUB_FILES or kind == "directory":
            continue
        if not SAFE_NAME.fullmatch(path):
            raise ArtifactError(f"{where}: {shown(path)} is no name for a file of a shared folder")
        if type(size) is not int or size < 0:
            raise ArtifactError(f"{where}/{path}: the hub gives its size as {shown(size)}")
        sizes[path] = size
    total = sum(sizes.values())
    if total > LARGEST_TOTAL + LARGEST_MANIFEST:
        raise ArtifactError(f"{where}: {total} bytes of files, more than the {LARGEST_TOTAL} that are read")
    return sizes


def _file(name: HubName, revision: str, file: str, size: int) -> bytes:
    """Download a file. Its size must be the one that the hub lists."""
    content = get(f"{name}/{file}", f"{name.repository}/resolve/{quote(revision, safe='')}/{quote(file)}", size)
    if len(content) != size:
        raise ArtifactError(
            f"{name}/{file}: damaged: {len(content)} bytes, not the {size} that the hub lists; try again"
        )
    return content


def _kept(name: HubName, commit: str) -> Path | None:
    """The path in the cache of a folder at a commit, separate for each hub."""
    place = cache_place()
    if place is None:
        return None
    hub = re.sub(r"[^a-z0-9.-]+", "-", urlsplit(endpoint()).netloc.rpartition("@")[2].lower())
    return place / "hub" / hub / name.repository.replace("/", "--") / commit
