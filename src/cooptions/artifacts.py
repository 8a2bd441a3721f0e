"""Run directories: what was made, from which configuration, by which code, and whether it is still whole."""

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as parse_tensors
from safetensors.numpy import save as format_tensors

from cooptions.errors import ArtifactError

Tree = TypeVar("Tree")
Json = dict[str, Any]

_PACKAGES = ("cooptions", "jax", "jaxlib", "equinox", "optax", "jumanji", "jaxmarl", "numpy")


class RunDirectory:
    """A directory of stages. Each stage has a configuration and one artefact, a tree of arrays.

    `config.json` holds the configuration of every stage begun here, `manifest.json` what was finished: files
    with their SHA-256 and who made them. Open it with `open_run`, which locks it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def file(self, *parts: str) -> Path:
        return self.path.joinpath(*parts)

    @property
    def manifest(self) -> dict[str, Json]:
        return _read_json(self.file("manifest.json"))

    @property
    def configs(self) -> dict[str, Json]:
        return _read_json(self.file("config.json"))

    def accept(self, stages: Mapping[str, Json]) -> None:
        """Record the stages' configurations, or refuse those that differ from the ones something was made with."""
        known, free = self.configs, self.holds_nothing
        for stage, config in stages.items():
            if not free and stage in known and known[stage] != config:
                changes = "; ".join(differences(known[stage], config))
                raise ArtifactError(
                    f"{self.path}: made with another configuration: {stage}: {changes}; choose another --out"
                )
        write_json(self.file("config.json"), {**known, **stages})

    def stage(self, name: str, make: Callable[[], Tree], restore: Callable[[dict[str, np.ndarray]], Tree]) -> Tree:
        """The artefact of a stage: restored from its arrays where it was finished before, else made and saved.

        The seconds it took are those of all sessions, but for any that was killed.
        """
        if name in self.manifest:
            return restore(self.load(name))
        path = self.file("stopped.json")
        earlier = _read_json(path)
        begun = time.perf_counter() - earlier.get(name, 0.0)
        try:
            tree = jax.block_until_ready(make())
        except BaseException:  # stopped or failed: what it took counts once it is finished
            with contextlib.suppress(OSError):
                write_json(path, {**earlier, name: time.perf_counter() - begun})
            raise
        self.save(name, tree, seconds=time.perf_counter() - begun)
        return tree

    def save(self, name: str, tree: Any, *, seconds: float, made_by: Json | None = None) -> None:
        """Write a tree of arrays and enter it in the manifest, as made here and now unless it was made elsewhere."""
        content = format_tensors({key: np.ascontiguousarray(leaf) for key, leaf in named_leaves(tree)})
        file = f"{name}.safetensors"
        write_bytes(self.file(file), content)
        entry = {
            "config": self.configs.get(name),
            "files": {file: _digest(content)},
            "seconds": round(seconds, 3),
            "made_by": made_by or provenance(),
        }
        write_json(self.file("manifest.json"), {**self.manifest, name: entry})

    @property
    def holds_nothing(self) -> bool:
        """Whether no stage has left anything here: who was refused for a mistyped flag may try again in this place."""
        return {path.name for path in self.path.iterdir()} <= {"config.json", "lock", "stopped.json"}

    def keeps(self, name: str) -> bool:
        """Whether a stage was finished and its files are still here: who copies a run may leave some behind."""
        return name in self.manifest and all(self.file(file).exists() for file in self.manifest[name]["files"])

    def load(self, name: str) -> dict[str, np.ndarray]:
        """The arrays of a finished stage by name, after comparing hashes."""
        arrays: dict[str, np.ndarray] = {}
        for file, digest in self.manifest[name]["files"].items():
            arrays |= _read_tensors(self.file(file), digest)
        return arrays

    def summarise(self, **values: Any) -> None:
        """Add to `summary.json`, the few numbers a reader wants first."""
        path = self.file("summary.json")
        write_json(path, {**_read_json(path), **values})


@contextlib.contextmanager
def open_run(path: Path, stages: Mapping[str, Json]) -> Iterator[RunDirectory]:
    """Create or reopen a run directory for these stages, and hold it against other processes."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = open(path / "lock", "a+")  # noqa: SIM115 (held until the run ends)
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be used as a run directory: {error.strerror}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "another process"
            raise ArtifactError(f"{path}: held by {holder}; wait for it or choose another --out") from None
        lock.truncate(0)
        lock.write(f"process {os.getpid()}")
        lock.flush()
        run = RunDirectory(path)
        run.accept(stages)
        yield run


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


def provenance() -> Json:
    """Command, versions, commit, device and date: what a number needs beside it to be believed."""
    device = jax.devices()[0]
    return {
        "command": _command(),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "device": f"{len(jax.devices())} x {device.device_kind}",
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in _PACKAGES},
        "commit": _commit(),
    }


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


def _read_tensors(path: Path, digest: str) -> dict[str, np.ndarray]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ArtifactError(
            f"{path}: cannot be read: {error.strerror}; bring it back, or delete its entry in manifest.json to have it "
            "made again"
        ) from None
    if _digest(content) != digest:
        raise ArtifactError(f"{path}: damaged: its SHA-256 is not the manifest's; delete the run directory and rerun")
    try:
        return parse_tensors(content)
    except SafetensorError as error:
        raise ArtifactError(f"{path}: not a safetensors file: {error}") from None


def _read_json(path: Path) -> Json:
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ArtifactError(f"{path}: damaged: {error}; restore it or choose another --out") from None


def differences(old: Any, new: Any, field: str = "") -> list[str]:
    """The fields in which two configurations differ, with both values."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return [] if old == new else [f"{field} is {old!r} there, {new!r} now"]
    keys = dict.fromkeys([*old, *new])
    return [text for key in keys for text in differences(old.get(key), new.get(key), f"{field}.{key}".strip("."))]


def file_digest(path: Path) -> str:
    """The SHA-256 of a file."""
    return _digest(path.read_bytes())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _command() -> str:
    """The command line that can be typed again, without the places where this machine keeps things."""
    words = [Path(word).name if word.startswith("/") else word for word in sys.orig_argv]
    return " ".join(words if "-m" in words[:2] else words[1:])


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _commit() -> str:
    """The commit of the source tree, with a mark if it was changed; of no use outside a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"
