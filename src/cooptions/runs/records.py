"""The records of a run directory, `config.json` and `manifest.json`: stages by name, with a check of the whole."""

import json
from pathlib import Path
from types import NoneType
from typing import Any

from cooptions.errors import ArtifactError
from cooptions.files import Json, differences, digest, file_digest, parse_json, read_json, read_plain, write_json

CHECK = "check"
"""The name of the check among the stages."""
ENTRY: dict[str, Any] = {
    "config": (dict, NoneType),
    "files": dict,
    "sealed": dict,
    "seconds": (int, float),
    "made_by": dict,
}
"""What the entry of a finished stage holds; those of the first version seal nothing."""
LONGEST_NAME = 200


def write_record(path: Path, stages: Json) -> None:
    write_json(path, {**stages, CHECK: _check(stages)})


def read_record(path: Path) -> dict[str, Json]:
    """The stages in a record, once its check fits; none where there is no file."""
    stages = read_json(path)
    check = stages.pop(CHECK, None)
    odd = [name for name, value in stages.items() if not isinstance(value, dict)]
    if odd or (check is not None and check != _check(stages)):
        reason = f"{odd[0]!r} is no stage" if odd else "its check does not fit"
        raise ArtifactError(f"{path}: damaged: {reason}; restore it, or see `cooptions repair {path.parent}`")
    return stages


def read_manifest(path: Path) -> dict[str, Json]:
    """The finished stages in a manifest, each with all that an entry has, and with files of this directory alone."""
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
    """Whether the name of a file stays below its directory."""
    parts = name.split("/")
    return name.isprintable() and "\\" not in name and not {"", ".", ".."} & set(parts) and len(name) <= LONGEST_NAME


def has_check(path: Path) -> bool:
    """Whether a record was made since there are checks; one that is missing might have been."""
    return not path.exists() or CHECK in read_json(path)


def json_differences(path: Path, stage: str, expected: Json | None) -> str:
    """In which fields a file's configuration of a stage is not what it was, if it can be read and is another."""
    try:
        told = parse_json(read_plain(path)).get(stage)
    except (OSError, ValueError, AttributeError, RecursionError):
        return ""
    if expected is None or told is None:
        return ""
    return "; ".join(differences(told, expected)).replace(" now", "")


def sealed_problem(path: Path, expected: str) -> str:
    """What is wrong with a file that should have this SHA-256, if anything."""
    try:
        return "" if file_digest(path) == expected else "damaged: its SHA-256 is not the manifest's"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _check(stages: Json) -> str:
    return digest(json.dumps(stages, sort_keys=True).encode())
