"""What the adapters for other libraries' environments share."""

import abc
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Shaped

from cooptions.envs.base import AbstractEnv, check_env
from cooptions.errors import require
from cooptions.types import Feature, TimeStep


class Wrapped(eqx.Module):
    """Another library's state, and the team's return so far."""

    inner: Any
    total: Float[Array, ""]


@dataclass(frozen=True)
class AbstractAdapter(AbstractEnv[Wrapped]):
    """Another library's environment as a team task; `factorise` is all that a user must add."""

    env: Any
    _: KW_ONLY
    features: tuple[Feature, ...] = ()
    """The features of one agent's state, in the order of `factorise`. At least one."""
    factorise: Callable[[Any], Any]
    """The wrapped environment's state -> [agent, feature]: one state per agent."""
    noop: int = 0
    """The action that stands still, or does the least."""
    team_reward: Literal["mean", "sum"] = "mean"
    """How the rewards of the agents become the team's."""
    landmarks: Callable[[Any], Any] | None = field(default=None, metadata={"only_drawn": True})
    """The wrapped environment's state -> [landmark, feature]: places that frames show beside the agents, in the first
    features of an agent's state."""
    score: Callable[[Any], Any] | None = None
    """The wrapped environment's state -> [score], named by `score_names`; None scores the return so far."""
    score_names: tuple[str, ...] = ("return",)

    def __post_init__(self) -> None:
        require(len(self.features) > 0, "features: give at least one Feature, in the order of factorise")
        require(self.team_reward in ("mean", "sum"), f"team_reward must be mean or sum, not {self.team_reward!r}")
        fewest = min(self.action_counts)
        require(0 <= self.noop < fewest, f"noop must be an action of every agent, 0 to {fewest - 1}, not {self.noop}")
        state, _ = jax.eval_shape(self.reset, jax.random.key(0))
        actual = jax.eval_shape(lambda inner: jnp.asarray(self.factorise(inner)), state.inner).shape
        expected = (self.num_agents, len(self.features))
        require(actual == expected, f"factorise: returns shape {actual}, expected [agent, feature] = {expected}")
        if (landmarks := self.landmarks) is not None:
            shape = jax.eval_shape(lambda inner: jnp.asarray(landmarks(inner)), state.inner).shape
            enough = len(shape) == 2 and shape[1] >= min(len(self.features), 2)
            require(enough, f"landmarks: returns shape {shape}, expected [landmark, feature] with the first features")
        check_env(self)

    @cached_property
    @abc.abstractmethod
    def action_counts(self) -> tuple[int, ...]:
        """How many actions each agent has; a `ConfigError` unless actions are discrete."""

    @property
    def num_agents(self) -> int:
        return len(self.action_counts)

    @property
    def num_actions(self) -> int:
        return max(self.action_counts)

    def agent_states(self, state: Wrapped) -> Float[Array, "agent feature"]:
        return jnp.asarray(self.factorise(state.inner)).astype(jnp.float32)

    def _own_actions(self) -> Bool[Array, "agent action"]:
        """True where an action exists: agents with fewer actions than others are padded."""
        return jnp.asarray(np.arange(self.num_actions)[None] < np.array(self.action_counts)[:, None])

    def _start(
        self, inner: Any, observation: Shaped[Array, "agent ..."], action_mask: Bool[Array, "agent action"]
    ) -> tuple[Wrapped, TimeStep]:
        """The state and time step of an episode's start."""
        before = Wrapped(inner=inner, total=jnp.float32(0.0))
        zero, one = jnp.float32(0.0), jnp.float32(1.0)
        return self._follow(before, inner, observation, action_mask, zero, discount=one, last=jnp.bool_(False))

    def _follow(
        self,
        before: Wrapped,
        inner: Any,
        observation: Shaped[Array, "agent ..."],
        action_mask: Bool[Array, "agent action"],
        rewards: Shaped[Array, "..."],
        *,
        discount: Float[Array, ""],
        last: Bool[Array, ""],
    ) -> tuple[Wrapped, TimeStep]:
        """The state and time step that follow `before`; `rewards` are per agent, or already the team's."""
        reward = (jnp.mean if self.team_reward == "mean" else jnp.sum)(rewards.astype(jnp.float32))
        state = Wrapped(inner=inner, total=before.total + reward)
        score = state.total if self.score is None else jnp.asarray(self.score(inner))
        return state, TimeStep(
            observation=observation,
            action_mask=action_mask,
            reward=reward,
            discount=discount,
            last=last,
            score=jnp.atleast_1d(score).astype(jnp.float32),
        )
