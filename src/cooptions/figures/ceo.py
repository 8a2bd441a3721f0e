"""Similarity of the eigenfunctions of repeated discovery cycles (paper, appendix on ROD cycles)."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from cooptions.figures.base import FIGURES, AbstractFigure
from cooptions.figures.eigenvectors import held_places
from cooptions.figures.n_distance import PAIRS
from cooptions.plots.maps import show_map, sweep
from cooptions.runs.covering import CeoConfig, Cycle, ceo_cycles
from cooptions.runs.run import Run


@FIGURES.register("ceo")
class CoveringFigure(AbstractFigure):
    """Eigenfunctions of five cycles of covering eigenoptions (grid-15x15-3p).

    One column per cycle, and one row for each of the first two pairs of teammate positions in the paper.
    """

    needs = ("walk",)
    compares = True

    def plot(self, run: Run) -> Figure:
        config, folder = run.config, run.directory.file("ceo")
        held = [held_places(config, pair) for pair in PAIRS[:2]]  # refuses other scenarios before any work
        return draw_cycles(ceo_cycles(config, CeoConfig(), folder, run.progress), held)


def draw_cycles(cycles: Sequence[Cycle], held: Sequence[np.ndarray]) -> Figure:
    """Draw the eigenfunction of every cycle as the last agent moves, titled with its |cosine| to the first cycle's."""
    team = cycles[0].config.team
    canvas = Figure(figsize=(1.35 * len(cycles) + 0.6, 1.4 * len(held) + 0.6), layout="constrained")
    axes = canvas.subplots(len(held), len(cycles), squeeze=False)
    for number, (cycle, column) in enumerate(zip(cycles, axes.T, strict=True), start=1):
        for ax, others in zip(column, held, strict=True):
            show_map(ax, team, sweep(team, cycle.found.on_kept(), others, agent=len(others))[0], others)
        alike = f"$|\\cos|$ {abs(cycle.cosines[0]):.2f}" if number > 1 else " "
        column[0].set_title(f"cycle {number}\n{alike}", fontsize=9)
    for ax, others in zip(axes[:, 0], held, strict=True):
        ax.set_ylabel(", ".join(f"({place[0]:g}, {place[1]:g})" for place in others), fontsize=8)
    return canvas
