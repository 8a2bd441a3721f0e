"""Fuzz the loaders of untrusted files. Each must accept an input, or refuse it with a one-line error.

python -m benchmarks.fuzz --target option-set --seconds 900
python -m benchmarks.fuzz --target all --seconds 3600     a quarter of the time for each

With `pip install atheris`, inputs are guided by coverage (libFuzzer); without it, they are mutated at random. Any error
that is not an expected refusal is a finding. Findings are grouped by the line of our code that raised them, and fuzzing
continues.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import tyro

TARGETS = ("option-set", "run-config", "safetensors", "checkpoint")


@dataclass(frozen=True)
class Arguments:
    """The targets to fuzz, and the time for them."""

    target: Literal["all", "option-set", "run-config", "safetensors", "checkpoint"] = "all"
    seconds: float = 60.0
    """The total processor time."""
    engine: Literal["auto", "atheris", "own"] = "auto"
    """`auto` uses atheris if it is installed."""
    seed: int = 0
    out: Path = Path("results/faults/fuzz.json")
    """The result file. Existing results are added to, so that several calls accumulate."""
    place: Path | None = None
    """The folder of the corpus, which later calls reuse; by default a new folder."""


def main(arguments: Arguments) -> None:
    place = arguments.place or Path(tempfile.mkdtemp(prefix="fuzz-"))
    chosen = TARGETS if arguments.target == "all" else (arguments.target,)
    result = json.loads(arguments.out.read_text()) if arguments.out.exists() else {"targets": {}}
    for target in chosen:
        row = tried(target, arguments, place / target, arguments.seconds / len(chosen))
        result["targets"][target] = row = added(result["targets"].get(target), row)
        write(arguments.out, {**result, **told()})
        print(f"{target}: {row['executions']} executions in {row['seconds']} s, {len(row['findings'])} findings")


def tried(target: str, arguments: Arguments, place: Path, seconds: float) -> dict[str, Any]:
    """Fuzz one target in separate processes. If one dies, another continues."""
    place.mkdir(parents=True, exist_ok=True)
    begun, sessions, deaths = time.monotonic(), [], []
    while (left := seconds - sum(each.get("cpu_seconds", 0) for each in sessions)) > 5:
        command = [sys.executable, "-m", "benchmarks.fuzz_child", target, arguments.engine, str(left)]
        command += [str(place), str(arguments.seed + len(sessions))]
        with (place / "log").open("ab") as log:
            code = subprocess.run(
                command, stdout=log, stderr=log, env={**os.environ, "JAX_PLATFORMS": "cpu"}
            ).returncode
        state = place / "state.json"
        sessions.append(json.loads(state.read_text()) if state.exists() else {})
        state.unlink(missing_ok=True)
        if code:
            deaths.append({"exit": code, "input": (place / "current").read_bytes()[:400].rstrip(b"\0").hex()})
        if len(deaths) > 20:
            break
    return {
        "engine": next((each["engine"] for each in sessions if each), "none"),
        "executions": sum(each.get("executions", 0) for each in sessions),
        "refused": sum(each.get("refused", 0) for each in sessions),
        "understood": sum(each.get("understood", 0) for each in sessions),
        "seconds": round(time.monotonic() - begun),
        "cpu_seconds": round(sum(each.get("cpu_seconds", 0) for each in sessions)),
        "slowest_seconds": max((each.get("slowest", 0) for each in sessions), default=0),
        "findings": merged([each.get("findings", {}) for each in sessions]),
        "deaths": deaths,
    }


def added(known: dict[str, Any] | None, row: dict[str, Any]) -> dict[str, Any]:
    """The sum of earlier results and a new row."""
    if known is None:
        return row
    sums = {name: known[name] + row[name] for name in ("executions", "refused", "understood", "seconds", "cpu_seconds")}
    return {
        **row,
        **sums,
        "slowest_seconds": max(known["slowest_seconds"], row["slowest_seconds"]),
        "findings": merged([known["findings"], row["findings"]]),
        "deaths": known["deaths"] + row["deaths"],
    }


def merged(each: list[dict[str, dict]]) -> dict[str, dict]:
    """The findings of several sessions, merged by line."""
    found: dict[str, dict] = {}
    for findings in each:
        for where, finding in findings.items():
            known = found.setdefault(where, {**finding, "times": 0})
            known["times"] += finding["times"]
    return found


def told() -> dict[str, Any]:
    names = ("atheris", "cooptions", "jax", "numpy", "safetensors", "pyyaml")
    versions = {name: version for name in names if (version := _version(name))}
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    words = [word for word in sys.orig_argv[1:] if not word.startswith("/")]
    return {
        "command": f"python {' '.join(words)}",
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": sys.version.partition(" ")[0],
        "versions": versions,
        "commit": commit,
    }


def write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


if __name__ == "__main__":
    main(tyro.cli(Arguments))
