"""The option sets of a run: one directory per seed, to show, share and load."""

from pathlib import Path

import jax

from cooptions.envs.rollout import Runners
from cooptions.errors import ArtifactError, CooptionsError, require
from cooptions.options.base import AbstractOptions
from cooptions.options.execution import PICTURE_STARTS, draw_option
from cooptions.options.option_set import OptionSet
from cooptions.options.report import OptionReport, report_options
from cooptions.options.sharing.pictures import card_pictures
from cooptions.options.sharing.storage import SETS, load_option_set, load_reports, save_option_set
from cooptions.options.task import collect_starts
from cooptions.options.train import diverged
from cooptions.plots import Rollout
from cooptions.runs.config import Config
from cooptions.runs.run import Run
from cooptions.training.metrics import MetricsFile, diverged_at

NUM_STARTS = 256
"""The number of start states from which each option is executed for its report."""


def option_set_path(run: Run, seed: int) -> Path:
    """The path of the option set of a run's seed, given its index from 0."""
    return run.directory.file(SETS, f"seed-{run.config.seed + seed}")


def write_option_sets(run: Run) -> list[tuple[OptionReport, ...]]:
    """Write the option set of every seed that discovered, with its card. Existing sets are only read.

    Returns the reports of the seeds, in order. A seed whose training diverged is left out with a warning.
    """
    num_seeds, first = run.config.discovering.seeds, run.config.seed
    reports = []
    with run.progress.stage("option sets", num_seeds) as show:
        for seed in range(num_seeds):
            path = option_set_path(run, seed)
            options = jax.tree.map(lambda leaf, seed=seed: leaf[seed], run.options)
            if lost := diverged(options):
                run.progress.warn(f"seed {first + seed} diverged ({', '.join(lost)}): no option set is written for it")
            else:
                if not path.exists():
                    _write(run, options, seed)
                reports.append(load_reports(path))
            show.advance(1, {})
    if not reports:
        raise CooptionsError(
            f"{run.directory.path}: the options of every seed diverged; lower options.learner.learning_rate"
        )
    return reports


def _write(run: Run, options: OptionSet, seed: int) -> None:
    env, key, found = run.config.option_env, run.config.keys("reports")[seed], run.found.seed(seed)
    begun = typical_starts(run.config, seed, NUM_STARTS)
    reports = report_options(env, options, begun, value=found, eigenvalues=found.eigenvalues, key=key)
    save_option_set(
        option_set_path(run, seed),
        options,
        env,
        reports,
        provenance=run.directory.manifest["options"]["made_by"],
        pictures=card_pictures(env, options, begun, value=found, key=key),
        scenario=run.config.scenario,
    )


def typical_starts(config: Config, seed: int, num: int) -> Runners:
    """Start states in which options are shown. They come from random play, but are not those of training."""
    return collect_starts(config.option_env, num, config.options.start_steps, key=config.keys("looks")[seed])


def load_options(run: Run, seed: int) -> OptionSet:
    """The option set of one seed, as written by `cooptions options`."""
    last = run.config.discovering.seeds - 1
    require(0 <= seed <= last, f"seed: options were discovered by seeds 0 to {last}, not {seed}")
    path = option_set_path(run, seed)
    if not path.exists():
        _require_options_of_its_own(run)
        rows = MetricsFile(run.directory.file("metrics", "options.jsonl")).rows()
        if (step := diverged_at(rows, seed)) is not None:
            raise ArtifactError(
                f"{path}: no option set: seed {run.config.seed + seed} diverged by step {step} of training its "
                "options; look at another seed, or lower options.learner.learning_rate"
            )
        reason = "it was not written yet" if run.has("options") else "none is trained yet"
        raise ArtifactError(
            f"{path}: no option set: {reason}; `cooptions options {run.directory.path}` writes what is missing"
        )
    return load_option_set(path, run.config.option_env)


def _require_options_of_its_own(run: Run) -> None:
    """Raise `ArtifactError` if the team learned without options of its own, since no command writes any here."""
    known, path = run.directory.configs, run.directory.path
    if "learning" in known and "spectrum" not in known:
        raise ArtifactError(
            f"{path}: this team learned without options of its own; `cooptions evaluate {path}` plays it"
        )


def follow_named(config: Config, options: AbstractOptions, name: str, *, seed: int) -> Rollout:
    """A roll-out of one seed's option with this name, from a start at which it takes its median number of steps."""
    return _follow(config, options, name, seed, None)


def write_gif(run: Run, options: AbstractOptions, name: str, *, seed: int) -> Path:
    """Write a GIF of median length of a seed's option to the run directory. Returns its path."""
    path = run.directory.file("figures", f"option{name}-seed-{run.config.seed + seed}.gif")
    _follow(run.config, options, name, seed, path)
    return path


def _follow(config: Config, options: AbstractOptions, name: str, seed: int, gif: Path | None) -> Rollout:
    begun = typical_starts(config, seed, PICTURE_STARTS)
    return draw_option(config.option_env, options, name, begun, key=config.keys("looks")[seed], gif=gif)
