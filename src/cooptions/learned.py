"""What a run has learned: its scores as files, compared with other runs', and its policies evaluated afresh."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
from jaxtyping import Array, Float, Key

from cooptions.artifacts import Json, RunDirectory
from cooptions.config import Config, env_differences
from cooptions.envs.base import AbstractEnv
from cooptions.errors import ArtifactError, ConfigError, require
from cooptions.evaluation import Scores, load_scores, save_scores
from cooptions.learning import Learning, evaluate, metric_names, scores_by_metric
from cooptions.progress import Progress
from cooptions.stages import learning_stage, task_env


def write_scores(config: Config, run: RunDirectory, progress: Progress) -> list[Scores]:
    """Write what every seed scored over training, one file a metric."""
    _, values = learning_stage(config, run, progress)
    scores = scores_by_metric(config.learning, config.scenario, metric_names(config.env), values)
    for each in scores:
        save_scores(run.file("scores", f"{each.metric}.safetensors"), each)
    return scores


def read_scores(path: Path) -> list[Scores]:
    """What a run scored, each metric; refused where nothing was learned."""
    files = sorted((path / "scores").glob("*.safetensors"))
    if not files:
        raise ArtifactError(f"{path}: no scores; `cooptions train PRESET --out {path}` makes them")
    return [load_scores(file) for file in files]


def scores_to_compare(paths: Sequence[Path], metric: str, names: Sequence[str] = ()) -> list[Scores]:
    """The scores of several runs by one metric, the first score of the environment by default."""
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
    """Refuse runs in which one scenario's name stands for different environments."""
    first: dict[str, tuple[Path, Json]] = {}
    for path, each in zip(paths, scores, strict=True):
        env = RunDirectory(path).configs.get("learning", {}).get("env", {})
        other, known = first.setdefault(each.scenario, (path, env))
        changes = env_differences(known, env)
        require(not changes, f"{path}: {each.scenario} is not the environment that it is in {other}: {changes}")


def _count(scores: Sequence[Scores], one: Scores) -> int:
    return sum((each.name, each.scenario) == (one.name, one.scenario) for each in scores)


def evaluate_run(
    config: Config, run: RunDirectory, num_episodes: int, keys: Key[Array, " seed"], progress: Progress
) -> list[Scores]:
    """Let every seed's final policy play fresh episodes."""
    if "learning" not in run.manifest:
        raise ArtifactError(f"{run.path}: nothing was learned here; `cooptions train` does it")
    policy, _ = learning_stage(config, run, progress)
    envs, stage = task_env(config, run, progress), Learning.of(config.learning)

    @jax.jit
    def play(policy: Any, envs: AbstractEnv, keys: Key[Array, " seed"]) -> Float[Array, "seed episode score"]:
        one_seed = partial(evaluate, stage.learner, num_episodes=num_episodes)
        return jax.vmap(lambda policy, env, key: one_seed(policy, env, key=key))(policy, envs, keys)

    values = play(policy, envs, keys)[:, None]
    return scores_by_metric(config.learning, config.scenario, metric_names(config.env), values)
