"""The n-distance, scalar and per feature, as the third agent moves (paper, Figure 6)."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle

from cooptions.figures.base import FIGURES, AbstractFigure
from cooptions.figures.eigenvectors import held_places
from cooptions.figures.methods import discovered_by
from cooptions.plots.maps import show_map, sweep, teammates_label
from cooptions.runs.run import Run

PAIRS = (((1, 4), (1, 7)), ((7, 7), (7, 8)), ((7, 13), (13, 7)))


@FIGURES.register("n-distance")
class NDistanceFigure(AbstractFigure):
    """Scalar and per-feature n-distance with the Fermat state (grid-15x15-3p).

    Rows: the pairs of teammate positions. Columns: the scalar distance, then that of each feature. White circles: the
    Fermat state.
    """

    needs = ("walk",)
    compares = True

    def plot(self, run: Run) -> Figure:
        config, team = run.config, run.config.discovery.team
        held = [held_places(config, pair) for pair in PAIRS]
        scalar, multi = discovered_by(("iaro-scalar", "iaro"), run)
        titles = ["scalar", *(f"multi-dimensional: {feature.name}" for feature in team.features)]
        canvas = Figure(figsize=(1.9 * len(titles), 1.9 * len(PAIRS)), layout="constrained")
        axes = canvas.subplots(len(PAIRS), len(titles))
        for row, others in zip(axes, held, strict=True):
            one, many = (sweep(team, found.encode, others, agent=len(others)) for found in (scalar, multi))
            fermat = [np.unravel_index(values.argmin(), values.shape) for values in (one.sum(axis=0), many.sum(axis=0))]
            for column, (ax, values) in enumerate(zip(row, [*one, *many], strict=True)):
                image = show_map(ax, team, values, others, cmap="viridis", vmin=0.0, vmax=values.max())
                ax.add_patch(Circle(fermat[column > 0][::-1], 0.42, facecolor="none", edgecolor="white", linewidth=1.4))
                canvas.colorbar(image, ax=ax, shrink=0.75)
        for ax, title in zip(axes[0], titles, strict=True):
            ax.set_title(title, fontsize=9)
        circle: dict[str, Any] = {"marker": "o", "linestyle": "", "markerfacecolor": "0.6", "markeredgecolor": "white"}
        fermat_label = Line2D([], [], **circle, markersize=8, label="smallest sum: the Fermat state")
        handles = [
            teammates_label(team.num_agents, team.num_agents - 1),
            fermat_label,
        ]
        canvas.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=8, frameon=False)
        return canvas
