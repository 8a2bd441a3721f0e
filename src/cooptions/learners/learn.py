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
    """Everything that changes during training, and the scores so far: NaN for what is to come, or has diverged,
    infinite where the environment gave no number."""

    inner: Any
    scores: Float[Array, "evaluation episode score"]
    evaluated: Int[Array, ""]


@dataclass(frozen=True)
class Learning:
    """The stage: one step is an update, and after every interval of them comes an evaluation."""

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
    """The metrics of an update, those of scores times the episodes that ended in it: their mean over updates then
    counts every episode alike."""
    return metrics | {name: metrics[name] * metrics["episodes"] for name in score_names}


def per_episode(means: Metrics, score_names: tuple[str, ...]) -> Metrics:
    """Means over updates of what `by_episodes` gives, those of scores for each episode; 0 where none ended."""
    episodes = means["episodes"]
    some = jnp.where(episodes > 0, episodes, 1.0)
    return means | {name: means[name] / some for name in score_names}


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

    @property
    def scores(self) -> Float[Array, "env score"]:
        """What each has scored."""
        return jnp.concatenate([self.now.timestep.score, self.total[:, None]], axis=1)


def begin_play(learner: AbstractLearner, env: AbstractEnv, num_episodes: int, *, key: PRNGKeyArray) -> Play:
    """As many new episodes."""
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
    """Let the team play on as it is evaluated, until all episodes are over or for so many steps."""
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
    """Let the team play whole episodes as it is evaluated, side by side, and score each; NaN for one that diverged."""
    begun = begin_play(learner, env, num_episodes, key=key)
    end = play_on(learner, policy, env, begun, jnp.iinfo(jnp.int32).max, key=key)
    return _told_apart(end.scores, is_sound(policy, env))


def _told_apart(scores: Float[Array, "episode score"], sound: Bool[Array, ""]) -> Float[Array, "episode score"]:
    """NaN where the team has diverged; infinite where it has not, and the environment's score is no number."""
    return jnp.where(sound, jnp.where(jnp.isfinite(scores), scores, jnp.inf), jnp.nan)


def is_sound(policy: Any, env: AbstractEnv) -> Bool[Array, ""]:
    """Whether neither the policy nor the options it acts with have diverged."""
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
    """Every seed's policy and scores. Arrays of the environment, such as joint options, have seeds in front."""
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
    """The scores as statistics want them, one object for each metric; of all evaluations, or as many of the last."""
    values = np.asarray(values)
    steps = steps[-values.shape[1] :]
    return [Scores(method, scenario, metric, steps, values[..., index]) for index, metric in enumerate(metrics)]
