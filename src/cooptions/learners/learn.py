"""Learning a task: a learner, evaluated at fixed intervals, whose scores are kept episode by episode."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray

from cooptions.envs.base import AbstractEnv
from cooptions.envs.rollout import Runners, select, start
from cooptions.learners.base import AbstractLearner
from cooptions.scores.statistics import Scores
from cooptions.training.loop import Metrics, train
from cooptions.training.memory import require_fits
from cooptions.training.progress import Progress


class LearningState(eqx.Module):
    """Everything that changes during training, and the scores so far; NaN for what is to come, or has diverged."""

    inner: Any
    scores: Float[Array, "evaluation episode score"]
    evaluated: Int[Array, ""]


@dataclass(frozen=True)
class Learning:
    """The stage: one step is the updates up to the next evaluation, and that evaluation."""

    learner: AbstractLearner
    evaluations: int
    episodes: int

    @property
    def interval(self) -> int:
        """Updates between evaluations."""
        return self.learner.num_updates // self.evaluations

    @property
    def steps(self) -> Int[np.ndarray, " evaluation"]:
        """Environment steps before each evaluation."""
        return np.arange(1, self.evaluations + 1) * self.interval * self.learner.steps_per_update

    def init(self, data: AbstractEnv, *, key: PRNGKeyArray) -> LearningState:
        scores = jnp.full((self.evaluations, self.episodes, len(data.score_names) + 1), jnp.nan)
        return LearningState(self.learner.init(data, key=key), scores, jnp.int32(0))

    def step(self, state: LearningState, data: AbstractEnv, *, key: PRNGKeyArray) -> tuple[LearningState, Metrics]:
        update_key, evaluation_key = jax.random.split(key)

        def update(inner: Any, key: PRNGKeyArray) -> tuple[Any, Metrics]:
            return self.learner.step(inner, data, key=key)

        inner, metrics = jax.lax.scan(update, state.inner, jax.random.split(update_key, self.interval))
        policy = self.learner.policy(inner)
        scores = evaluate(self.learner, policy, data, self.episodes, key=evaluation_key)
        scores = jnp.where(all_finite(policy), scores, jnp.nan)
        means = {f"evaluated {name}": scores[:, index].mean() for index, name in enumerate(metric_names(data))}
        state = LearningState(inner, state.scores.at[state.evaluated].set(scores), state.evaluated + 1)
        return state, means | over_updates(metrics, data.score_names)


def over_updates(metrics: dict[str, Float[Array, " update"]], score_names: tuple[str, ...]) -> Metrics:
    """Means over updates; those of scores count every episode alike, and not the updates in which none ended."""
    episodes = metrics["episodes"]
    means = {name: value.mean(axis=0) for name, value in metrics.items()}
    number = jnp.maximum(episodes.sum(axis=0), 1)
    return means | {name: (metrics[name] * episodes).sum(axis=0) / number for name in score_names}


def metric_names(env: AbstractEnv) -> tuple[str, ...]:
    """What an episode is scored by: the environment's scores, and the return, the plain sum of rewards."""
    return (*env.score_names, "return")


class Play(eqx.Module):
    """Episodes being played side by side."""

    now: Runners
    memory: Float[Array, "env agent memory"]
    total: Float[Array, " env"]
    """The rewards of each so far."""
    over: Bool[Array, " env"]
    time: Int[Array, ""]


def evaluate(
    learner: AbstractLearner, policy: Any, env: AbstractEnv, num_episodes: int, *, key: PRNGKeyArray
) -> Float[Array, "episode score"]:
    """Let the team play whole episodes as it is evaluated, side by side, and score each."""
    start_key, play_key = jax.random.split(key)

    def go_on(play: Play) -> Play:
        now, over = play.now, play.over
        action_key, step_key = jax.random.split(jax.random.fold_in(play_key, play.time))
        first = jnp.full(num_episodes, play.time == 0)
        memory, action = learner.act(policy, play.memory, now.timestep, first, key=action_key)
        stepped = Runners(*jax.vmap(env.step)(now.state, action, jax.random.split(step_key, num_episodes)))
        total = jnp.where(over, play.total, play.total + stepped.timestep.reward)
        return Play(select(over, now, stepped), memory, total, over | stepped.timestep.last, play.time + 1)

    begun = Play(
        now=start(env, num_episodes, key=start_key),
        memory=learner.init_memory(env, num_episodes),
        total=jnp.zeros(num_episodes),
        over=jnp.zeros(num_episodes, bool),
        time=jnp.int32(0),
    )
    end = jax.lax.while_loop(lambda play: ~play.over.all(), go_on, begun)
    return jnp.concatenate([end.now.timestep.score, end.total[:, None]], axis=1)


def all_finite(tree: Any) -> Bool[Array, ""]:
    return jnp.all(jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)]))


def learn_seeds(
    stage: Learning,
    envs: AbstractEnv,
    keys: Key[Array, " seed"],
    *,
    directory: Path | None = None,
    progress: Progress | None = None,
) -> tuple[Any, Float[Array, "seed evaluation episode score"]]:
    """Every seed's policy and scores. Arrays of the environment, such as joint options, have seeds in front."""
    shrink = "learning.learner.capacity, learning.learner.num_envs or seeds"
    require_fits(stage, envs, keys, "learning", shrink=shrink, progress=progress)
    trained = train(
        stage,
        envs,
        keys,
        name="learning",
        num_steps=stage.evaluations,
        chunk_steps=1,
        unit=stage.interval * stage.learner.steps_per_update,
        directory=directory,
        progress=progress,
    )
    return stage.learner.policy(trained.state.inner), trained.state.scores


def scores_by_metric(
    method: str,
    scenario: str,
    steps: Int[np.ndarray, " any_evaluation"],
    metrics: tuple[str, ...],
    values: Float[Array | np.ndarray, "seed evaluation episode score"],
) -> list[Scores]:
    """The scores as statistics want them, one object for each metric; of all evaluations, or as many of the last."""
    values = np.asarray(values)
    steps = steps[-values.shape[1] :]
    return [Scores(method, scenario, metric, steps, values[..., index]) for index, metric in enumerate(metrics)]
