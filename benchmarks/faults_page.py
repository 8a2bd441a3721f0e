"""The tables of `docs/guides/reliability.md`, from what `results/faults` holds.

python -m benchmarks.faults_page
"""

import json
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.faults import table
from cooptions.campaigns.report import with_parts
from cooptions.files import write_bytes
from cooptions.scores.tables import markdown_table

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/guides/reliability.md"
RESULTS = ROOT / "results/faults"
MISSING = "*Not measured yet.*"


def written(text: str) -> str:
    """The page with its tables made from the results."""
    return with_parts(text, part)


def part(name: str) -> str:
    """What stands between the markers of this name."""
    path = RESULTS / f"{name}.json"
    return PARTS[name](json.loads(path.read_text())) if path.exists() else MISSING


def _faults(result: Mapping[str, Any]) -> str:
    """What became of the tries, and who made them when."""
    minutes = sum(row["seconds"] for row in result["tries"].values()) / 60
    return f"{table(result)}\n\n{_made(result)}, {minutes:.0f} minutes.{_note(result)}"


def _fuzz(result: Mapping[str, Any]) -> str:
    head = ("target", "engine", "inputs", "processor seconds", "slowest, s", "findings", "crashes")
    rows = [
        (
            name,
            row["engine"],
            f"{row['executions']:,}",
            str(row["cpu_seconds"]),
            str(row["slowest_seconds"]),
            str(len(row["findings"])),
            str(len(row["deaths"])),
        )
        for name, row in result["targets"].items()
    ]
    return f"{markdown_table(head, rows)}\n{_made(result)}."


def _load(result: Mapping[str, Any]) -> str:
    head = ("", "early", "late", "most", "change, %")
    rows = [(name, *(str(value) for value in each.values())) for name, each in result["held"].items()]
    took = f"{result['cycles']} cycles in {result['minutes']} minutes"
    return f"{markdown_table(head, rows)}\n{_made(result)}, {took}.{_note(result)}"


def _note(result: Mapping[str, Any]) -> str:
    """What else a reader should know, wrapped as prose is."""
    return "".join(f"\n{line}" for line in textwrap.wrap(result.get("note", ""), 100))


def _made(result: Mapping[str, Any]) -> str:
    """The command, on a line of its own, and what it was run on."""
    return f"`{result['command']}`:\ncommit {result['commit'][:7]}"


PARTS = {"before": _faults, "faults": _faults, "fuzz": _fuzz, "load-cpu": _load}
"""The files of `results/faults`, and how each becomes a table."""


if __name__ == "__main__":
    write_bytes(PAGE, written(PAGE.read_text()).encode())
