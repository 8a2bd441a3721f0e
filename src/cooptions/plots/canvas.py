"""Write figures to files."""

import io
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure as Canvas

import cooptions.plots.style  # noqa: F401  (sets the look of every figure)
from cooptions.files import write_bytes


def write_canvas(canvas: Canvas, stem: Path, kinds: Sequence[str] = ("png", "pdf")) -> list[Path]:
    """Write a figure in the given file formats and return the paths."""
    paths = [stem.with_name(f"{stem.name}.{kind}") for kind in kinds]
    for path in paths:
        content = io.BytesIO()
        canvas.savefig(content, format=path.suffix[1:], bbox_inches="tight")
        write_bytes(path, content.getvalue())
    return paths
