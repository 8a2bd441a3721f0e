"""Figures, one file each, drawn from the artefacts of a run directory."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure as Canvas

from cooptions.artifacts import RunDirectory, write_bytes
from cooptions.config import Config
from cooptions.figures.relations import plot_relations
from cooptions.figures.walk import plot_walk

matplotlib.rcParams.update({"font.size": 9, "savefig.dpi": 200, "pdf.fonttype": 42, "image.origin": "upper"})


@dataclass(frozen=True)
class Figure:
    """What a figure shows, the stages whose artefacts it needs, and the function that draws it."""

    title: str
    needs: tuple[str, ...]
    plot: Callable[[Config, RunDirectory], Canvas]


FIGURES: dict[str, Figure] = {
    "walk": Figure("where the team went, and how each feature is distributed", ("walk",), plot_walk),
    "relations": Figure(
        "the first eigenfunctions as one agent moves and its teammates stand still", ("spectrum",), plot_relations
    ),
}


def drawable(run: RunDirectory) -> list[str]:
    """The figures whose stages are finished in a run directory."""
    return [name for name, figure in FIGURES.items() if set(figure.needs) <= set(run.manifest)]


def draw(name: str, config: Config, run: RunDirectory) -> list[Path]:
    """Draw one figure as PNG and PDF into the run directory."""
    canvas = FIGURES[name].plot(config, run)
    paths = [run.file("figures", f"{name}.{kind}") for kind in ("png", "pdf")]
    for path in paths:
        content = io.BytesIO()
        canvas.savefig(content, format=path.suffix[1:], bbox_inches="tight")
        write_bytes(path, content.getvalue())
    return paths
