"""The run's eigenfunctions as one agent moves, for different positions of its teammates."""

import numpy as np
from matplotlib.figure import Figure

from cooptions.discovery.subteams import walk_of
from cooptions.figures.base import FIGURES, AbstractFigure
from cooptions.plots.maps import show_map, sweep, teammates_label
from cooptions.runs.run import Run

NUM_COLUMNS = 5
NUM_ROWS = 3
SHOWN = 99.0
"""The percentile of all absolute values at which the colour scale ends."""


@FIGURES.register("relations")
class RelationsFigure(AbstractFigure):
    """The first eigenfunctions as one agent moves and its teammates stand still.

    The first eigenfunctions of the first seed, with teammates at their positions at three random steps of the walk.
    """

    needs = ("spectrum",)

    def plot(self, run: Run) -> Figure:
        config, found = run.config, run.found.seed(0).on_kept()
        team = config.discovery.team
        states = np.asarray(walk_of(team, run.walk).states[0]).reshape(-1, *team.has_feature.shape)
        picks = states[np.random.default_rng(0).integers(0, len(states), NUM_ROWS)]
        num = min(NUM_COLUMNS, config.laplacian.num_eigenfunctions)
        maps = [sweep(team, found, joint[1:], at=joint[0, 2:])[:num] for joint in picks]
        limit = float(np.nanpercentile(np.abs(maps), SHOWN)) or 1.0
        canvas = Figure(figsize=(1.5 * num + 0.9, 1.6 * NUM_ROWS + 0.4), layout="constrained")
        axes = canvas.subplots(NUM_ROWS, num, squeeze=False)
        mates = range(2, team.num_agents + 1)
        for row, joint, values in zip(axes, picks, maps, strict=True):
            for ax, each in zip(row, values, strict=True):
                image = show_map(ax, team, each, joint[1:], limit=limit, numbers=mates)
        for k, ax in enumerate(axes[0]):
            ax.set_title(f"$e_{{{k + 1}}}$,  $\\lambda$ = {float(found.eigenvalues[k]):.3f}", fontsize=8)
        bar = canvas.colorbar(image, ax=axes, shrink=0.6, aspect=30, extend="both")
        bar.set_label("value; option + climbs, option − descends", fontsize=8)
        label_axes(axes, [feature.name for feature in team.features[:2]])
        label = teammates_label(team.num_agents, 0)
        canvas.legend(handles=[label], loc="outside lower center", fontsize=8, frameon=False)
        canvas.suptitle(f"{config.scenario}, representation {type(config.representation).__name__}", fontsize=9)
        return canvas


def label_axes(axes: np.ndarray, names: list[str]) -> None:
    """Label the axes: the first feature runs downwards, the second to the right."""
    axes[-1, 0].set_ylabel(names[0], fontsize=7)
    axes[-1, 0].set_xlabel("".join(names[1:]), fontsize=7)
