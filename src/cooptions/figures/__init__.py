"""Figures, one file each, drawn from the artefacts of a run directory."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure as Canvas

from cooptions.artifacts import RunDirectory, write_bytes
from cooptions.config import Config
from cooptions.figures.walk import plot_walk

matplotlib.rcParams.update({"font.size": 9, "savefig.dpi": 200, "pdf.fonttype": 42, "image.origin": "upper"})


@dataclass(frozen=True)
class Figure:
    """What a figure shows, the stages whose artefacts it needs, and the function that draws it."""

    title: str
    needs: tuple[str, ...]
    plot: Callable[[Config, dict[str, Any]], Canvas]


FIGURES: dict[str, Figure] = {
    "walk": Figure("where the team went, and how each feature is distributed", ("walk",), plot_walk),
}


def drawable(run: RunDirectory) -> list[str]:
    """The figures whose stages are finished in a run directory."""
    return [name for name, figure in FIGURES.items() if set(figure.needs) <= set(run.manifest)]


def draw(name: str, config: Config, run: RunDirectory) -> list[Path]:
    """Draw one figure as PNG and PDF into the run directory."""
    figure = FIGURES[name]
    canvas = figure.plot(config, {stage: run.load(stage) for stage in figure.needs})
    paths = [run.file("figures", f"{name}.{kind}") for kind in ("png", "pdf")]
    for path in paths:
        content = io.BytesIO()
        canvas.savefig(content, format=path.suffix[1:], bbox_inches="tight")
        write_bytes(path, content.getvalue())
    return paths
