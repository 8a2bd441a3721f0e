"""The option sets of a run: one directory a seed, to be looked at, shared and loaded."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from cooptions.runs.directory import RunDirectory
from cooptions.runs.config import Config
from cooptions.envs.rollout import Runners
from cooptions.errors import ArtifactError, CooptionsError, require
from cooptions.options.base import AbstractOptions
from cooptions.options.execution import Execution, follow
from cooptions.options.option_set import OptionSet
from cooptions.options.sharing.pictures import card_pictures
from cooptions.options.report import OptionReport, report_options
from cooptions.options.sharing.storage import SETS, load_option_set, load_reports, save_option_set
from cooptions.options.task import collect_starts
from cooptions.options.train import diverged
from cooptions.training.progress import Progress
from cooptions.plots import Rollout, add_captions, frames, save_gif, step_captions
from cooptions.runs.stages import options_stage, representation_stage, spectrum_stage

NUM_STARTS = 256
"""Starts from which each option is followed to see what it does."""


def option_set_path(run: RunDirectory, config: Config, seed: int) -> Path:
    """Where the option set of the seed with this place in the run lies."""
    return run.file(SETS, f"seed-{config.seed + seed}")


def write_option_sets(config: Config, run: RunDirectory, progress: Progress) -> list[tuple[OptionReport, ...]]:
    """Follow the options of every seed that discovered, and write each set with its card; what is there is only read.

    A seed whose training diverged is left out, with a warning: the reports are those of the others, in their order.
    """
    option_sets, num_seeds = options_stage(config, run, progress), config.discovering.seeds
    reports = []
    with progress.stage("option sets", num_seeds) as show:
        for seed in range(num_seeds):
            path = option_set_path(run, config, seed)
            options = jax.tree.map(lambda leaf, seed=seed: leaf[seed], option_sets)
            lost = diverged(options)
            if lost:
                progress.warn(
                    f"seed {config.seed + seed} diverged ({', '.join(lost)}): no option set is written for it"
                )
            else:
                if not path.exists():
                    _write(config, run, progress, options, seed)
                reports.append(load_reports(path))
            show.advance(1, {})
    if not reports:
        raise CooptionsError(f"{run.path}: the options of every seed diverged; lower options.learner.learning_rate")
    return reports


def _write(config: Config, run: RunDirectory, progress: Progress, options: OptionSet, seed: int) -> None:
    env, key = config.env, config.keys("reports")[seed]
    begun = typical_starts(config, seed, NUM_STARTS)
    value, spectrum = eigenfunctions_of(config, run, progress, seed)
    reports = report_options(env, options, begun, value=value, eigenvalues=spectrum.canonical.eigenvalues, key=key)
    save_option_set(
        option_set_path(run, config, seed),
        options,
        env,
        reports,
        provenance=run.manifest["options"]["made_by"],
        pictures=card_pictures(env, options, begun, value=value, key=key),
        scenario=config.scenario,
    )


def eigenfunctions_of(
    config: Config, run: RunDirectory, progress: Progress, seed: int
) -> tuple[Callable[[Shaped[Array, "agent feature"]], Float[Array, " k"]], Any]:
    """The eigenfunctions of one seed, of agents' whole states, and the spectrum they are from."""
    found = representation_stage(config, run, progress), spectrum_stage(config, run, progress)
    representation, spectrum = jax.tree.map(lambda leaf: leaf[seed], found)
    columns = np.array(config.columns)

    def value(agent_states: Shaped[Array, "agent feature"]) -> Float[Array, " k"]:
        return config.discovery.eigenfunctions(representation, spectrum, agent_states[:, columns])

    return value, spectrum


def typical_starts(config: Config, seed: int, num: int) -> Runners:
    """Where options are looked at from: states of random play, not those they were trained from."""
    return collect_starts(config.env, num, config.options.start_steps, key=config.keys("looks")[seed])


def load_options(config: Config, run: RunDirectory, seed: int) -> OptionSet:
    """The option set of one seed, as written by `cooptions options`."""
    last = config.discovering.seeds - 1
    require(0 <= seed <= last, f"seed: options were discovered by seeds 0 to {last}, not {seed}")
    path = option_set_path(run, config, seed)
    if not path.exists():
        reason = "this seed diverged, or was not written yet" if "options" in run.manifest else "none is trained yet"
        raise ArtifactError(f"{path}: no option set: {reason}; `cooptions options {run.path}` writes what is missing")
    return load_option_set(path, config.env)


def follow_named(config: Config, options: AbstractOptions, name: str, *, seed: int) -> Execution:
    """Follow one seed's option of this name, from a start that differs with the seed."""
    names = [option.name for option in options.options]
    require(name in names, f"option: unknown {name!r}; there are {', '.join(names)}")
    begun = jax.tree.map(lambda leaf: leaf[0], typical_starts(config, seed, 1))
    return follow(config.env, options, jnp.int32(names.index(name)), begun, key=config.keys("looks")[seed])


def write_gif(config: Config, run: RunDirectory, options: AbstractOptions, name: str, *, seed: int) -> Path:
    """One roll-out of a seed's option as a GIF in the run directory."""
    followed = follow_named(config, options, name, seed=seed)
    rollout = Rollout(followed.states, followed.agent_states, followed.actions, followed.length).trim()
    images = add_captions(frames(config.env, rollout.states), step_captions(name, rollout, config.env.num_actions))
    path = run.file("figures", f"option{name}-seed-{config.seed + seed}.gif")
    path.parent.mkdir(parents=True, exist_ok=True)
    save_gif(path, images, fps=6.0)
    return path
