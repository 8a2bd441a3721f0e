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
from cooptions.files import Json, Tree, differences, digest, named_leaves, read_json, write_bytes, write_json


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
        return read_json(self.file("manifest.json"))

    @property
    def configs(self) -> dict[str, Json]:
        return read_json(self.file("config.json"))

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
        earlier = read_json(path)
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
            "files": {file: digest(content)},
            "seconds": round(seconds, 3),
            "made_by": made_by or provenance(),
        }
        write_json(self.file("manifest.json"), {**self.manifest, name: entry})

    @property
    def holds_nothing(self) -> bool:
        """Whether no stage has left anything here: who was refused for a mistyped flag may try again in this place."""
        return {path.name for path in self.path.iterdir()} <= {"config.json", "lock", "run.yaml", "stopped.json"}

    def keeps(self, name: str) -> bool:
        """Whether a stage was finished and its files are still here: who copies a run may leave some behind."""
        return name in self.manifest and all(self.file(file).exists() for file in self.manifest[name]["files"])

    def load(self, name: str) -> dict[str, np.ndarray]:
        """The arrays of a finished stage by name, after comparing hashes."""
        arrays: dict[str, np.ndarray] = {}
        for file, expected in self.manifest[name]["files"].items():
            arrays |= _read_tensors(self.file(file), expected)
        return arrays

    def summarise(self, **values: Any) -> None:
        """Add to `summary.json`, the few numbers a reader wants first."""
        path = self.file("summary.json")
        write_json(path, {**read_json(path), **values})


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










def _read_tensors(path: Path, expected: str) -> dict[str, np.ndarray]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ArtifactError(
            f"{path}: cannot be read: {error.strerror}; bring it back, or delete its entry in manifest.json to have it "
            "made again"
        ) from None
    if digest(content) != expected:
        raise ArtifactError(f"{path}: damaged: its SHA-256 is not the manifest's; delete the run directory and rerun")
    try:
        return parse_tensors(content)
    except SafetensorError as error:
        raise ArtifactError(f"{path}: not a safetensors file: {error}") from None










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
