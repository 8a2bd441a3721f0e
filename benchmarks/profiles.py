"""Summarise profiles of training on a GPU, kernel by kernel.

    python -m benchmarks.learning_speed --scenario lbf --only ours ours+options --profile DIR
    python -m benchmarks.profiles DIR > profiles.json

The first command runs on the device and writes JAX's trace of a few updates, and the compiled program. The second runs
on any machine. It prints the device time by part of an update and by kernel, and the idle time.
"""

import gzip
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import jax
import tyro

from cooptions.errors import require

PARTS = ("act", "step", "options", "replay", "target", "loss", "optimiser")
"""The parts of an update, which are named scopes in the program. The innermost scope counts."""


@dataclass(frozen=True)
class Arguments:
    """Summarise traces in one JSON document."""

    directory: Annotated[Path, tyro.conf.Positional]
    most: int = 12
    """The number of kernels to list per contestant."""


@dataclass
class Kernels:
    """The total time and number of calls of each kernel of a trace, and the time span of the trace."""

    nanoseconds: Counter[str] = field(default_factory=Counter)
    number: Counter[str] = field(default_factory=Counter)
    begun: float = float("inf")
    ended: float = 0.0

    def add(self, name: str, start: float, duration: float) -> None:
        self.nanoseconds[name] += duration
        self.number[name] += 1
        self.begun, self.ended = min(self.begun, start), max(self.ended, start + duration)


def main(arguments: Arguments) -> None:
    found = {path.parent.name: summary(path.parent, arguments.most) for path in arguments.directory.rglob("made.json")}
    require(
        bool(found), f"{arguments.directory}: there are no traces; `benchmarks.learning_speed --profile` writes them"
    )
    print(json.dumps(found, indent=1))


def summary(directory: Path, most: int) -> dict[str, Any]:
    made = json.loads((directory / "made.json").read_text())
    scopes = scopes_of(gzip.decompress((directory / "program.gz").read_bytes()).decode())
    kernels = kernels_of(gzip.decompress((directory / "trace.gz").read_bytes()))
    updates = made["updates"]
    busy, whole = sum(kernels.nanoseconds.values()), kernels.ended - kernels.begun
    parts: Counter[str] = Counter()
    for name, nanoseconds in kernels.nanoseconds.items():
        parts[part_of(scopes.get(name, ""))] += nanoseconds
    return {
        "ms_per_update": round(whole / updates / 1e6, 3),
        "busy_ms": round(busy / updates / 1e6, 3),
        "kernels_per_update": round(sum(kernels.number.values()) / updates),
        "ms_by_part": {part: round(value / updates / 1e6, 3) for part, value in parts.most_common()},
        "kernels": [
            {
                "name": name,
                "scope": scopes.get(name, "")[-120:],
                "per_update": round(kernels.number[name] / updates, 1),
                "ms": round(value / updates / 1e6, 3),
            }
            for name, value in kernels.nanoseconds.most_common(most)
        ],
        "made_by": made,
    }


def scopes_of(program: str) -> dict[str, str]:
    """The named scope of each kernel of a compiled program. Kernels have the names of instructions."""
    pattern = re.compile(r"^\s*(?:ROOT )?%?([\w.\-]+) = .*?op_name=\"([^\"]*)\"", re.MULTILINE)
    return {re.sub(r"[.\-]", "_", name): scope for name, scope in pattern.findall(program)}


def part_of(scope: str) -> str:
    """The innermost part of an update that a scope names."""
    named = [word for word in re.split(r"[/()]+", scope) if word in PARTS]
    part = named[-1] if named else "other"
    return "gradient" if part == "loss" and "transpose(" in scope else part


def kernels_of(trace: bytes) -> Kernels:
    """The kernels that ran on all streams of the device."""
    kernels = Kernels()
    for plane in jax.profiler.ProfileData.from_serialized_xspace(trace).planes:
        if not plane.name.startswith("/device:GPU"):
            continue
        for line in plane.lines:
            if not line.name.startswith("Stream"):
                continue
            for event in line.events:
                kernels.add(event.name, event.start_ns, event.duration_ns)
    return kernels


if __name__ == "__main__":
    main(tyro.cli(Arguments))
