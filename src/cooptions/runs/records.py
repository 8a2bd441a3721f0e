"""The records of a run directory, `config.json` and `manifest.json`: stages by name, with a checksum."""

import json
from pathlib import Path
from types import NoneType
from typing import Any

from cooptions.errors import ArtifactError
from cooptions.files import Json, differences, digest, file_digest, parse_json, read_json, read_plain, write_json

CHECK = "check"
"""The key of the checksum among the stages."""
ENTRY: dict[str, Any] = {
    "config": (dict, NoneType),
    "files": dict,
    "sealed": dict,
    "seconds": (int, float),
    "made_by": dict,
}
"""The fields and types of a finished stage's entry. Entries of the first version lack `sealed`."""
LONGEST_NAME = 200


def write_record(path: Path, stages: Json) -> None:
    write_json(path, {**stages, CHECK: _check(stages)})


def read_record(path: Path) -> dict[str, Json]:
    """Read the stages of a record and verify its checksum. Empty if there is no file."""
    stages = read_json(path)
    check = stages.pop(CHECK, None)
    odd = [name for name, value in stages.items() if not isinstance(value, dict)]
    if odd or (check is not None and check != _check(stages)):
        reason = f"{odd[0]!r} is no stage" if odd else "its check does not fit"
        raise ArtifactError(f"{path}: damaged: {reason}; restore it, or see `cooptions repair {path.parent}`")
    return stages


def read_manifest(path: Path) -> dict[str, Json]:
    """Read the finished stages of a manifest. Entries must be complete, and their files inside the directory."""
    manifest = read_record(path)
    for stage, entry in manifest.items():
        for name, kinds in ENTRY.items():
            if not isinstance({"sealed": {}, **entry}.get(name), kinds):
                raise ArtifactError(f"{path}: damaged: {stage}.{name} is not as it is written; restore it")
        for file, sha in {**entry["files"], **entry.get("sealed", {})}.items():
            if not (_is_within(file) and isinstance(sha, str)):
                raise ArtifactError(f"{path}: damaged: {stage}: {ascii(file)[:80]} is no file of a run; restore it")
    return manifest


def _is_within(name: str) -> bool:
    """Whether the name of a file refers to a path inside its directory."""
    parts = name.split("/")
    return name.isprintable() and "\\" not in name and not {"", ".", ".."} & set(parts) and len(name) <= LONGEST_NAME


def has_check(path: Path) -> bool:
    """Whether a record has a checksum, which the first version lacked. True for a missing record."""
    return not path.exists() or CHECK in read_json(path)


def json_differences(path: Path, stage: str, expected: Json | None) -> str:
    """The fields in which a stage's configuration in a file differs from `expected`; empty if it cannot be read."""
    try:
        found = parse_json(read_plain(path)).get(stage)
    except (OSError, ValueError, AttributeError, RecursionError):
        return ""
    if expected is None or found is None:
        return ""
    return "; ".join(differences(found, expected)).replace(" now", "")


def sealed_problem(path: Path, expected: str) -> str:
    """What is wrong with a file that should have this SHA-256; empty if nothing is."""
    try:
        return "" if file_digest(path) == expected else "damaged: its SHA-256 is not the manifest's"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _check(stages: Json) -> str:
    return digest(json.dumps(stages, sort_keys=True).encode())
