"""The tables in docs/, made from the JSON files in results/: numbers are read, not typed.

python -m benchmarks.tables    # writes the table of docs/discovery.md anew
"""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- made by python -m benchmarks.tables -->", "<!-- end of table -->"

MEASURES = {
    "Spearman own": ("spearman_own", min),
    "leak": ("leak", max),
    "Fermat error (cells)": ("fermat_error_cells", max),
    "distance Pearson": ("distance_pearson", min),
    "hit Pearson": ("hit_pearson", min),
}


def discovery_table(folder: Path = ROOT / "results" / "discovery") -> str:
    """One row a result, with its worst seed."""
    head = ["row", *MEASURES, "cosine 1-5", "cosine 6-10", "agreement 1-4", "seeds", "command"]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for path in sorted(folder.glob("*.json")):
        result = json.loads(path.read_text())
        cells = [path.stem, *(_worst(result.get(key), choose) for key, choose in MEASURES.values())]
        cells += _cosines(result)
        command = "cooptions " + result["command"].split("cooptions ", 1)[1]
        cells += [str(result["config"]["seeds"]), f"`{command}`"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


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
    """A page with its table made anew."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{discovery_table()}\n{END}{after}"


if __name__ == "__main__":
    page = ROOT / "docs" / "discovery.md"
    page.write_text(with_table(page.read_text()))
