"""Roll-outs of the first options of a run (paper, Figures 3 and 10)."""

import jax
import numpy as np
from matplotlib.figure import Figure
from rich.console import Console

from cooptions.discovery.representations.base import FindsFermat
from cooptions.figures.methods import Discovered, discovered
from cooptions.options.execution import Execution, follow_all
from cooptions.options.task import collect_starts
from cooptions.options.train import diverged
from cooptions.plots.panels import Panel
from cooptions.plots.rollouts import plot_rollouts
from cooptions.runs.config import Config
from cooptions.runs.directory import RunDirectory
from cooptions.runs.stages import options_stage
from cooptions.training.progress import Progress

NUM_OPTIONS = 4
NUM_STARTS = 3


def plot_option_rollouts(config: Config, run: RunDirectory) -> Figure:
    """Columns: the first options; rows: random starts. Bars: the n-distance of each feature where it ended.

    They are those of the first seed that did not diverge.
    """
    option_sets = options_stage(config, run, Progress(Console(stderr=True)))
    each = [jax.tree.map(lambda leaf, seed=seed: leaf[seed], option_sets) for seed in range(config.discovering.seeds)]
    seed = next((seed for seed, options in enumerate(each) if not diverged(options)), 0)
    options, found, key = each[seed], discovered(config, run, seed), config.keys("figure")[seed]
    begun = collect_starts(config.env, NUM_STARTS, config.options.start_steps, key=key)
    followed = follow_all(config.env, options, begun, key=key)
    columns = range(min(NUM_OPTIONS, options.num_options))
    panels = [
        [_panel(config, found, jax.tree.map(lambda leaf, o=o, s=s: leaf[o, s], followed)) for o in columns]
        for s in range(NUM_STARTS)
    ]
    return plot_rollouts(config.env, panels, [options.options[column].name for column in columns])


def _panel(config: Config, found: Discovered, followed: Execution) -> Panel:
    final = followed.agent_states[-1][:, np.array(config.columns)]
    representation, fermat = config.representation, None
    if isinstance(representation, FindsFermat) and len(config.columns) == len(config.env.features):
        fermat = np.asarray(representation.fermat_state(config.team, found.representation, final))
    z = np.asarray(found.encode(final))
    return Panel(
        np.asarray(followed.agent_states), int(followed.length), z, representation.z_names(config.team), fermat
    )
