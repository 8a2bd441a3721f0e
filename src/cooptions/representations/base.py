"""What a representation is: a map from the team's states to a few numbers that say how its members stand together."""

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

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
    def type_has_input(self) -> np.ndarray:
        """Bool[type, input]."""
        widths = [columns.stop - columns.start for columns in self.input_slices()]
        return np.repeat(self.type_has_feature, widths, axis=1)

    def type_has_head(self, num_heads: int) -> np.ndarray:
        """Bool[type, head]: a head for each feature counts for those that have it; a single one, for all."""
        if num_heads == len(self.features):
            return self.type_has_feature
        return np.ones((self.num_types, num_heads), bool)

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
        """As agents of these types see them: what they lack is 0, and the type follows, one-hot, if there are several.

        Both are for heterogeneous teams (paper, appendix on heterogeneous state spaces).
        """
        if self.num_types > 1 or not self.type_has_feature.all():
            inputs = jnp.where(jnp.asarray(self.type_has_input)[types], inputs, 0.0)
        if self.num_types > 1:
            one_hot = (jnp.asarray(types)[..., None] == jnp.arange(self.num_types)).astype(jnp.float32)
            inputs = jnp.concatenate([inputs, one_hot], axis=-1)
        return inputs

    def typed_inputs(
        self, states: Shaped[Array, "*batch feature"], types: Int[Array | np.ndarray, "*batch"]
    ) -> Float[Array, "*batch typed_input"]:
        """`inputs`, as agents of these types see them."""
        return self.with_type(self.inputs(states), types)


class AbstractRepresentation(abc.ABC, Generic[State]):
    """A frozen dataclass of hyperparameters. All functions are for one seed.

    `z_names` names the components of z: a feature's name where the component belongs to that feature.
    """

    @property
    @abc.abstractmethod
    def num_steps(self) -> int:
        """Gradient steps of training; 0 where there is nothing to learn."""

    @property
    def scaled(self) -> bool:
        """Whether the components of z are on one scale already; they are standardised where not."""
        return False

    @abc.abstractmethod
    def z_names(self, team: Team) -> tuple[str, ...]: ...

    @abc.abstractmethod
    def init(self, team: Team, data: Dataset, *, key: PRNGKeyArray) -> State: ...

    @abc.abstractmethod
    def step(self, team: Team, state: State, data: Dataset, *, key: PRNGKeyArray) -> tuple[State, Metrics]: ...

    @abc.abstractmethod
    def encode(self, team: Team, state: State, agent_states: Shaped[Array, "agent feature"]) -> Float[Array, " z"]:
        """The relative state z of one joint state."""


def informative(
    z: Float[Array, "sample z"],
    next_z: Float[Array, "sample z"],
    *,
    max_change: float = 0.5,
    min_share: float = 0.01,
) -> Bool[Array, " z"]:
    """Which components of z are worth standardising, given z before and after transitions; set the others to 0.

    A component is left out if it hardly varies (a feature that no two agents share), or if it forgets itself within
    a step: E[(z' - z)^2] / (2 Var z) is 0.89 for the orientation in Overcooked, and at most 0.1 for all else there.
    Its deviation would not tell: that is still a tenth of the largest.
    """
    deviation = z.std(axis=0)
    varies = deviation > jnp.maximum(min_share * deviation.max(), 1e-6)
    change = jnp.mean((next_z - z) ** 2, axis=0) / (2 * jnp.where(varies, deviation, 1.0) ** 2)
    return varies & (change <= max_change)


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


@runtime_checkable
class MeasuresPairs(Protocol):
    """A representation with a distance d(s, g) between two states of an agent."""

    def pair_distance(
        self,
        team: Team,
        state: Any,
        source: Shaped[Array, " feature"],
        goal: Shaped[Array, " feature"],
        agent_type: Int[Array | np.ndarray, ""],
    ) -> Float[Array, ""]: ...


@runtime_checkable
class FindsFermat(Protocol):
    """A representation that knows the state of least summed distance to the team (Definition 1)."""

    def fermat_state(
        self, team: Team, state: Any, agent_states: Shaped[Array, "agent feature"]
    ) -> Float[Array, " feature"]: ...


@runtime_checkable
class MeasuresHits(Protocol):
    """A representation with a distance from a whole state to a value of one feature."""

    def hit_distances(
        self,
        team: Team,
        state: Any,
        agent_state: Shaped[Array, " feature"],
        agent_type: Int[Array | np.ndarray, ""],
        feature: int,
        goals: Float[Array, " goal"],
    ) -> Float[Array, " goal"]: ...


@runtime_checkable
class AddsUp(Protocol):
    """A representation with z_f = min over v of the sum of d_f(s^i, v) over the agents, where features are discrete."""

    def value_distances(
        self,
        team: Team,
        state: Any,
        agent_state: Shaped[Array, " feature"],
        agent_type: Int[Array | np.ndarray, ""],
    ) -> Float[Array, " value"]:
        """d_f(s, v) for all values v of all features, one feature after the other; 0 for features the agent lacks."""
        ...
