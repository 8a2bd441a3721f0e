"""The stages of a run, each a function of its configuration and the artefact before it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from cooptions.files import Json, fill
from cooptions.runs.directory import RunDirectory
from cooptions.runs.config import Config
from cooptions.discovery.discover import Spectrum, fit_representation, fit_spectrum, untrained_spectrum
from cooptions.envs.base import AbstractEnv
from cooptions.errors import require
from cooptions.learners.networks import Network
from cooptions.learners.learn import learn
from cooptions.options.base import AbstractOptions
from cooptions.options.handmade import handmade_options
from cooptions.options.option_set import OptionSet, init_policies
from cooptions.options.sharing.storage import load_option_set
from cooptions.options.sight import View
from cooptions.options.task import OptionTask
from cooptions.options.train import option_set, option_tasks, train_options
from cooptions.options.wander import wandering_options
from cooptions.training.progress import Progress
from cooptions.discovery.walks import Walk, index_futures, walk


def walk_stage(config: Config, run: RunDirectory, progress: Progress) -> Walk:
    """Random walks of the team, by every seed that discovers."""
    return run.stage(
        "walk",
        lambda: walk(config.env, config.walk, config.discovering.keys("walk"), progress=progress),
        lambda arrays: Walk(**arrays),
    )


def representation_stage(config: Config, run: RunDirectory, progress: Progress) -> Any:
    """The representation's state for every seed that discovers."""
    dataset = index_futures(walk_stage(config, run, progress))
    keys = config.discovering.keys("representation")
    like = jax.eval_shape(jax.vmap(lambda key, data: config.discovery.part.init(data, key=key)), keys, dataset)
    return run.stage(
        "representation",
        lambda: fit_representation(config.discovery, dataset, keys, directory=run.path, progress=progress),
        partial(fill, like),
    )


def spectrum_stage(config: Config, run: RunDirectory, progress: Progress) -> Spectrum:
    """The eigenfunctions for every seed that discovers."""
    walks = walk_stage(config, run, progress)
    state = representation_stage(config, run, progress)
    keys = config.discovering.keys("laplacian")
    like = jax.eval_shape(partial(untrained_spectrum, config.discovery), state, walks, keys)

    def make() -> Spectrum:
        spectrum = fit_spectrum(config.discovery, state, walks, keys, directory=run.path, progress=progress)
        known = np.isfinite(spectrum.canonical.eigenvalues).all(axis=-1)
        require(bool(known.any()), NO_EIGENFUNCTIONS)
        tell_missing(spectrum, config.seed, progress)
        return spectrum

    return run.stage("spectrum", make, partial(fill, like))


NO_EIGENFUNCTIONS = (
    "laplacian: no seed has eigenfunctions that are numbers; with --laplacian exact z takes more than "
    "laplacian.max_values distinct values: raise it, or use nystrom"
)


def tell_missing(spectrum: Spectrum, first_seed: int, progress: Progress) -> None:
    """Warn of walks that have fewer eigenfunctions than were asked for."""
    wanted = spectrum.canonical.eigenvalues.shape[-1]
    for seed, missing in enumerate(np.asarray(spectrum.num_missing), start=first_seed):
        if missing:
            progress.warn(
                f"the walk of seed {seed} has {wanted - missing} eigenfunctions, not {wanted}: the others are 0, and "
                f"their options end at once; --laplacian.num-eigenfunctions {max(wanted - missing, 1)} leaves them out"
            )


def option_tasks_of(config: Config, run: RunDirectory, progress: Progress) -> OptionTask:
    """What the options of every seed that discovers are trained on."""
    return option_tasks(
        config.env,
        config.columns,
        config.options,
        config.discovery,
        representation_stage(config, run, progress),
        spectrum_stage(config, run, progress),
        config.eigenoptions,
        config.discovering.keys("starts"),
    )


def options_stage(config: Config, run: RunDirectory, progress: Progress) -> OptionSet:
    """The option set of every seed that discovers. Once it is there, nothing that came before it is read again."""
    if "options" not in run.manifest:
        spectrum_stage(config, run, progress)  # and what it needs: each counts its own seconds
    keys = config.discovering.keys("options")
    network = run.stage(
        "options",
        lambda: train_options(
            config.options, option_tasks_of(config, run, progress), keys, directory=run.path, progress=progress
        ),
        partial(fill, untrained_options(config, config.discovering.seeds)),
    )
    return option_set(config.options, network, config.eigenoptions, config.env)


def untrained_options(config: Config, num_seeds: int) -> Network:
    """The shapes of all options' networks, of so many seeds."""
    learner, env = config.options.learner, config.env
    num_outputs = env.num_actions + 1 - learner.fixed_last
    init = partial(init_policies, env, View.of(env, config.options.sight), learner.network, num_outputs)
    keys = jax.random.split(jax.random.key(0), (num_seeds, len(config.eigenoptions)))
    return jax.eval_shape(jax.vmap(jax.vmap(lambda key: init(key=key))), keys)


GIVEN: dict[str, Callable[[AbstractEnv], AbstractOptions]] = {"handmade": handmade_options, "wander": wandering_options}
"""Option sets that need no discovery, by name."""


def given_options(name: str, env: AbstractEnv) -> AbstractOptions:
    """Options that were not discovered here: by name, or from the directory of an option set."""
    return GIVEN.get(name, partial(load_option_set, name))(env)


def task_env(config: Config, run: RunDirectory, progress: Progress) -> AbstractEnv:
    """The environment that is learned in: with joint options, if there are any, every seed's in front."""
    macro = config.learning.macro
    if macro is None:
        return config.env
    if macro.option_set:
        options = jax.tree.map(lambda leaf: leaf[None], given_options(macro.option_set, config.env))
    else:
        options = options_stage(config, run, progress)
    return with_options(config, in_turn(options, config.seeds))


def in_turn(options: AbstractOptions, num_seeds: int) -> AbstractOptions:
    """Option sets for so many seeds: those that there are, over and over."""
    return jax.tree.map(lambda leaf: leaf[jnp.arange(num_seeds) % len(leaf)], options)


def with_options(config: Config, options: AbstractOptions) -> AbstractEnv:
    """The environment with as many of the options as are to be used, as the learner needs it."""
    macro = config.learning.macro
    assert macro is not None, "the task is learned without options"
    num = macro.num_options or options.num_options
    require(num <= options.num_options, f"macro.num_options is {num}; the set has {options.num_options}")
    return macro.around(config.env, options.first(num), foresight=config.learning.learner.intra_option)


def learning_stage(
    config: Config, run: RunDirectory, progress: Progress
) -> tuple[Any, Float[Array, "seed evaluation episode score"]]:
    """Every seed's policy, and what it scored over training."""
    envs = task_env(config, run, progress)
    stage, keys = config.learning.stage, config.keys("learning")
    state = jax.eval_shape(jax.vmap(lambda key, env: stage.init(env, key=key)), keys, envs)
    return run.stage(
        "learning",
        lambda: learn(stage, envs, keys, directory=run.path, progress=progress),
        partial(fill, (stage.learner.policy(state.inner), state.scores)),
    )


@dataclass(frozen=True)
class Stage:
    """A stage of a run."""

    make: Callable[[Config, RunDirectory, Progress], Any]
    """Makes its artefact, or restores it where it was made before."""
    fields: tuple[str, ...]
    """The fields of the configuration it depends on, besides those of the stages it comes after."""
    after: Callable[[Config], tuple[str, ...]]
    """The stages it needs, all of them, in order."""


_DISCOVERY = ("walk", "representation", "spectrum", "options")

STAGES: dict[str, Stage] = {
    "walk": Stage(walk_stage, ("walk",), lambda _: ()),
    "representation": Stage(representation_stage, ("representation",), lambda _: _DISCOVERY[:1]),
    "spectrum": Stage(spectrum_stage, ("laplacian", "basis"), lambda _: _DISCOVERY[:2]),
    "options": Stage(options_stage, ("options",), lambda _: _DISCOVERY[:3]),
    "learning": Stage(learning_stage, ("learning",), lambda config: _DISCOVERY if config.discovers else ()),
}
"""Every stage in order."""


def stage_configs(config: Config, until: str) -> dict[str, Json]:
    """The configuration of each stage that is needed up to and including `until`."""

    discovering = config.discovering

    def config_of(name: str) -> Json:
        chain = (*STAGES[name].after(config), name)
        fields = (field for stage in chain for field in STAGES[stage].fields)
        return (discovering if name in _DISCOVERY else config).stage_config(*fields)

    return {name: config_of(name) for name in (*STAGES[until].after(config), until)}
