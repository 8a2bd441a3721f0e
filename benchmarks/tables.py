"""The tables in docs/, made from the JSON files in results/: numbers are read, not typed.

python -m benchmarks.tables    # writes the tables of docs/discovery.md anew
"""

import json
from pathlib import Path
from typing import Any

from benchmarks.discovery import ROWS

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- made by python -m benchmarks.tables -->", "<!-- end of table -->"

MEASURES = {
    "Spearman own": ("spearman_own", min),
    "own share": ("own_share", min),
    "leak": ("leak", max),
    "Fermat error (cells)": ("fermat_error_cells", max),
    "distance Pearson": ("distance_pearson", min),
    "hit Pearson": ("hit_pearson", min),
    "padded share": ("padded_share", max),
}
RESULTS = ROOT / "results" / "discovery"


def discovery_table(folder: Path = RESULTS) -> str:
    """One row a result, with its worst seed."""
    head = ["row", *MEASURES, "cosine 1-5", "cosine 6-10", "agreement 1-4", "seeds", "command"]
    lines = _head(head)
    for name in ROWS:
        if (folder / f"{name}.json").exists():
            result = json.loads((folder / f"{name}.json").read_text())
            cells = [name, *(_worst(result.get(key), choose) for key, choose in MEASURES.values())]
            cells += _cosines(result)
            command = "cooptions " + result["command"].split("cooptions ", 1)[1]
            cells += [str(result["config"]["seeds"]), f"`{command}`"]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def speed_table(path: Path = RESULTS / "laplacian_speed.json") -> str:
    """Both Laplacians on the same z in one process; nothing where that was not measured."""
    if not path.exists():
        return ""
    result = json.loads(path.read_text())
    lines = ["", *_head(["Laplacian", "seconds with compilation", "again", "cosine 1-5", "cosine 6-10", "device"])]
    for name in ("nystrom", "allo"):
        times = [f"{result[name][when]:.1f}" for when in ("first", "again")]
        lines.append("| " + " | ".join([name, *times, *_cosines(result[name])[:2], result["device"]]) + " |")
    return "\n".join(["", *lines])


def _head(names: list[str]) -> list[str]:
    return ["| " + " | ".join(names) + " |", "|" + " --- |" * len(names)]


def _worst(value: Any, choose: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict):
        return ", ".join(f"{name} {choose(values):.4f}" for name, values in value.items())
    return f"{choose(value):.3f}"


def _cosines(result: dict[str, Any]) -> list[str]:
    if "eigen_cosine" not in result:
        cosines = ["", ""]
    else:
        worst = [min(column) for column in zip(*result["eigen_cosine"], strict=True)]
        cosines = [f"{min(worst[:5]):.3f}", f"{min(worst[5:10]):.3f}" if len(worst) > 5 else ""]
    return [*cosines, f"{min(result['agreement'][:4]):.3f}" if "agreement" in result else ""]


def with_table(text: str) -> str:
    """A page with its tables made anew."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{discovery_table()}{speed_table()}\n{END}{after}"


if __name__ == "__main__":
    page = ROOT / "docs" / "discovery.md"
    page.write_text(with_table(page.read_text()))
