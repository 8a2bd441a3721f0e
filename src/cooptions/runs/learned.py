"""The results of learning in a run: score files, comparison with other runs, and new evaluations of its policies."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, Key

from cooptions.envs.base import AbstractEnv
from cooptions.errors import ArtifactError, ConfigError, require
from cooptions.files import Json
from cooptions.learners.base import AbstractLearner
from cooptions.learners.learn import evaluate
from cooptions.runs.config import env_differences
from cooptions.runs.directory import RunDirectory, read_run
from cooptions.runs.run import Run
from cooptions.scores.statistics import Scores, load_scores, save_scores
from cooptions.training.memory import held_bytes, require_room


def write_scores(run: Run) -> list[Scores]:
    """Write the scores of all seeds over training, one file per metric."""
    config, (_, values) = run.config, run.learning
    scores = config.learning.scores(config.env, config.scenario, values)
    files = [run.directory.file("scores", f"{each.metric}.safetensors") for each in scores]
    for each, path in zip(scores, files, strict=True):
        if problem := run.directory.problem("learning", path):
            run.progress.warn(f"{path}: {problem}; it is written again")
        save_scores(path, each)
    run.directory.seal("learning", files)
    return _with_warnings(run, scores)


def _with_warnings(run: Run, scores: list[Scores]) -> list[Scores]:
    """Return the scores, after a warning of every seed for which the environment returned non-finite scores."""
    for each in scores:
        for seed in np.flatnonzero(each.unscored).tolist():
            where = f"{each.name}: {run.progress.seed_name(seed)}"
            run.progress.warn(
                f"{where}: the environment's {each.metric!r} is no number, though what was learned is sound: the seed "
                "is left out; look at the environment"
            )
    return scores


def read_scores(path: Path) -> list[Scores]:
    """Read the scores of a run, one for each metric. Raises `ArtifactError` if there are none."""
    files = sorted((path / "scores").glob("*.safetensors"))
    if not files:
        raise ArtifactError(f"{path}: no scores; `cooptions train PRESET --out {path}` makes them")
    if (path / "config.json").exists():  # scores may also be copied from their run
        read_run(path).verify_sealed("learning", "scores/")
    return [load_scores(file) for file in files]


def scores_to_compare(paths: Sequence[Path], metric: str, names: Sequence[str] = ()) -> list[Scores]:
    """The scores of several runs by one metric, by default the environment's first score."""
    require(len(set(names)) == len(names), f"names: each run needs its own, not {', '.join(names)}")
    require(not names or len(names) == len(paths), f"names: one for each of {len(paths)} runs, not {len(names)}")
    chosen = []
    for index, path in enumerate(paths):
        scores = {each.metric: each for each in read_scores(path)}
        wanted = metric or next((name for name in scores if name != "return"), "return")
        if wanted not in scores:
            raise ConfigError(f"metric: {path} has no {wanted!r}; there are {', '.join(scores)}")
        chosen.append(replace(scores[wanted], name=names[index]) if names else scores[wanted])
    _require_same_env(paths, chosen)
    twice = {(each.name, each.scenario) for each in chosen if _count(chosen, each) > 1}
    require(not twice, f"names: several runs are called {', '.join(sorted(name for name, _ in twice))}; give --names")
    return chosen


def _require_same_env(paths: Sequence[Path], scores: Sequence[Scores]) -> None:
    """Raise `ConfigError` if runs of the same scenario name have different environments."""
    first: dict[str, tuple[Path, Json]] = {}
    for path, each in zip(paths, scores, strict=True):
        env = RunDirectory(path).configs.get("learning", {}).get("env", {})
        other, known = first.setdefault(each.scenario, (path, env))
        changes = env_differences(known, env)
        require(not changes, f"{path}: {each.scenario} is not the environment that it is in {other}: {changes}")


def _count(scores: Sequence[Scores], one: Scores) -> int:
    return sum((each.name, each.scenario) == (one.name, one.scenario) for each in scores)


def evaluate_run(run: Run, num_episodes: int, keys: Key[Array, " seed"]) -> list[Scores]:
    """Evaluate every seed's final policy on new episodes."""
    config = run.config
    if not run.has("learning"):
        raise ArtifactError(f"{run.directory.path}: nothing was learned here; `cooptions train` does it")
    (policy, _), stage = run.learning, config.learning.stage
    play = partial(_play, stage.learner, num_episodes)
    require_room("evaluate", held_bytes(play, policy, run.task, keys), "episodes", on_device=True)
    values = play(policy, run.task, keys)[:, None]
    return _with_warnings(run, config.learning.scores(config.env, config.scenario, values))


@partial(jax.jit, static_argnums=(0, 1))
def _play(
    learner: AbstractLearner, num_episodes: int, policy: Any, envs: AbstractEnv, keys: Key[Array, " seed"]
) -> Float[Array, "seed episode score"]:
    one_seed = partial(evaluate, learner, num_episodes=num_episodes)
    return jax.vmap(lambda policy, env, key: one_seed(policy, env, key=key))(policy, envs, keys)
