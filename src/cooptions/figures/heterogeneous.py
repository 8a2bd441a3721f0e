"""Eigenfunctions of a team of two types, from the perspective of each type (paper, Figures 11 and 12, upper rows)."""

import numpy as np
from matplotlib.figure import Figure

from cooptions.errors import require
from cooptions.figures.base import FIGURES, AbstractFigure
from cooptions.plots.maps import show_map, sweep
from cooptions.runs.run import Run

NUM_COLUMNS = 3
NUM_PLACES = 2


@FIGURES.register("heterogeneous")
class HeterogeneousFigure(AbstractFigure):
    """Eigenfunctions of a team of two types, seen by each (grid-10x10-2p,types=12).

    For one agent of each type: the first eigenfunctions as it moves, for two random positions of its teammates.
    """

    needs = ("spectrum",)
    compares = True

    def plot(self, run: Run) -> Figure:
        config = run.config
        team = config.discovery.team
        kinds = list(dict.fromkeys(team.agent_types))
        require(len(kinds) > 1, f"this figure is for teams of several types; {config.scenario} has one")
        found = run.found.seed(0).on_kept()
        movers = [team.agent_types.index(kind) for kind in kinds]
        rng = np.random.default_rng(7)
        canvas = Figure(figsize=(1.6 * NUM_COLUMNS * len(movers), 1.7 * NUM_PLACES), layout="constrained")
        panels = canvas.subfigures(1, len(movers), squeeze=False)[0]
        for panel, mover in zip(panels, movers, strict=True):
            axes = panel.subplots(NUM_PLACES, NUM_COLUMNS)
            panel.suptitle(f"type {int(team.has_feature[mover].sum())} moves", fontsize=9)
            for row in axes:
                places = np.stack([rng.integers(0, feature.size, team.num_agents) for feature in team.features], axis=1)
                others = np.delete(places * team.has_feature, mover, axis=0).astype(float)
                maps = sweep(team, found, others, agent=mover)
                for ax, values in zip(row, maps, strict=False):
                    show_map(ax, team, values, others)
            for k, ax in enumerate(axes[0]):
                ax.set_title(f"$e_{{{k + 1}}}$", fontsize=8)
        return canvas
