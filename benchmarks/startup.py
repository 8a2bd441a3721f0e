"""Time the start-up of the command line: `python -m benchmarks.startup`.

Each command runs five times in a separate process, after a first run that is not counted. Wall-clock time is what a
user waits. Processor time depends less on the load of the machine.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

RUNS = 5
CLI = ("-m", "cooptions")
COMMANDS: dict[str, tuple[str, ...]] = {
    "import cooptions": ("-c", "import cooptions"),
    "--help": (*CLI, "--help"),
    "--version": (*CLI, "--version"),
    "list": (*CLI, "list"),
    "mistyped command": (*CLI, "tarin", "quick"),
    "mistyped preset": (*CLI, "train", "qiuck"),
    "mistyped scenario": (*CLI, "train", "lbf-15x15-4p"),
    "mistyped flag": (*CLI, "train", "quick", "--sedes", "3"),
    "mistyped field": (*CLI, "train", "quick", "--learning.leaner.steps", "3"),
    "train --help": (*CLI, "train", "--help"),
    "train quick --help": (*CLI, "train", "quick", "--help"),
}
"""The measured commands, as arguments of the interpreter."""


def measure(arguments: tuple[str, ...], source: Path) -> dict[str, Any]:
    """The median seconds of a command with the sources in a directory."""
    variables = {**os.environ, "PYTHONPATH": str(source)}
    walls, processors = [], []
    for _ in range(RUNS + 1):
        begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([sys.executable, *arguments], capture_output=True, env=variables, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        walls.append(time.perf_counter() - begun)
        processors.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    lines = len((done.stdout + done.stderr).splitlines())
    seconds = {"wall": round(median(walls[1:]), 3), "processor": round(median(processors[1:]), 3)}
    return {"seconds": seconds, "exit": done.returncode, "lines": lines}


def made_by(source: Path) -> dict[str, Any]:
    """Command, versions, commit and date."""
    described = ["git", "-C", str(source), "describe", "--always", "--dirty", "--abbrev=12"]
    names = ("jax", "equinox", "jaxmarl", "jumanji", "numpy", "rich")
    return {
        "command": "python -m benchmarks.startup",
        "commit": subprocess.run(described, capture_output=True, text=True, check=True).stdout.strip(),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "device": f"{os.cpu_count()} x {platform.machine()} CPU",
        "load": [round(each, 1) for each in os.getloadavg()],
        "python": platform.python_version(),
        "runs": RUNS,
        "versions": {name: metadata.version(name) for name in names},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, default=Path(__file__).parents[1] / "src", help="the sources to measure")
    parser.add_argument("--name", default="after", help="the entry of the result file")
    parser.add_argument("--out", type=Path, default=Path("results/speed/startup-cpu.json"), help="the result file")
    given = parser.parse_args()
    measured = {}
    for name, arguments in COMMANDS.items():
        measured[name] = measure(arguments, given.source)
        print(f"{name:>20} {measured[name]['seconds']['wall']:7.2f} s", flush=True)
    known = json.loads(given.out.read_text()) if given.out.exists() else {}
    known[given.name] = {**made_by(given.source), "measured": measured}
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main()
