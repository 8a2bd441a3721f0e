"""The run's own eigenfunctions, seen by one agent while its teammates stand in different places."""

import numpy as np
from matplotlib.figure import Figure

from cooptions.figures.base import FIGURES, AbstractFigure
from cooptions.plots.maps import show_map, sweep
from cooptions.runs.run import Run

NUM_COLUMNS = 5
NUM_ROWS = 3


@FIGURES.register("relations")
class RelationsFigure(AbstractFigure):
    """The first eigenfunctions as one agent moves and its teammates stand still.

    The first eigenfunctions of the first seed, with teammates where the walk put them at three random times.
    """

    needs = ("spectrum",)

    def plot(self, run: Run) -> Figure:
        config, found = run.config, run.found.seed(0).on_kept()
        states = np.asarray(run.walk.states[0]).reshape(-1, *config.team.has_feature.shape)
        picks = states[np.random.default_rng(0).integers(0, len(states), NUM_ROWS)]
        num = min(NUM_COLUMNS, config.laplacian.num_eigenfunctions)
        canvas = Figure(figsize=(1.5 * num + 0.3, 1.6 * NUM_ROWS), layout="constrained")
        axes = canvas.subplots(NUM_ROWS, num, squeeze=False)
        for row, joint in zip(axes, picks, strict=True):
            others = joint[1:]
            maps = sweep(config.team, found, others, at=joint[0, 2:])
            for ax, values in zip(row, maps, strict=False):
                show_map(ax, config.team, values, others)
        for k, ax in enumerate(axes[0]):
            ax.set_title(f"$e_{{{k + 1}}}$,  $\\lambda$ = {float(found.eigenvalues[k]):.3f}", fontsize=8)
        canvas.suptitle(f"{config.scenario}: {type(config.representation).__name__.lower()}; red: option + goes there")
        return canvas
