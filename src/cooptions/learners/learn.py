"""Train a learner on a task, evaluate it at fixed intervals, and keep the scores of every evaluation episode."""

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
    """Everything that changes during training, and the scores so far. NaN stands for evaluations to come and for
    diverged teams, infinity for scores of the environment that are not finite."""

    inner: Any
    scores: Float[Array, "evaluation episode score"]
    evaluated: Int[Array, ""]


@dataclass(frozen=True)
class Learning:
    """The training stage: one step is one update, and an evaluation follows every `interval` updates."""

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
        inner, metrics = self.learner.step(state.inner, data, key=key)
        return LearningState(inner, state.scores, state.evaluated), by_episodes(metrics, data.score_names)

    def keys(self, key: PRNGKeyArray, index: Int[Array, ""]) -> tuple[Key[Array, " update"], PRNGKeyArray]:
        update_key, evaluation_key = jax.random.split(jax.random.fold_in(key, index))
        return jax.random.split(update_key, self.interval), evaluation_key

    def begin_evaluation(self, state: LearningState, data: AbstractEnv, *, key: PRNGKeyArray) -> "Play":
        return begin_play(self.learner, data, self.episodes, key=key)

    def evaluate_on(
        self, evaluation: "Play", state: LearningState, data: AbstractEnv, num: Int[Array, ""], *, key: PRNGKeyArray
    ) -> "Play":
        return play_on(self.learner, self.learner.policy(state.inner), data, evaluation, num, key=key)

    def is_over(self, evaluation: "Play") -> Bool[Array, ""]:
        return evaluation.over.all()

    def end_interval(
        self, state: LearningState, data: AbstractEnv, evaluation: "Play", means: Metrics
    ) -> tuple[LearningState, Metrics]:
        scores = _told_apart(evaluation.scores, self.is_sound(state, data))
        told = {f"evaluated {name}": scores[:, index].mean() for index, name in enumerate(metric_names(data))}
        state = LearningState(state.inner, state.scores.at[state.evaluated].set(scores), state.evaluated + 1)
        return state, told | per_episode(means, data.score_names)

    def is_sound(self, state: LearningState, data: AbstractEnv) -> Bool[Array, ""]:
        return is_sound(self.learner.policy(state.inner), data)


def by_episodes(metrics: Metrics, score_names: tuple[str, ...]) -> Metrics:
    """The metrics of an update, with scores multiplied by the number of episodes that ended in it, so that their mean
    over updates weights all episodes equally."""
    return metrics | {name: metrics[name] * metrics["episodes"] for name in score_names}


def per_episode(means: Metrics, score_names: tuple[str, ...]) -> Metrics:
    """Convert means over updates of `by_episodes` metrics to mean scores per episode; 0 if no episode ended."""
    episodes = means["episodes"]
    some = jnp.where(episodes > 0, episodes, 1.0)
    return means | {name: means[name] / some for name in score_names}


def metric_names(env: AbstractEnv) -> tuple[str, ...]:
    """The names of an episode's scores: those of the environment, and the undiscounted return."""
    return (*env.score_names, "return")


class Play(eqx.Module):
    """Episodes that are played in parallel."""

    now: Runners
    memory: Float[Array, "env agent memory"]
    total: Float[Array, " env"]
    """The sum of rewards of each episode so far."""
    over: Bool[Array, " env"]
    time: Int[Array, ""]

    @property
    def scores(self) -> Float[Array, "env score"]:
        """The scores of each episode so far."""
        return jnp.concatenate([self.now.timestep.score, self.total[:, None]], axis=1)


def begin_play(learner: AbstractLearner, env: AbstractEnv, num_episodes: int, *, key: PRNGKeyArray) -> Play:
    """Begin `num_episodes` episodes."""
    start_key, _ = jax.random.split(key)
    return Play(
        now=start(env, num_episodes, key=start_key),
        memory=learner.init_memory(env, num_episodes),
        total=jnp.zeros(num_episodes),
        over=jnp.zeros(num_episodes, bool),
        time=jnp.int32(0),
    )


def play_on(
    learner: AbstractLearner,
    policy: Any,
    env: AbstractEnv,
    play: Play,
    num_steps: Int[Array, ""] | int,
    *,
    key: PRNGKeyArray,
) -> Play:
    """Play on with the evaluation policy until all episodes are over, or for `num_steps` steps."""
    _, play_key = jax.random.split(key)
    num_episodes, until = play.over.shape[0], play.time + num_steps

    def go_on(play: Play) -> Play:
        now, over = play.now, play.over
        action_key, step_key = jax.random.split(jax.random.fold_in(play_key, play.time))
        first = jnp.full(num_episodes, play.time == 0)
        memory, action = learner.act(policy, play.memory, now.timestep, first, key=action_key)
        stepped = Runners(*jax.vmap(env.step)(now.state, action, jax.random.split(step_key, num_episodes)))
        total = jnp.where(over, play.total, play.total + stepped.timestep.reward)
        return Play(select(over, now, stepped), memory, total, over | stepped.timestep.last, play.time + 1)

    return jax.lax.while_loop(lambda play: ~play.over.all() & (play.time < until), go_on, play)


def evaluate(
    learner: AbstractLearner, policy: Any, env: AbstractEnv, num_episodes: int, *, key: PRNGKeyArray
) -> Float[Array, "episode score"]:
    """Play whole episodes with the evaluation policy. Returns their scores, which are NaN if the team has diverged."""
    begun = begin_play(learner, env, num_episodes, key=key)
    end = play_on(learner, policy, env, begun, jnp.iinfo(jnp.int32).max, key=key)
    return _told_apart(end.scores, is_sound(policy, env))


def _told_apart(scores: Float[Array, "episode score"], sound: Bool[Array, ""]) -> Float[Array, "episode score"]:
    """NaN if the team has diverged. Otherwise the scores, with infinity for those that are not finite."""
    return jnp.where(sound, jnp.where(jnp.isfinite(scores), scores, jnp.inf), jnp.nan)


def is_sound(policy: Any, env: AbstractEnv) -> Bool[Array, ""]:
    """Whether the policy is finite, and the environment's arrays, such as options, contain no NaN."""
    numbers = [leaf for leaf in jax.tree.leaves(env) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    sane = [~jnp.isnan(leaf).any() for leaf in numbers]
    finite = [jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(policy)]
    return jnp.stack([jnp.bool_(True), *finite, *sane]).all()


def learn_seeds(
    stage: Learning,
    envs: AbstractEnv,
    keys: Key[Array, " seed"],
    *,
    directory: Path | None = None,
    progress: Progress | None = None,
) -> tuple[Any, Float[Array, "seed evaluation episode score"]]:
    """Train all seeds. Returns their policies and scores. Arrays of the environment, such as joint options, have a
    leading seed axis."""
    shrink = "learning.learner.capacity, learning.learner.num_envs or seeds"
    require_fits(stage, envs, keys, "learning", shrink=shrink, progress=progress)
    trained = train(
        stage,
        envs,
        keys,
        name="learning",
        num_steps=stage.evaluations * stage.interval,
        log_steps=stage.interval,
        unit=stage.learner.steps_per_update,
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
    """One `Scores` object per metric. `values` may be of the last evaluations only."""
    values = np.asarray(values)
    steps = steps[-values.shape[1] :]
    return [Scores(method, scenario, metric, steps, values[..., index]) for index, metric in enumerate(metrics)]
