"""A run: a configuration, a directory, and all artefacts from the walk to the learned team."""

import contextlib
from collections.abc import Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from cooptions.discovery.discover import Spectrum, fit_representation, fit_spectrum
from cooptions.discovery.discovered import Discovered, untrained
from cooptions.discovery.walks import Dataset, Walk, index_futures, walk_seeds
from cooptions.envs.base import AbstractEnv
from cooptions.errors import require
from cooptions.files import fill
from cooptions.learners.learn import learn_seeds
from cooptions.learners.networks import Network
from cooptions.options.base import OPTION_SOURCES, AbstractOptions
from cooptions.options.option_set import OptionSet, init_policies
from cooptions.options.sharing.hub import is_hub_name
from cooptions.options.sharing.storage import load_option_set
from cooptions.options.sight import View
from cooptions.options.train import option_set, option_tasks, train_option_networks
from cooptions.runs.checks import require_possible
from cooptions.runs.config import Config, config_of_run
from cooptions.runs.directory import RunDirectory, open_run, read_run
from cooptions.runs.stages import STAGES, stage_configs
from cooptions.training.progress import Progress

NO_EIGENFUNCTIONS = (
    "laplacian: no seed has eigenfunctions that are numbers; with --laplacian exact z takes more than "
    "laplacian.max_values distinct values: raise it, or use nystrom"
)


class Run:
    """The artefacts of one configuration in one directory.

    Each is made or loaded when it is first used, and then kept in memory, so it is made at most once. All have a
    leading seed axis: over the seeds that discover for walks, discoveries and options, over all seeds for learning.
    Shapes come from the configuration, so loading one artefact does not read any other.
    """

    def __init__(self, config: Config, directory: RunDirectory, progress: Progress | None = None) -> None:
        self.config, self.directory = config, directory
        self.progress = progress or Progress.silent()
        self.progress.seeds = range(config.seed, config.seed + config.seeds)

    @classmethod
    @contextlib.contextmanager
    def open(cls, config: Config, path: Path, until: str, progress: Progress | None = None) -> Iterator["Run"]:
        """Create or resume a run directory for the stages up to `until`, and lock it."""
        config = config.pinned if until == "learning" else config
        made = RunDirectory(path).manifest if (path / "manifest.json").exists() else ()
        missing = {*STAGES[until].after(config), until} - set(made)
        require_possible(config, missing, untrained_task(config) if "learning" in missing else None)
        with open_run(path, stage_configs(config, until)) as directory:
            yield cls(config, directory, progress)

    @classmethod
    @contextlib.contextmanager
    def reopen(cls, path: Path, progress: Progress | None = None, *, trust: bool = False) -> Iterator["Run"]:
        """Open a run directory for reading, with its own configuration. Another process may be training in it."""
        directory = read_run(path)
        yield cls(config_of_run(directory, trust=trust), directory, progress)

    def make(self, stage: str) -> Any:
        """The artefact of a stage, by the stage's name."""
        return getattr(self, stage)

    def stages(self, until: str) -> tuple[str, ...]:
        """The stages that `until` needs, then `until` itself, in order."""
        return (*STAGES[until].after(self.config), until)

    def has(self, stage: str) -> bool:
        """Whether a stage is finished."""
        return stage in self.directory.manifest

    @cached_property
    def walk(self) -> Walk:
        """Random walks of the team, one for each seed that discovers."""
        return self.directory.stage("walk", self.make_walk, lambda arrays: Walk(**arrays, team=self.config.team))

    def make_walk(self) -> Walk:
        config = self.config
        return walk_seeds(config.env, config.walk, config.discovering.keys("walk"), progress=self.progress)

    @cached_property
    def dataset(self) -> Dataset:
        """The walks and their index, on the device."""
        return index_futures(self.walk)

    @cached_property
    def representation(self) -> Any:
        """The representation's trained state."""
        if not self.has("representation"):
            _ = self.dataset  # made first, because each stage records its own time
        config, keys = self.config, self.config.discovering.keys("representation")
        return self.directory.stage(
            "representation",
            lambda: fit_representation(
                config.discovery, self.dataset, keys, directory=self.directory.path, progress=self.progress
            ),
            lambda arrays: fill(self._untrained.representation, arrays),
        )

    @cached_property
    def spectrum(self) -> Spectrum:
        """The eigenfunctions on the representation."""
        if not self.has("spectrum"):
            _ = self.walk, self.representation
        return self.directory.stage(
            "spectrum", self._make_spectrum, lambda arrays: fill(self._untrained.spectrum, arrays)
        )

    @property
    def found(self) -> Discovered:
        """Representation and eigenfunctions as one object."""
        return Discovered(self.config.discovery, self.representation, self.spectrum)

    @cached_property
    def options(self) -> OptionSet:
        """The option sets. Once they exist, no earlier stage is read."""
        if not self.has("options"):
            _ = self.found
        config, keys = self.config, self.config.discovering.keys("options")
        network = self.directory.stage(
            "options",
            lambda: train_option_networks(
                config.options, self.option_tasks(), keys, directory=self.directory.path, progress=self.progress
            ),
            lambda arrays: fill(untrained_networks(config, config.discovering.seeds), arrays),
        )
        return option_set(config.options, network, config.eigenoptions, config.option_env)

    def option_tasks(self) -> Any:
        """The tasks on which options are trained, for every seed that discovers."""
        config, keys = self.config, self.config.discovering.keys("starts")
        return option_tasks(config.option_env, self.found, config.options, config.eigenoptions, keys)

    @cached_property
    def task(self) -> AbstractEnv:
        """The environment in which the team learns. With joint options, it has a leading seed axis."""
        macro = self.config.learning.macro
        if macro is None:
            return self.config.env
        options = _lead(given_options(macro.option_set, self.config.option_env)) if macro.option_set else self.options
        return with_options(self.config, in_turn(options, self.config.seeds))

    @cached_property
    def learning(self) -> tuple[Any, Float[Array, "seed evaluation episode score"]]:
        """Every seed's policy, and its scores over training."""
        if not self.has("learning"):
            _ = self.task
        stage, keys = self.config.learning.stage, self.config.keys("learning")
        return self.directory.stage(
            "learning",
            lambda: learn_seeds(stage, self.task, keys, directory=self.directory.path, progress=self.progress),
            self._restore_learning,
        )

    def _restore_learning(self, arrays: dict[str, np.ndarray]) -> Any:
        stage, keys = self.config.learning.stage, self.config.keys("learning")
        envs = untrained_task(self.config)
        state = jax.eval_shape(jax.vmap(lambda key, env: stage.init(env, key=key)), keys, envs)
        return fill((stage.learner.policy(state.inner), state.scores), arrays)

    @property
    def _untrained(self) -> Discovered:
        config = self.config
        return untrained(config.discovery, config.discovering.seeds, config.walk.shape)

    def _make_spectrum(self) -> Spectrum:
        config = self.config
        spectrum = fit_spectrum(
            config.discovery,
            self.representation,
            self.walk,
            config.discovering.keys("laplacian"),
            directory=self.directory.path,
            progress=self.progress,
        )
        known = np.isfinite(spectrum.canonical.eigenvalues).all(axis=-1)
        require(bool(known.any()), NO_EIGENFUNCTIONS)
        tell_missing(spectrum, config.seed, self.progress)
        return spectrum


def tell_missing(spectrum: Spectrum, first_seed: int, progress: Progress) -> None:
    """Warn of walks that have fewer eigenfunctions than requested."""
    wanted = spectrum.canonical.eigenvalues.shape[-1]
    for seed, missing in enumerate(np.asarray(spectrum.num_missing), start=first_seed):
        if missing:
            progress.warn(
                f"the walk of seed {seed} has {wanted - missing} eigenfunctions, not {wanted}: the others are 0, and "
                f"their options end at once; --laplacian.num-eigenfunctions {max(wanted - missing, 1)} leaves them out"
            )


def untrained_networks(config: Config, num_seeds: int) -> Network:
    """The shapes of all options' networks, for `num_seeds` seeds."""
    learner, env = config.options.learner, config.option_env
    num_outputs = env.num_actions + 1 - learner.fixed_last
    init = partial(init_policies, env, View.of(env, config.options.sight), learner.network, num_outputs)
    keys = jax.random.split(jax.random.key(0), (num_seeds, len(config.eigenoptions)))
    return jax.eval_shape(jax.vmap(jax.vmap(lambda key: init(key=key))), keys)


def untrained_task(config: Config) -> AbstractEnv:
    """The shapes of the learning environments of all seeds. Nothing is trained; a given option set is loaded."""
    macro = config.learning.macro
    if macro is None:
        return config.env

    def with_networks(network: Network) -> AbstractEnv:
        return with_options(config, option_set(config.options, network, config.eigenoptions, config.option_env))

    if not macro.option_set:
        return jax.eval_shape(with_networks, untrained_networks(config, config.seeds))
    options = given_options(macro.option_set, config.option_env)
    return jax.eval_shape(lambda given: with_options(config, in_turn(given, config.seeds)), _lead(options))


def given_options(name: str, env: AbstractEnv) -> AbstractOptions:
    """Options that this run does not discover: from a registered source, an option set's directory, or the hub."""
    if name in OPTION_SOURCES or (":" in name and not is_hub_name(name) and not Path(name).exists()):
        return OPTION_SOURCES[name](env)
    return load_option_set(name, env)


def in_turn(options: AbstractOptions, num_seeds: int) -> AbstractOptions:
    """Option sets for `num_seeds` seeds: the given ones, repeated in order."""
    return jax.tree.map(lambda leaf: leaf[jnp.arange(num_seeds) % len(leaf)], options)


def with_options(config: Config, options: AbstractOptions) -> AbstractEnv:
    """The environment with the first `macro.num_options` options, or with all of them if that is 0."""
    macro = config.learning.macro
    assert macro is not None, "the task is learned without options"
    num = macro.num_options or options.num_options
    require(num <= options.num_options, f"macro.num_options is {num}; the set has {options.num_options}")
    return macro.around(config.env, options.first(num), foresight=config.learning.learner.intra_option)


def _lead(tree: Any) -> Any:
    """Add a leading seed axis to every array."""
    return jax.tree.map(lambda leaf: leaf[None], tree)
