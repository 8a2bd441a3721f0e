"""Check a run directory file by file, and remove damaged files so that they are made again."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cooptions.errors import ArtifactError
from cooptions.files import Json, file_digest, read_json
from cooptions.runs.directory import RunDirectory, complain, provenance
from cooptions.runs.lock import hold
from cooptions.runs.records import read_manifest, read_record, sealed_problem, write_record
from cooptions.runs.stages import STAGES
from cooptions.training.checkpoints import Checkpoints
from cooptions.training.metrics import MetricsFile

State = Literal["sound", "damaged", "missing", "unfinished", "ignored"]
Remedy = Literal["", "remake", "forget", "rewrite"]


@dataclass(frozen=True)
class Finding:
    """The state of one file of a run directory."""

    stage: str
    """The stage to which it belongs; empty for the records of the whole run."""
    file: str
    """Its path within the directory."""
    state: State
    detail: str = ""
    remedy: Remedy = ""
    """The action of `remove_unsound`: remove the stage and later ones so that they are made again (`remake`), remove
    only this file (`forget`), or write the record again (`rewrite`)."""


def inspect(path: Path) -> list[Finding]:
    """The state of every file that the run depends on. Changes nothing."""
    if not any(next(path.glob(each), None) for each in ("config.json", "manifest.json", "*.safetensors")):
        raise ArtifactError(f"{path}: no run was made here")
    records = {name: _record(path, name) for name in ("manifest.json", "config.json")}
    manifest = _entries(path)
    findings = [*records.values()]
    for stage, entry in manifest.items():
        findings += [_file(path, stage, file, sha, "remake") for file, sha in entry.get("files", {}).items()]
        findings += [_file(path, stage, file, sha, "forget") for file, sha in entry.get("sealed", {}).items()]
    findings += _strays(path, manifest)
    findings += _unfinished(path, manifest)
    findings += [_disposable(path, name) for name in ("stopped.json", "summary.json") if (path / name).exists()]
    return findings


def unsound(findings: Sequence[Finding]) -> list[Finding]:
    return [each for each in findings if each.remedy]


def lost_stages(findings: Sequence[Finding]) -> list[str]:
    """The finished stages that must be made again: damaged ones, and those that depend on them."""
    damaged = {each.stage for each in findings if each.remedy == "remake"}
    order = list(STAGES)
    first = min((order.index(stage) for stage in damaged if stage in order), default=len(order))
    finished = {each.stage for each in findings if each.stage}
    return [stage for stage in (*order[first:], *sorted(damaged - set(order))) if stage in finished]


def remove_unsound(path: Path, warn: Callable[[str], None] = complain) -> list[str]:
    """Remove damaged files and everything made from them. Returns their names. The run can then be resumed."""
    with hold(path / "lock", warn):
        findings = inspect(path)
        removed: list[str] = []
        manifest = _entries(path)
        lost = lost_stages(findings)
        for stage in lost:
            removed += _remove_stage(path, stage, manifest.pop(stage, {}))
        if lost or _is_damaged(path / "config.json"):  # unfinished stages may depend on what was lost
            removed += _remove([path / each.file for each in findings if each.state == "unfinished"], path)
        for each in findings:
            if each.remedy == "forget" and each.stage in manifest:
                manifest[each.stage]["sealed"].pop(each.file, None)
            if each.remedy in ("forget", "remake"):
                removed += _remove([path / each.file], path)
        if unsound(findings):
            _rewrite(path, manifest, findings, removed)
        return sorted(set(removed))


def rows(findings: Sequence[Finding]) -> list[tuple[str, str, str, str]]:
    """A table of the findings: stage, file, state, and the action of `remove_unsound`."""
    actions = {
        "": "",
        "remake": "remove; made again with the stages after it",
        "forget": "remove; the stage is kept",
        "rewrite": "write again",
    }
    described = [(each, f"{each.state}: {each.detail}" if each.detail else each.state) for each in findings]
    return [(each.stage, each.file, state, actions[each.remedy]) for each, state in described]


def repair(
    path: Path, agree: Callable[[list[tuple[str, str, str, str]]], bool], warn: Callable[[str], None] = complain
) -> list[str]:
    """Inspect a run directory, and remove damaged files if `agree` returns True for the table of findings.

    Returns the names of the removed files.
    """
    findings = inspect(path)
    if not agree(rows(findings)) or not unsound(findings):
        return []
    return remove_unsound(path, warn)


def _record(path: Path, name: str) -> Finding:
    """The finding for a record: whether it can be read, and for `config.json` whether it agrees with the manifest."""
    if not (path / name).exists():
        return Finding("", name, "missing", "", "rewrite")
    run = RunDirectory(path)
    try:
        _read(path / name)
        if name == "config.json" and not _is_damaged(path / "manifest.json"):
            run.verify()
    except ArtifactError as error:
        return Finding("", name, "damaged", str(error).partition("damaged: ")[2].partition("; restore")[0], "rewrite")
    return Finding("", name, "sound")


def _is_damaged(path: Path) -> bool:
    """Whether a record is missing or cannot be read."""
    try:
        _read(path)
    except ArtifactError:
        return True
    return not path.exists()


def _read(path: Path) -> dict[str, Json]:
    return read_manifest(path) if path.name == "manifest.json" else read_record(path)


def _entries(path: Path) -> dict[str, Json]:
    """The finished stages. From a damaged manifest, those are recovered whose artefact's SHA-256 occurs in it."""
    manifest = path / "manifest.json"
    if not _is_damaged(manifest):
        return read_manifest(manifest)
    if _is_damaged(path / "config.json") or not manifest.exists():
        return {}
    text, configs = manifest.read_bytes(), read_record(path / "config.json")
    metrics = {file.relative_to(path).as_posix(): file_digest(file) for file in path.glob("metrics/*.jsonl")}
    entries: dict[str, Json] = {}
    for file in sorted(path.glob("*.safetensors")):
        sha = file_digest(file)
        if sha.encode() in text and file.stem in configs:
            entry = {"config": configs[file.stem], "files": {file.name: sha}, "sealed": {}, "seconds": 0.0}
            entries[file.stem] = {**entry, "made_by": {**provenance(), "repaired": True}}
    for name, sha in metrics.items():  # their stage is not known any more: any finished one will do
        if entries and sha.encode() in text:
            next(iter(entries.values()))["sealed"][name] = sha
    return entries


def _file(path: Path, stage: str, file: str, expected: str, remedy: Remedy) -> Finding:
    problem = sealed_problem(path / file, expected)
    if not problem:
        return Finding(stage, file, "sound")
    return Finding(stage, file, "missing" if problem == "is missing" else "damaged", "", remedy)


def _strays(path: Path, manifest: dict[str, Json]) -> list[Finding]:
    """The findings for artefacts without an entry in the manifest, which cannot be verified."""
    known = {file for entry in manifest.values() for file in entry.get("files", {})}
    names = [file.name for file in sorted(path.glob("*.safetensors")) if file.name not in known]
    return [
        Finding(name.removesuffix(".safetensors"), name, "damaged", "not in manifest.json", "remake") for name in names
    ]


def _unfinished(path: Path, manifest: dict[str, Json]) -> list[Finding]:
    """The findings for checkpoints and metrics of unfinished stages."""
    sealed = {file for entry in manifest.values() for file in entry.get("sealed", {})}
    found = []
    for folder in sorted(path.glob("checkpoints/*")):
        checkpoints = Checkpoints(folder)
        damage = checkpoints.damage()
        for step in checkpoints.steps():
            file = checkpoints.file(step)
            name = file.relative_to(path).as_posix()
            state = Finding(folder.name, name, "damaged", "", "forget") if file in damage else None
            found.append(state or Finding(folder.name, name, "unfinished"))
    for file in sorted(path.glob("metrics/*.jsonl")):
        name = file.relative_to(path).as_posix()
        if name not in sealed:
            found.append(_metrics(file, name))
    return found


def _metrics(file: Path, name: str) -> Finding:
    """The finding for metrics of an unfinished stage. If they are damaged, training starts from the beginning."""
    try:
        MetricsFile(file).rows()
    except ArtifactError as error:
        return Finding(file.stem, name, "damaged", str(error).partition(": ")[2].partition(";")[0], "forget")
    return Finding(file.stem, name, "unfinished")


def _disposable(path: Path, name: str) -> Finding:
    try:
        read_json(path / name)
    except ArtifactError:
        return Finding("", name, "ignored", "damaged", "forget")
    return Finding("", name, "sound")


def _remove_stage(path: Path, stage: str, entry: Json) -> list[str]:
    """Remove a finished stage's files, checkpoints and option sets. Returns the names of the removed files."""
    files = [*entry.get("files", {}), *entry.get("sealed", {}), f"{stage}.safetensors"]
    folders = [f"checkpoints/{Path(file).stem}" for file in files if file.startswith("metrics/")]
    for folder in [*folders, *(["option_sets"] if stage == "options" else [])]:
        shutil.rmtree(path / folder, ignore_errors=True)
    return _remove([path / file for file in files], path)


def _remove(files: Sequence[Path], path: Path) -> list[str]:
    """Remove those files that exist, and return their names."""
    there = [file for file in dict.fromkeys(files) if file.exists()]
    for file in there:
        file.unlink()
    return [file.relative_to(path).as_posix() for file in there]


def _rewrite(path: Path, manifest: dict[str, Json], findings: Sequence[Finding], removed: list[str]) -> None:
    """Write both records again for the remaining stages, and remove checkpoints whose metrics are gone."""
    gone = {Path(each.file).stem for each in findings if each.remedy == "forget" and each.file.startswith("metrics/")}
    begun = [each for each in findings if each.state == "unfinished" and each.stage in gone]
    removed += _remove([path / each.file for each in begun], path)
    lost = _is_damaged(path / "config.json")
    configs = {} if lost else read_record(path / "config.json")
    write_record(path / "manifest.json", manifest)
    made = {stage: entry["config"] for stage, entry in manifest.items() if entry.get("config") is not None}
    write_record(path / "config.json", configs | made)
