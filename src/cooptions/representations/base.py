"""What a representation is: a map from the team's states to a few numbers that say how its members stand together."""

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from cooptions.envs.base import AbstractEnv
from cooptions.training import Metrics
from cooptions.types import Feature
from cooptions.walks import Dataset

State = TypeVar("State")


@dataclass(frozen=True)
class Team:
    """What discovery has to know of an environment: its agents and the features of their states."""

    features: tuple[Feature, ...]
    agent_features: tuple[tuple[bool, ...], ...]
    agent_types: tuple[int, ...]

    @classmethod
    def of(cls, env: AbstractEnv, columns: Sequence[int] | None = None) -> "Team":
        """The team of an environment, with all features or those in `columns`."""
        kept = list(range(len(env.features)) if columns is None else columns)
        rows = tuple(tuple(bool(flag) for flag in row[kept]) for row in env.agent_features)
        return cls(tuple(env.features[column] for column in kept), rows, env.agent_types)

    @property
    def num_agents(self) -> int:
        return len(self.agent_features)

    @property
    def has_feature(self) -> np.ndarray:
        """Bool[agent, feature]."""
        return np.array(self.agent_features)

    @property
    def num_types(self) -> int:
        return len(set(self.agent_types))

    @property
    def type_has_feature(self) -> np.ndarray:
        """Bool[type, feature]."""
        return np.array([self.agent_features[self.agent_types.index(kind)] for kind in range(self.num_types)])

    @property
    def num_inputs(self) -> int:
        """The width of `inputs`."""
        return self.input_slices()[-1].stop

    @property
    def num_typed_inputs(self) -> int:
        """The width of `typed_inputs`."""
        return self.num_inputs + (self.num_types if self.num_types > 1 else 0)

    def input_slices(self) -> tuple[slice, ...]:
        """Where each feature lies in the network input of `inputs`."""
        widths = [feature.size if feature.kind == "categorical" else 1 for feature in self.features]
        ends = np.cumsum(widths)
        return tuple(slice(int(end - width), int(end)) for end, width in zip(ends, widths, strict=True))

    def inputs(self, states: Shaped[Array, "*batch feature"]) -> Float[Array, "*batch input"]:
        """Single-agent states as network input: coordinates scaled to [-1, 1], categoricals one-hot."""
        columns = []
        for index, feature in enumerate(self.features):
            value = states[..., index].astype(jnp.float32)
            if feature.kind == "categorical":
                columns.append((value[..., None] == jnp.arange(feature.size)).astype(jnp.float32))
            else:
                width = max(feature.high - feature.low, 1.0) if feature.discrete else feature.high - feature.low
                columns.append((2 * (value - feature.low) / width - 1)[..., None])
        return jnp.concatenate(columns, axis=-1)

    def with_type(
        self, inputs: Float[Array, "*batch input"], types: Int[Array | np.ndarray, "*batch"]
    ) -> Float[Array, "*batch typed_input"]:
        """Append the agent's type, one-hot, in a team that has several (paper, appendix on heterogeneous states)."""
        if self.num_types == 1:
            return inputs
        one_hot = (jnp.asarray(types)[..., None] == jnp.arange(self.num_types)).astype(jnp.float32)
        return jnp.concatenate([inputs, one_hot], axis=-1)

    def typed_inputs(
        self, states: Shaped[Array, "*batch feature"], types: Int[Array | np.ndarray, "*batch"]
    ) -> Float[Array, "*batch typed_input"]:
        """`inputs`, followed by the agent's type where there are several."""
        return self.with_type(self.inputs(states), types)


class AbstractRepresentation(abc.ABC, Generic[State]):
    """A frozen dataclass of hyperparameters. All functions are for one seed.

    `z_names` names the components of z: a feature's name where the component belongs to that feature.
    """

    @property
    @abc.abstractmethod
    def num_steps(self) -> int:
        """Gradient steps of training; 0 where there is nothing to learn."""

    @abc.abstractmethod
    def z_names(self, team: Team) -> tuple[str, ...]: ...

    @abc.abstractmethod
    def init(self, team: Team, data: Dataset, *, key: PRNGKeyArray) -> State: ...

    @abc.abstractmethod
    def step(self, team: Team, state: State, data: Dataset, *, key: PRNGKeyArray) -> tuple[State, Metrics]: ...

    @abc.abstractmethod
    def encode(self, team: Team, state: State, agent_states: Shaped[Array, "agent feature"]) -> Float[Array, " z"]:
        """The relative state z of one joint state."""


@dataclass(frozen=True)
class OfTeam:
    """A representation bound to a team: what `fitting.fit` takes."""

    representation: AbstractRepresentation
    team: Team

    @property
    def num_steps(self) -> int:
        return self.representation.num_steps

    def init(self, data: Dataset, *, key: PRNGKeyArray) -> Any:
        return self.representation.init(self.team, data, key=key)

    def step(self, state: Any, data: Dataset, *, key: PRNGKeyArray) -> tuple[Any, Metrics]:
        return self.representation.step(self.team, state, data, key=key)
