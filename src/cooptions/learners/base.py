"""What a learner is: a stage of training on an environment, and a policy that can be evaluated at any time."""

import abc
from typing import Any, Generic, TypeVar

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from cooptions.envs.base import AbstractEnv
from cooptions.training import Metrics
from cooptions.types import TimeStep

State = TypeVar("State")


class AbstractLearner(abc.ABC, Generic[State]):
    """A stage whose data is the environment. One step is an update: a rollout, then learning from it."""

    @property
    @abc.abstractmethod
    def num_updates(self) -> int:
        """Updates in all."""

    @property
    @abc.abstractmethod
    def steps_per_update(self) -> int:
        """Environment steps of one update, over all environments."""

    @abc.abstractmethod
    def init(self, data: AbstractEnv, *, key: PRNGKeyArray) -> State: ...

    @abc.abstractmethod
    def step(self, state: State, data: AbstractEnv, *, key: PRNGKeyArray) -> tuple[State, Metrics]: ...

    @abc.abstractmethod
    def policy(self, state: State) -> Any:
        """What acting needs of the state: the networks that would be kept."""

    @abc.abstractmethod
    def init_memory(self, env: AbstractEnv, num_envs: int) -> Float[Array, "env agent memory"]:
        """What the agents remember before they saw anything; of width 0 for those without memory."""

    @abc.abstractmethod
    def act(
        self,
        policy: Any,
        memory: Float[Array, "env agent memory"],
        timestep: TimeStep,
        first: Bool[Array, " env"],
        *,
        key: PRNGKeyArray,
    ) -> tuple[Float[Array, "env agent memory"], Int[Array, "env agent"]]:
        """What the team does when it is evaluated; `first` marks the beginning of an episode."""


def episode_scores(env: AbstractEnv, ended: Bool[Array, "time env"], score: Float[Array, "time env score"]) -> Metrics:
    """The mean result of the episodes that ended in a rollout, and how many did."""
    number = ended.sum()
    means = jnp.where(ended[..., None], score, 0.0).sum(axis=(0, 1)) / jnp.maximum(number, 1)
    return {name: means[index] for index, name in enumerate(env.score_names)} | {"episodes": number.astype(jnp.float32)}
