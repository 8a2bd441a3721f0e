"""The interface of representations: maps from the team's states to a few numbers that describe relations in it."""

import abc
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from cooptions.discovery.walks import Dataset
from cooptions.envs.team import Team
from cooptions.parts import Registry
from cooptions.training.loop import Metrics

State = TypeVar("State")


class AbstractRepresentation(abc.ABC, Generic[State]):
    """A frozen dataclass of hyperparameters. All functions are for one seed.

    `z_names` names the components of z. A component that belongs to a feature has that feature's name. `team` is the
    team whose z it is. It may be a sub-team of the team that walked, `team.whole`. Data is always of the whole team.
    """

    @property
    @abc.abstractmethod
    def num_steps(self) -> int:
        """The number of gradient steps; 0 if nothing is learned."""

    @property
    def scaled(self) -> bool:
        """Whether the components of z already have one scale. Otherwise they are standardised."""
        return False

    @property
    def of_single_agents(self) -> bool:
        """Whether it learns about single agents only, so that it can be used for sub-teams of every size."""
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


REPRESENTATIONS: Registry[type[AbstractRepresentation]] = Registry(
    "representation", "cooptions.discovery.representations", AbstractRepresentation
)
"""Representations by name. Each registers itself in its own file."""


def informative(
    z: Float[Array, "sample z"],
    next_z: Float[Array, "sample z"],
    *,
    max_change: float = 0.5,
    min_share: float = 0.01,
) -> Bool[Array, " z"]:
    """Which components of z should be standardised, given z before and after transitions. The others are set to 0.

    A component is left out if it hardly varies (a feature that no two agents share), or if it decorrelates within a
    step. E[(z' - z)^2] / (2 Var z) is 0.89 for the orientation in Overcooked, and at most 0.1 for all else there. The
    standard deviation does not show this: that of the orientation is still a tenth of the largest.
    """
    deviation = z.std(axis=0)
    varies = deviation > jnp.maximum(min_share * deviation.max(), 1e-6)
    change = jnp.mean((next_z - z) ** 2, axis=0) / (2 * jnp.where(varies, deviation, 1.0) ** 2)
    return varies & (change <= max_change)


@dataclass(frozen=True)
class OfTeam:
    """A representation bound to a team, as `fitting.fit` needs it."""

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
    """A representation that finds the state with the smallest summed distance to the team (Definition 1)."""

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
    """A representation with z_f = min over v of the sum over the agents of d_f(s^i, v), for discrete features."""

    def value_distances(
        self,
        team: Team,
        state: Any,
        agent_state: Shaped[Array, " feature"],
        agent_type: Int[Array | np.ndarray, ""],
    ) -> Float[Array, " value"]:
        """d_f(s, v) for all values v of all features, concatenated; 0 for features that the agent lacks."""
        ...
