"""The stages of a run, each a function of its configuration and the artefact before it."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax

from cooptions.artifacts import Json, RunDirectory, fill
from cooptions.config import Config
from cooptions.discovery import Spectrum, fit_representation, fit_spectrum, untrained_spectrum
from cooptions.learners.q_learning import QLearner
from cooptions.options.option_set import OptionSet
from cooptions.options.task import OptionTask
from cooptions.options.train import OptionTraining, option_set, option_tasks, train_options
from cooptions.progress import Progress
from cooptions.walks import Walk, index_futures, walk


def walk_stage(config: Config, run: RunDirectory, progress: Progress) -> Walk:
    """Random walks of the team."""
    return run.stage(
        "walk",
        lambda: walk(config.env, config.walk, config.keys("walk"), progress=progress),
        lambda arrays: Walk(**arrays),
    )


def representation_stage(config: Config, run: RunDirectory, progress: Progress) -> Any:
    """The representation's state for every seed."""
    dataset = index_futures(walk_stage(config, run, progress))
    keys = config.keys("representation")
    like = jax.eval_shape(jax.vmap(lambda key, data: config.discovery.part.init(data, key=key)), keys, dataset)
    return run.stage(
        "representation",
        lambda: fit_representation(config.discovery, dataset, keys, directory=run.path, progress=progress),
        partial(fill, like),
    )


def spectrum_stage(config: Config, run: RunDirectory, progress: Progress) -> Spectrum:
    """The eigenfunctions for every seed."""
    walks = walk_stage(config, run, progress)
    state = representation_stage(config, run, progress)
    keys = config.keys("laplacian")
    like = jax.eval_shape(partial(untrained_spectrum, config.discovery), state, walks, keys)
    return run.stage(
        "spectrum",
        lambda: fit_spectrum(config.discovery, state, walks, keys, directory=run.path, progress=progress),
        partial(fill, like),
    )


def option_tasks_of(config: Config, run: RunDirectory, progress: Progress) -> OptionTask:
    """What the options of every seed are trained on."""
    representation = representation_stage(config, run, progress)
    spectrum = spectrum_stage(config, run, progress)
    keys = config.keys("starts")
    return option_tasks(
        config.env,
        config.columns,
        config.options,
        config.discovery,
        representation,
        spectrum,
        config.eigenoptions,
        keys,
    )


def options_stage(config: Config, run: RunDirectory, progress: Progress) -> OptionSet:
    """The option set of every seed."""
    tasks = option_tasks_of(config, run, progress)
    keys = config.keys("options")
    training = OptionTraining(QLearner(config.options.learner))
    like = jax.eval_shape(jax.vmap(lambda key, task: training.init(task, key=key)), keys, tasks).network
    network = run.stage(
        "options",
        lambda: train_options(config.options, tasks, keys, directory=run.path, progress=progress),
        partial(fill, like),
    )
    return option_set(config.options, network, config.eigenoptions, config.env.noop)


STAGES: dict[str, tuple[Callable, tuple[str, ...]]] = {
    "walk": (walk_stage, ("walk",)),
    "representation": (representation_stage, ("walk", "representation")),
    "spectrum": (spectrum_stage, ("walk", "representation", "laplacian", "basis")),
    "options": (options_stage, ("walk", "representation", "laplacian", "basis", "options")),
}
"""Every stage in order, with the fields of the configuration it depends on."""


def stage_configs(config: Config, until: str) -> dict[str, Json]:
    """The configuration of each stage up to and including `until`."""
    names = list(STAGES)[: list(STAGES).index(until) + 1]
    return {name: config.stage_config(*STAGES[name][1]) for name in names}
