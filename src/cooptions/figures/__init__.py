"""Figures, one file each, drawn from the artefacts of a run directory."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure as Canvas

from cooptions.errors import ArtifactError
from cooptions.figures.ceo import plot_ceo
from cooptions.figures.eigenvectors import plot_eigenvectors, plot_representations
from cooptions.figures.heterogeneous import plot_heterogeneous
from cooptions.figures.learning import plot_learning
from cooptions.figures.n_distance import PAIRS, plot_n_distance
from cooptions.figures.options import plot_option_rollouts
from cooptions.figures.relations import plot_relations
from cooptions.figures.walk import plot_walk
from cooptions.files import write_bytes
from cooptions.runs.config import Config
from cooptions.runs.directory import RunDirectory

matplotlib.rcParams.update({"font.size": 9, "savefig.dpi": 200, "pdf.fonttype": 42, "image.origin": "upper"})


@dataclass(frozen=True)
class Figure:
    """What a figure shows, the stages whose artefacts it needs, and the function that draws it.

    A figure with `compares` first discovers by other methods, in run directories of its own, which takes a while.
    """

    title: str
    needs: tuple[str, ...]
    plot: Callable[[Config, RunDirectory], Canvas]
    compares: bool = False


MADE_BY = {
    "walk": "walk",
    "representation": "discover",
    "spectrum": "discover",
    "options": "options",
    "learning": "train",
}
"""The command that makes what a figure needs."""

FIGURES: dict[str, Figure] = {
    "walk": Figure("where the team went, and how each feature is distributed", ("walk",), plot_walk),
    "relations": Figure(
        "the first eigenfunctions as one agent moves and its teammates stand still", ("spectrum",), plot_relations
    ),
    "options": Figure("roll-outs of the first four options from three starts", ("options",), plot_option_rollouts),
    "learning": Figure(
        "how the team learned the task: interquartile means with 95% intervals", ("learning",), plot_learning
    ),
    "representations": Figure(
        "eigenfunctions of single-agent, raw joint and relative states (grid-15x15-3p)",
        ("walk",),
        plot_representations,
        compares=True,
    ),
    **{
        f"eigenvectors-{name}": Figure(
            f"five eigenfunctions of four methods, teammates at {held[0]} and {held[1]} (grid-15x15-3p)",
            ("walk",),
            plot_eigenvectors(*held),
            compares=True,
        )
        for name, held in zip(("line", "centre", "corner"), PAIRS, strict=True)
    },
    "n-distance": Figure(
        "scalar and per-feature n-distance with the Fermat state (grid-15x15-3p)",
        ("walk",),
        plot_n_distance,
        compares=True,
    ),
    "ceo": Figure(
        "eigenfunctions of five cycles of covering eigenoptions (grid-15x15-3p)", ("walk",), plot_ceo, compares=True
    ),
    "heterogeneous": Figure(
        "eigenfunctions of a team of two types, seen by each (grid-10x10-2p,types=12)",
        ("spectrum",),
        plot_heterogeneous,
        compares=True,
    ),
}


def drawable(run: RunDirectory) -> list[str]:
    """The figures that a run directory has everything for."""
    return [name for name, figure in FIGURES.items() if not figure.compares and set(figure.needs) <= set(run.manifest)]


def draw(name: str, config: Config, run: RunDirectory) -> list[Path]:
    """Draw one figure as PNG and PDF into the run directory."""
    missing = [stage for stage in FIGURES[name].needs if stage not in run.manifest]
    if missing:
        made = " and ".join(dict.fromkeys(f"`cooptions {MADE_BY[stage]}`" for stage in missing))
        raise ArtifactError(f"{run.path}: figure {name} needs {', '.join(missing)}; made by {made}")
    return write_canvas(FIGURES[name].plot(config, run), run.file("figures", name))


def write_canvas(canvas: Canvas, stem: Path, kinds: Sequence[str] = ("png", "pdf")) -> list[Path]:
    """Write a picture as PNG and PDF, or only one of them."""
    paths = [stem.with_name(f"{stem.name}.{kind}") for kind in kinds]
    for path in paths:
        content = io.BytesIO()
        canvas.savefig(content, format=path.suffix[1:], bbox_inches="tight")
        write_bytes(path, content.getvalue())
    return paths
