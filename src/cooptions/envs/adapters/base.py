"""The base class of adapters for environments of other libraries."""

import abc
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from enum import IntEnum
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

ONLY_DRAWN = {"only_drawn": True}
"""Marks fields that affect only pictures, so that they are left out of fingerprints."""


class Tile(IntEnum):
    """The kind of a map cell in pictures."""

    FREE = 0
    WALL = 1
    MARK = 2
    """Anything relevant to the task, for example dirt, a shelf, a trail or a pot."""
    GOAL = 3


class Wrapped(eqx.Module):
    """The other library's state, and the team's return so far."""

    inner: Any
    total: Float[Array, ""]


@dataclass(frozen=True)
class AbstractAdapter(AbstractEnv[Wrapped]):
    """An environment of another library as a team task. Users must provide `features` and `factorise`."""

    env: Any
    _: KW_ONLY
    features: tuple[Feature, ...] = ()
    """The features of one agent's state, in the order of `factorise`. At least one is required."""
    factorise: Callable[[Any], Any]
    """The wrapped environment's state -> [agent, feature]: one state per agent."""
    noop: int = 0
    """The action that stands still or has the least effect."""
    action_names: tuple[str, ...] = ()
    """The names of the actions, by default `action 0`, `action 1`, ..."""
    ground: str | None = None
    """A name for what agents move on. Options with relation sight fit every environment with the same one."""
    team_reward: Literal["mean", "sum"] = "mean"
    """How the agents' rewards are combined to the team's."""
    score: Callable[[Any], Any] | None = None
    """The wrapped environment's state -> [score], named by `score_names`. None uses the return so far."""
    score_names: tuple[str, ...] = ("return",)
    timed_out: Callable[[Any], Any] | None = None
    """The wrapped environment's state -> whether an episode that ends there was only cut off by a time limit. None
    uses the environment's own discount."""
    landmarks: Callable[[Any], Any] | None = field(default=None, metadata=ONLY_DRAWN)
    """The wrapped environment's state -> [landmark, feature]: positions to draw besides the agents, in the first
    features of an agent's state. NaN hides a landmark."""
    tiles: Callable[[Any], Any] | None = field(default=None, metadata=ONLY_DRAWN)
    """The wrapped environment's state -> [row, column] of `Tile`: the map to draw below the agents."""
    axes: tuple[int, int] = field(default=(0, 1), metadata=ONLY_DRAWN)
    """The indices of the features that are the row and the column of a picture."""

    def __post_init__(self) -> None:
        require(len(self.features) > 0, "features: give at least one Feature, in the order of factorise")
        require(self.team_reward in ("mean", "sum"), f"team_reward must be mean or sum, not {self.team_reward!r}")
        fewest = min(self.action_counts)
        require(0 <= self.noop < fewest, f"noop must be an action of every agent, 0 to {fewest - 1}, not {self.noop}")
        if not self.action_names:
            object.__setattr__(self, "action_names", tuple(f"action {number}" for number in range(self.num_actions)))
        state, _ = jax.eval_shape(self.reset, jax.random.key(0))
        actual = _shape(self.factorise, state)
        expected = (self.num_agents, len(self.features))
        require(actual == expected, f"factorise: returns shape {actual}, expected [agent, feature] = {expected}")
        self._check_pictures(state)
        check_env(self)

    def _check_pictures(self, state: Wrapped) -> None:
        num = len(self.features)
        if self.landmarks is not None:
            shape = _shape(self.landmarks, state)
            enough = len(shape) == 2 and shape[1] >= min(num, max(self.axes) + 1)
            require(enough, f"landmarks: returns shape {shape}, expected [landmark, feature] with the first features")
        if self.tiles is not None:
            row, column = self.axes
            fits = max(self.axes) < num and all(self.features[axis].kind == "coordinate" for axis in self.axes)
            require(
                fits, f"axes: tiles need the coordinates of a row and a column; features {row} and {column} are not"
            )
            shape, cells = _shape(self.tiles, state), (self.features[row].size, self.features[column].size)
            require(shape == cells, f"tiles: returns shape {shape}, expected [row, column] = {cells}")

    @cached_property
    @abc.abstractmethod
    def action_counts(self) -> tuple[int, ...]:
        """The number of actions of each agent. Raises `ConfigError` if actions are not discrete."""

    @property
    def num_agents(self) -> int:
        return len(self.action_counts)

    @property
    def num_actions(self) -> int:
        return max(self.action_counts)

    def agent_states(self, state: Wrapped) -> Float[Array, "agent feature"]:
        return jnp.asarray(self.factorise(state.inner)).astype(jnp.float32)

    def _own_actions(self) -> Bool[Array, "agent action"]:
        """Whether each action exists for each agent. Agents with fewer actions than others are padded."""
        return jnp.asarray(np.arange(self.num_actions)[None] < np.array(self.action_counts)[:, None])

    def _start(
        self, inner: Any, observation: Shaped[Array, "agent ..."], action_mask: Bool[Array, "agent action"]
    ) -> tuple[Wrapped, TimeStep]:
        """The state and time step at the start of an episode."""
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
        shaped_reward: Shaped[Array, ""] | float = 0.0,
    ) -> tuple[Wrapped, TimeStep]:
        """The state and time step after `before`. `rewards` are per agent, or already the team's."""
        reward = (jnp.mean if self.team_reward == "mean" else jnp.sum)(rewards.astype(jnp.float32))
        state = Wrapped(inner=inner, total=before.total + reward)
        score = state.total if self.score is None else jnp.asarray(self.score(inner))
        if self.timed_out is not None:
            discount = jnp.where(last & self.timed_out(inner), jnp.float32(1.0), discount)
        return state, TimeStep(
            observation=observation,
            action_mask=action_mask,
            reward=reward,
            discount=discount,
            last=last,
            score=jnp.atleast_1d(score).astype(jnp.float32),
            shaped_reward=jnp.asarray(shaped_reward, jnp.float32),
        )


def _shape(function: Callable[[Any], Any], state: Wrapped) -> tuple[int, ...]:
    """The shape of the result of a user's function of a state."""
    return jax.eval_shape(lambda inner: jnp.asarray(function(inner)), state.inner).shape
