"""The learning curves of one run."""

from matplotlib.figure import Figure

from cooptions.figures.base import FIGURES, AbstractFigure
from cooptions.plots.curves import plot_learning_curves
from cooptions.runs.learned import read_scores
from cooptions.runs.run import Run


@FIGURES.register("learning")
class LearningFigure(AbstractFigure):
    """How the team learned the task: interquartile means with 95% intervals.

    Every metric over training. Seeds are averaged over episodes.
    """

    needs = ("learning",)

    def plot(self, run: Run) -> Figure:
        return plot_learning_curves([each.averaged() for each in read_scores(run.directory.path)])
