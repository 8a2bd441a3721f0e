"""The tables in docs/, made from the JSON files in results/: numbers are read, not typed.

python -m benchmarks.tables    # writes the tables of docs/discovery.md anew
"""

import json
from pathlib import Path
from typing import Any

from benchmarks.discovery import ROWS

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "discovery"
END = "<!-- end of table -->"

MEASURES = {
    "Spearman own": ("spearman_own", min),
    "own share": ("own_share", min),
    "leak": ("leak", max),
    "Fermat error (cells)": ("fermat_error_cells", max),
    "distance Pearson": ("distance_pearson", min),
    "hit Pearson": ("hit_pearson", min),
    "padded share": ("padded_share", max),
}
"""Heading: where it stands in a result, and which seed is the worst. Cosines and agreement are not among them."""

_CMI = {"Spearman own": 0.95, "leak": 0.2, "Fermat error (cells)": 0.6}
_HIT = {"Spearman own": 0.99, "leak": 0.01}
_MASK = {"Spearman own": 0.99, "leak": 0.01, "Fermat error (cells)": 0.25}
_COSINES = {"cosine 1-5": 0.97, "cosine 6-10": 0.95}

BARS: dict[str, dict[str, float]] = {
    "mask-nystrom": {**_MASK, **_COSINES},
    "mask-allo": _COSINES,
    "hit-nystrom": _HIT,
    "hit-fresh": _HIT,
    "hit-door": {"hit Pearson": 0.99},
    "hit-counter_circuit": {"hit Pearson": 0.97},
    "cmi": _CMI,
    "cmi-fresh": _CMI,
    "cmi-door": {"distance Pearson": 0.96},
    "scalar": {"distance Pearson": 0.98},
    "raw-joint-7x7": {"cosine 1-4": 0.95},
    "agreement": {"agreement 1-4": 0.9},
    "hetero-pair-mask": {"padded share": 0.01},
    "hetero-trio-mask": {"padded share": 0.01},
    "hetero-pair-cmi": {"padded share": 0.01},
    "hetero-trio-cmi": {"padded share": 0.01},
}
"""What a row was asked to reach on its worst seed, in every feature."""


def bars_table(folder: Path = RESULTS) -> str:
    """Every row that has a bar: what was asked, what came out."""
    lines = _head(["row", "asked", "worst seed, worst feature", "met"])
    for name, bars in BARS.items():
        result = json.loads((folder / f"{name}.json").read_text())
        asked, found, met = [], [], []
        for heading, bar in bars.items():
            most = heading in MEASURES and MEASURES[heading][1] is max
            value = _worst_number(result, heading)
            asked.append(f"{heading} {'at most' if most else 'at least'} {bar:g}")
            found.append(f"{value:.4f}")
            met.append(value <= bar if most else value >= bar)
        lines.append(f"| {name} | {', '.join(asked)} | {', '.join(found)} | {'yes' if all(met) else '**no**'} |")
    return "\n".join(lines)


def discovery_table(folder: Path = RESULTS) -> str:
    """One row a result, with its worst seed."""
    head = ["row", *MEASURES, "cosine 1-5", "cosine 6-10", "agreement 1-4", "seeds", "device", "command"]
    lines = _head(head)
    for name in ROWS:
        if (folder / f"{name}.json").exists():
            result = json.loads((folder / f"{name}.json").read_text())
            cells = [name, *(_worst(result.get(key), choose) for key, choose in MEASURES.values())]
            cells += _cosines(result)
            command = "cooptions " + result["command"].split("cooptions ", 1)[1]
            cells += [str(result["config"]["seeds"]), _device(result), f"`{command}`"]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def speed_table(folder: Path = RESULTS) -> str:
    """Both Laplacians on the same z in one process, on every device where that was measured."""
    lines = _head(["device", "seeds", "Laplacian", "seconds with compilation", "again", "cosine 1-5", "cosine 6-10"])
    for path in sorted(folder.glob("laplacian_speed*.json")):
        result = json.loads(path.read_text())
        for name in ("nystrom", "allo"):
            times = [f"{result[name][when]:.1f}" for when in ("first", "again")]
            cells = [_device(result), str(result["config"]["seeds"]), name, *times, *_cosines(result[name])[:2]]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


TABLES = {"bars": bars_table, "measured": discovery_table, "speed": speed_table}


def _head(names: list[str]) -> list[str]:
    return ["| " + " | ".join(names) + " |", "|" + " --- |" * len(names)]


def _device(result: dict[str, Any]) -> str:
    return result["device"].removeprefix("1 x ").removeprefix("NVIDIA ").upper()


def _worst(value: Any, choose: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict):
        return ", ".join(f"{name} {choose(values):.4f}" for name, values in value.items())
    return f"{choose(value):.3f}"


def _worst_number(result: dict[str, Any], heading: str) -> float:
    """Over seeds, and over features or functions."""
    if heading in MEASURES:
        key, choose = MEASURES[heading]
        values = result[key].values() if isinstance(result[key], dict) else [result[key]]
        return choose(choose(seeds) for seeds in values)
    kind, places = heading.split(" ")
    first, last = map(int, places.split("-"))
    rows = result["eigen_cosine"] if kind == "cosine" else [result["agreement"]]
    return min(min(row[first - 1 : last]) for row in rows)


def _cosines(result: dict[str, Any]) -> list[str]:
    has = {"cosine 1-5": "eigen_cosine", "cosine 6-10": "eigen_cosine", "agreement 1-4": "agreement"}
    return [f"{_worst_number(result, heading):.3f}" if key in result else "" for heading, key in has.items()]


def with_table(text: str) -> str:
    """A page with its tables made anew."""
    for name, make in TABLES.items():
        begin = f"<!-- {name}: made by python -m benchmarks.tables -->"
        before, rest = text.split(begin)
        _, after = rest.split(END, 1)
        text = f"{before}{begin}\n{make()}\n{END}{after}"
    return text


if __name__ == "__main__":
    page = ROOT / "docs" / "discovery.md"
    page.write_text(with_table(page.read_text()))
