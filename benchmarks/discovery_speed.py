"""Time a whole discovery at the paper's budget, as a separate process from start to end.

python -m benchmarks.discovery_speed --json
"""

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from cooptions.runs.directory import provenance


@dataclass(frozen=True)
class Arguments:
    """Run discovery once in an empty run directory."""

    discover: str = "lbf-15x15-4p-3f --method iaro-paper"
    """The arguments of `cooptions discover`."""
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Print one JSON object at the end."""


def main(arguments: Arguments) -> None:
    words = ["discover", *arguments.discover.split()]
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-m", "cooptions", *words, "--out", folder], check=True, stdout=sys.stderr)
        wall = time.perf_counter() - begun
        stages = json.loads((Path(folder) / "manifest.json").read_text())
    result: dict[str, Any] = {
        "discover": " ".join(["cooptions", *words]),
        "wall_seconds": round(wall, 1),
        "seconds": {name: entry["seconds"] for name, entry in stages.items()},
    }
    print(f"{wall:.1f} s in all, {result['seconds']}")
    if arguments.json:
        print(json.dumps({**result, **provenance()}))


if __name__ == "__main__":
    main(tyro.cli(Arguments))
