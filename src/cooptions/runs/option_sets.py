"""The option sets of a run: one directory a seed, to be looked at, shared and loaded."""

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
"""Starts from which each option is followed to see what it does."""


def option_set_path(run: Run, seed: int) -> Path:
    """Where the option set of the seed with this place in the run lies."""
    return run.directory.file(SETS, f"seed-{run.config.seed + seed}")


def write_option_sets(run: Run) -> list[tuple[OptionReport, ...]]:
    """Follow the options of every seed that discovered, and write each set with its card; what is there is only read.

    A seed whose training diverged is left out, with a warning: the reports are those of the others, in their order.
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
    """Where options are looked at from: states of random play, not those they were trained from."""
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
    """Refuse a run whose team learned without options, or with some from elsewhere: no command would write any here."""
    known, path = run.directory.configs, run.directory.path
    if "learning" in known and "spectrum" not in known:
        raise ArtifactError(
            f"{path}: this team learned without options of its own; `cooptions evaluate {path}` plays it"
        )


def follow_named(config: Config, options: AbstractOptions, name: str, *, seed: int) -> Rollout:
    """Follow one seed's option of this name, from a start at which it takes its median number of steps."""
    return _follow(config, options, name, seed, None)


def write_gif(run: Run, options: AbstractOptions, name: str, *, seed: int) -> Path:
    """The roll-out of median length of a seed's option, as a GIF in the run directory."""
    path = run.directory.file("figures", f"option{name}-seed-{run.config.seed + seed}.gif")
    _follow(run.config, options, name, seed, path)
    return path


def _follow(config: Config, options: AbstractOptions, name: str, seed: int, gif: Path | None) -> Rollout:
    begun = typical_starts(config, seed, PICTURE_STARTS)
    return draw_option(config.option_env, options, name, begun, key=config.keys("looks")[seed], gif=gif)
