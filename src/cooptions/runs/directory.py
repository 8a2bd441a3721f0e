"""Run directories: artefacts of stages with their configuration, provenance and SHA-256."""

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
    """Print a warning on standard error."""
    say(f"warning: {message}")


class RunDirectory:
    """A directory of stages. Each stage has a configuration and one artefact, a pytree of arrays.

    `config.json` has the configuration of every stage that was begun. `manifest.json` has the finished stages: their
    files with SHA-256, and how they were made. Both files carry their own checksum. Open a directory with `open_run`,
    which locks it, or with `read_run`, which changes nothing.
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
        """Raise `ArtifactError` if records are missing, damaged or inconsistent, naming the file and the field."""
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
        """Record the stages' configurations. Raises `ArtifactError` if existing artefacts have another one."""
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
        """The artefact of a stage, restored from its arrays if the stage is finished, otherwise made and saved.

        Its time is the sum over all sessions except those that were killed.
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
        except BaseException:  # stopped or failed: the time is added when the stage finishes
            with contextlib.suppress(OSError, ArtifactError):
                write_json(self.file("stopped.json"), {**earlier, name: time.perf_counter() - begun})
            raise
        self.save(name, tree, seconds=time.perf_counter() - begun)
        return tree

    def save(self, name: str, tree: Any, *, seconds: float, made_by: Json | None = None) -> None:
        """Write a pytree of arrays and add the stage to the manifest, with the provenance `made_by`, by default this
        process.

        Metrics files that no other stage has sealed belong to this one.
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
        """Add other files of a finished stage, for example its scores, to the manifest with their SHA-256."""
        manifest = self.manifest
        sealed = manifest[name].get("sealed", {}) | {self._name(path): file_digest(path) for path in files}
        if sealed != manifest[name].get("sealed"):
            self._require_writable(name)
            write_record(self.file("manifest.json"), {**manifest, name: {**manifest[name], "sealed": sealed}})

    def problem(self, name: str, path: Path) -> str:
        """What is wrong with a file that a stage sealed; empty if it is intact or not sealed."""
        expected = self.manifest.get(name, {}).get("sealed", {}).get(self._name(path))
        return sealed_problem(path, expected) if expected else ""

    def verify_sealed(self, name: str, under: str = "") -> list[Path]:
        """The files that a stage sealed, or only those in the folder `under`. Raises `ArtifactError` if one changed."""
        sealed = self.manifest.get(name, {}).get("sealed", {})
        files = [self.file(file) for file in sealed if file.startswith(under)]
        for path in files:
            if problem := self.problem(name, path):
                raise ArtifactError(f"{path}: {problem}; restore it, or see `cooptions repair {self.path}`")
        return files

    @property
    def holds_nothing(self) -> bool:
        """Whether no stage has left anything here, so that another configuration may be tried."""
        names = {path.name for path in self.path.iterdir()} if self.path.exists() else set()
        return names <= {"config.json", "manifest.json", "lock", "run.yaml", "stopped.json"} and not self.manifest

    def keeps(self, name: str) -> bool:
        """Whether a stage is finished and its files exist. A copied run may lack some."""
        return name in self.manifest and all(self.file(file).exists() for file in self.manifest[name]["files"])

    def load(self, name: str) -> dict[str, np.ndarray]:
        """Load the arrays of a finished stage by name, after verifying the SHA-256."""
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
        """Add values to `summary.json`, a short overview for readers."""
        self._require_writable("summary")
        path = self.file("summary.json")
        write_json(path, {**self._disposable(path), **values})

    @property
    def _holds_work(self) -> bool:
        """Whether there are files of stages."""
        return any(next(self.path.glob(each), None) for each in ("*.safetensors", "metrics/*.jsonl", "checkpoints/*/*"))

    def _seconds_so_far(self) -> dict[str, float]:
        """The seconds that stopped stages have taken so far."""
        found = self._disposable(self.file("stopped.json"))
        return {stage: float(seconds) for stage, seconds in found.items() if type(seconds) in (int, float)}

    def _disposable(self, path: Path) -> Json:
        """Read a file that nothing depends on. If it is damaged, it is ignored with a warning."""
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
    """Create or open a run directory for these stages, and lock it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be used as a run directory: {error.strerror}") from None
    with hold(path / "lock", warn):
        for left in path.rglob(f".*{PARTIAL}"):  # left by a process that died
            left.unlink(missing_ok=True)
        run = RunDirectory(path, warn=warn)
        run.verify()
        run.accept(stages)
        yield run


def read_run(path: Path, warn: Warn = complain) -> RunDirectory:
    """Open a run directory for reading, without a lock.

    This works for a run that another process is making, and on a read-only disk.
    """
    run = RunDirectory(path, warn=warn, writable=False)
    if not run.file("config.json").exists():
        if run.file("manifest.json").exists():
            raise ArtifactError(f"{path}: config.json is missing; restore it, or see `cooptions repair {path}`")
        raise ArtifactError(f"{path}: no run was made here; `cooptions discover SCENARIO --out {path}` makes one")
    run.verify()
    return run


def provenance() -> Json:
    """The provenance of an artefact: command, versions, commit, device and date."""
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
    """The command line, without absolute paths of this machine, so that it can be typed again."""
    words = [Path(word).name if word.startswith("/") else word for word in sys.orig_argv]
    return " ".join(words if "-m" in words[:2] else words[1:])


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _commit() -> str:
    """The commit of the source tree, marked if there are changes; "unknown" outside a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"
