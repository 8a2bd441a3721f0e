"""Roll-outs of the first options of a run (paper, Figures 3 and 10)."""

import jax
import numpy as np
from matplotlib.figure import Figure

from cooptions.discovery.discovered import Discovered
from cooptions.figures.base import FIGURES, AbstractFigure
from cooptions.options.execution import Execution, follow_all
from cooptions.options.task import collect_starts
from cooptions.options.train import diverged
from cooptions.plots.panels import Panel
from cooptions.plots.rollouts import plot_rollouts
from cooptions.runs.run import Run

NUM_OPTIONS = 4
NUM_STARTS = 3


@FIGURES.register("options")
class OptionsFigure(AbstractFigure):
    """Roll-outs of the first four options from three starts.

    Columns: the first options. Rows: random starts. Bars: the n-distance of each feature at the end. The options are
    from the first seed that did not diverge.
    """

    needs = ("options",)

    def plot(self, run: Run) -> Figure:
        config, num_seeds = run.config, run.config.discovering.seeds
        each = [jax.tree.map(lambda leaf, seed=seed: leaf[seed], run.options) for seed in range(num_seeds)]
        seed = next((seed for seed, options in enumerate(each) if not diverged(options)), 0)
        options, found, key = each[seed], run.found.seed(seed), config.keys("figure")[seed]
        begun = collect_starts(config.option_env, NUM_STARTS, config.options.start_steps, key=key)
        followed = follow_all(config.option_env, options, begun, key=key)
        columns = range(min(NUM_OPTIONS, options.num_options))
        panels = [
            [_panel(found, jax.tree.map(lambda leaf, o=o, s=s: leaf[o, s], followed)) for o in columns]
            for s in range(NUM_STARTS)
        ]
        return plot_rollouts(config.option_env, panels, [options.options[column].name for column in columns])


def _panel(found: Discovered, followed: Execution) -> Panel:
    final = followed.agent_states[-1]
    fermat = np.asarray(found.fermat_state(final)) if found.finds_fermat and not found.team.columns else None
    return Panel(
        np.asarray(followed.agent_states), int(followed.length), np.asarray(found.encode(final)), found.z_names, fermat
    )
