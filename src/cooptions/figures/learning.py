"""The learning curves of one run."""

from matplotlib.figure import Figure

from cooptions.plots.curves import plot_learning_curves
from cooptions.runs.config import Config
from cooptions.runs.directory import RunDirectory
from cooptions.runs.learned import read_scores


def plot_learning(config: Config, run: RunDirectory) -> Figure:
    """Every metric over training, each seed by its mean over episodes."""
    return plot_learning_curves([each.averaged() for each in read_scores(run.path)])
