"""Run directories: what was made, from which configuration, by which code, and whether it is still whole."""

import contextlib
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as parse_tensors
from safetensors.numpy import save as format_tensors

from cooptions.errors import ArtifactError
from cooptions.files import (
    PARTIAL,
    Json,
    Tree,
    differences,
    digest,
    file_digest,
    named_leaves,
    read_json,
    read_plain,
    write_bytes,
    write_json,
)
from cooptions.runs.lock import hold
from cooptions.runs.records import has_check, json_differences, read_manifest, read_record, sealed_problem, write_record
from cooptions.training.signals import say

Warn = Callable[[str], None]

_PACKAGES = ("cooptions", "jax", "jaxlib", "equinox", "optax", "jumanji", "jaxmarl", "numpy")


def complain(message: str) -> None:
    """A warning on standard error."""
    say(f"warning: {message}")


class RunDirectory:
    """A directory of stages. Each stage has a configuration and one artefact, a tree of arrays.

    `config.json` holds the configuration of every stage begun here, `manifest.json` what was finished: files
    with their SHA-256 and who made them. Both carry a check of themselves. Open it with `open_run`, which locks it, or
    with `read_run`, which changes nothing.
    """

    def __init__(self, path: Path, *, warn: Warn = complain, writable: bool = True) -> None:
        self.path, self.warn, self.writable = path, warn, writable

    def file(self, *parts: str) -> Path:
        return self.path.joinpath(*parts)

    @property
    def manifest(self) -> dict[str, Json]:
        return read_manifest(self.file("manifest.json"))

    @property
    def configs(self) -> dict[str, Json]:
        return read_record(self.file("config.json"))

    def verify(self) -> None:
        """Refuse records that are missing, damaged or at odds, by file and, where it can be told, by field."""
        manifest = self.manifest
        missing = [path for path in (self.file("config.json"), self.file("manifest.json")) if not path.exists()]
        if missing and self._holds_work and has_check(self.file("config.json")):
            raise ArtifactError(
                f"{missing[0]}: is missing, though there are files of stages; restore it: `cooptions repair "
                f"{self.path}` shows what is here"
            )
        for stage, entry in manifest.items():
            found = json_differences(self.file("config.json"), stage, entry.get("config"))
            if found:
                raise ArtifactError(
                    f"{self.file('config.json')}: damaged: {stage}: {found} in manifest.json; restore it: `cooptions "
                    f"repair {self.path}` does"
                )
        _ = self.configs

    def accept(self, stages: Mapping[str, Json]) -> None:
        """Record the stages' configurations, or refuse those that differ from the ones something was made with."""
        free, known = self.holds_nothing, self.configs
        for stage, config in stages.items():
            if not free and stage in known and known[stage] != config:
                changes = "; ".join(differences(known[stage], config))
                raise ArtifactError(
                    f"{self.path}: made with another configuration: {stage}: {changes}; choose another --out"
                )
        if known | dict(stages) != known or not self.file("config.json").exists():
            write_record(self.file("config.json"), known | dict(stages))
        if not self.file("manifest.json").exists():
            write_record(self.file("manifest.json"), {})

    def stage(self, name: str, make: Callable[[], Tree], restore: Callable[[dict[str, np.ndarray]], Tree]) -> Tree:
        """The artefact of a stage: restored from its arrays where it was finished before, else made and saved.

        The seconds it took are those of all sessions, but for any that was killed.
        """
        if name in self.manifest:
            self.verify_sealed(name, "metrics/")
            return restore(self.load(name))
        self._require_writable(name)
        if self.file(f"{name}.safetensors").exists():
            self.warn(f"{self.file(f'{name}.safetensors')}: is not in manifest.json, and is made again")
        earlier = self._seconds_so_far()
        begun = time.perf_counter() - earlier.get(name, 0.0)
        try:
            tree = jax.block_until_ready(make())
        except BaseException:  # stopped or failed: what it took counts once it is finished
            with contextlib.suppress(OSError, ArtifactError):
                write_json(self.file("stopped.json"), {**earlier, name: time.perf_counter() - begun})
            raise
        self.save(name, tree, seconds=time.perf_counter() - begun)
        return tree

    def save(self, name: str, tree: Any, *, seconds: float, made_by: Json | None = None) -> None:
        """Write a tree of arrays and enter it in the manifest, as made here and now unless it was made elsewhere.

        Metrics that no stage has sealed are those of this one.
        """
        self._require_writable(name)
        content = format_tensors({key: np.ascontiguousarray(leaf) for key, leaf in named_leaves(tree)})
        file = f"{name}.safetensors"
        write_bytes(self.file(file), content)
        manifest = self.manifest
        theirs = {path for stage, entry in manifest.items() if stage != name for path in entry.get("sealed", {})}
        metrics = [path for path in sorted(self.path.glob("metrics/*.jsonl")) if self._name(path) not in theirs]
        entry = {
            "config": self.configs.get(name),
            "files": {file: digest(content)},
            "sealed": {self._name(path): file_digest(path) for path in metrics},
            "seconds": round(seconds, 3),
            "made_by": made_by or provenance(),
        }
        write_record(self.file("manifest.json"), {**manifest, name: entry})

    def seal(self, name: str, files: Sequence[Path]) -> None:
        """Enter files that a finished stage wrote besides its artefact, such as scores, with their SHA-256."""
        manifest = self.manifest
        sealed = manifest[name].get("sealed", {}) | {self._name(path): file_digest(path) for path in files}
        if sealed != manifest[name].get("sealed"):
            self._require_writable(name)
            write_record(self.file("manifest.json"), {**manifest, name: {**manifest[name], "sealed": sealed}})

    def problem(self, name: str, path: Path) -> str:
        """What is wrong with a file that a stage sealed, if anything, and if it did."""
        expected = self.manifest.get(name, {}).get("sealed", {}).get(self._name(path))
        return sealed_problem(path, expected) if expected else ""

    def verify_sealed(self, name: str, under: str = "") -> list[Path]:
        """The files that a stage sealed, those below a folder if one is named; refused where one is not as it was."""
        sealed = self.manifest.get(name, {}).get("sealed", {})
        files = [self.file(file) for file in sealed if file.startswith(under)]
        for path in files:
            if problem := self.problem(name, path):
                raise ArtifactError(f"{path}: {problem}; restore it, or see `cooptions repair {self.path}`")
        return files

    @property
    def holds_nothing(self) -> bool:
        """Whether no stage has left anything here: who was refused for a mistyped flag may try again in this place."""
        names = {path.name for path in self.path.iterdir()} if self.path.exists() else set()
        return names <= {"config.json", "manifest.json", "lock", "run.yaml", "stopped.json"} and not self.manifest

    def keeps(self, name: str) -> bool:
        """Whether a stage was finished and its files are still here: who copies a run may leave some behind."""
        return name in self.manifest and all(self.file(file).exists() for file in self.manifest[name]["files"])

    def load(self, name: str) -> dict[str, np.ndarray]:
        """The arrays of a finished stage by name, after comparing hashes."""
        arrays: dict[str, np.ndarray] = {}
        for file, expected in self.manifest[name]["files"].items():
            if problem := sealed_problem(self.file(file), expected):
                raise ArtifactError(
                    f"{self.file(file)}: {problem}; restore it, or `cooptions repair {self.path}` removes this stage "
                    "and those after it, to be made again"
                )
            arrays |= _read_tensors(self.file(file))
        return arrays

    def summarise(self, **values: Any) -> None:
        """Add to `summary.json`, the few numbers a reader wants first."""
        self._require_writable("summary")
        path = self.file("summary.json")
        write_json(path, {**self._disposable(path), **values})

    @property
    def _holds_work(self) -> bool:
        """Whether files of stages are here."""
        return any(next(self.path.glob(each), None) for each in ("*.safetensors", "metrics/*.jsonl", "checkpoints/*/*"))

    def _seconds_so_far(self) -> dict[str, float]:
        """What stages took that were stopped."""
        found = self._disposable(self.file("stopped.json"))
        return {stage: float(seconds) for stage, seconds in found.items() if type(seconds) in (int, float)}

    def _disposable(self, path: Path) -> Json:
        """A file that nothing depends on: damaged, it is as good as none."""
        try:
            return read_json(path)
        except ArtifactError:
            self.warn(f"{path}: damaged; it is ignored")
            return {}

    def _name(self, path: Path) -> str:
        return path.relative_to(self.path).as_posix()

    def _require_writable(self, name: str) -> None:
        if not self.writable:
            raise ArtifactError(f"{self.path}: has no {name}, and was opened for reading only")


@contextlib.contextmanager
def open_run(path: Path, stages: Mapping[str, Json], warn: Warn = complain) -> Iterator[RunDirectory]:
    """Create or reopen a run directory for these stages, and hold it against other processes."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be used as a run directory: {error.strerror}") from None
    with hold(path / "lock", warn):
        for left in path.rglob(f".*{PARTIAL}"):  # of a process that died
            left.unlink(missing_ok=True)
        run = RunDirectory(path, warn=warn)
        run.verify()
        run.accept(stages)
        yield run


def read_run(path: Path, warn: Warn = complain) -> RunDirectory:
    """A run directory to read from: nothing is locked, made or written, so that a run that is being made, or one on a
    disk that cannot be written, can be looked at."""
    run = RunDirectory(path, warn=warn, writable=False)
    if not run.file("config.json").exists():
        if run.file("manifest.json").exists():
            raise ArtifactError(f"{path}: config.json is missing; restore it, or see `cooptions repair {path}`")
        raise ArtifactError(f"{path}: no run was made here; `cooptions discover SCENARIO --out {path}` makes one")
    run.verify()
    return run


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


def _read_tensors(path: Path) -> dict[str, np.ndarray]:
    try:
        return parse_tensors(read_plain(path))
    except (OSError, SafetensorError, KeyError, ValueError, TypeError, AttributeError) as error:
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
