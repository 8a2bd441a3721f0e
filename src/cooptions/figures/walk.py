"""The visits of the walk: a map over the first two features, and a histogram of every feature."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from cooptions.figures.base import FIGURES, AbstractFigure
from cooptions.runs.run import Run
from cooptions.types import Feature


@FIGURES.register("walk")
class WalkFigure(AbstractFigure):
    """Where the team went, and how each feature is distributed.

    How often the agents of the first seed visited each cell and each value of each feature.
    """

    needs = ("walk",)

    def plot(self, run: Run) -> Figure:
        team = run.config.team
        features, has = team.features, team.has_feature
        states = np.asarray(run.walk.states[0]).reshape(-1, team.num_agents, len(features))
        canvas = Figure(figsize=(2.6 * (len(features) + 1), 2.4), layout="constrained")
        canvas.set_layout_engine("constrained", w_pad=0.1)
        axes = canvas.subplots(1, len(features) + 1, squeeze=False)[0]
        if len(features) > 1:
            whole = states[:, has[:, :2].all(axis=1)].reshape(-1, len(features))
            image = draw_visits(axes[0], features[:2], whole)
            canvas.colorbar(image, ax=axes[0], shrink=0.8)
        else:
            axes[0].set_axis_off()
        for index, (feature, ax) in enumerate(zip(features, axes[1:], strict=True)):
            values = states[:, has[:, index], index].ravel()
            counts, edges = np.histogram(values, bins=_edges(feature))
            ax.bar((edges[:-1] + edges[1:]) / 2, counts / counts.sum(), width=np.diff(edges) * 0.9)
            ax.set(title=feature.name, ylabel="share of steps" if index == 0 else "")
        canvas.suptitle(f"{run.config.scenario}: {len(states):,} random joint steps")
        return canvas


def draw_visits(ax: Axes, features: Sequence[Feature], values: np.ndarray) -> AxesImage:
    """A map of the share of steps at each place, by the first two features."""
    rows, columns = map(_edges, features)
    visits = np.histogram2d(values[:, 0], values[:, 1], bins=[rows, columns])[0]
    ax.set(xlabel=features[1].name, ylabel=features[0].name, title="visits")
    return ax.imshow(
        visits / max(visits.sum(), 1),
        cmap="viridis",
        extent=(columns[0], columns[-1], rows[-1], rows[0]),
        aspect=(columns[1] - columns[0]) / (rows[1] - rows[0]),
    )


def _edges(feature: Feature) -> np.ndarray:
    if feature.discrete:
        return np.arange(feature.size + 1) - 0.5
    return np.linspace(feature.low, feature.high, 31)
