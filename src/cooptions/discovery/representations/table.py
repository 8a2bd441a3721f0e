"""z of many joint states by table lookup, for teams whose features are all discrete.

There are few single-agent states (225 on a 15x15 grid) but many joint states. Each network runs once per single-agent
state.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from cooptions.discovery.representations.base import AbstractRepresentation, AddsUp
from cooptions.envs.team import Team

MAX_STATES = 2**16
"""The maximum number of single-agent states in a table. With more, joint states are encoded one by one."""


def has_table(representation: AbstractRepresentation, team: Team) -> bool:
    """Whether z is a minimum of sums over the agents, all features are discrete, and the table is not too large."""
    discrete = all(feature.discrete for feature in team.features)
    return isinstance(representation, AddsUp) and discrete and math.prod(_sizes(team)) <= MAX_STATES


class Table(eqx.Module):
    """d_f(s, v) from every single-agent state s of every type to all values v of all features, concatenated."""

    distances: Float[Array, "type state value"]
    team: Team = eqx.field(static=True)

    @classmethod
    def of(cls, representation: AddsUp, team: Team, state: Any) -> "Table":
        states = jnp.stack(jnp.meshgrid(*map(jnp.arange, _sizes(team)), indexing="ij"), axis=-1)
        rows = states.reshape(-1, len(team.features))

        def of_type(kind: Array) -> Float[Array, "state value"]:
            return jax.vmap(lambda row: representation.value_distances(team, state, row, kind))(rows)

        return cls(jax.vmap(of_type)(jnp.arange(team.num_types)), team)

    def __call__(self, agent_states: Shaped[Array, "agent feature"]) -> Float[Array, " z"]:
        """z, as `encode` of the underlying representation gives it."""
        sizes = _sizes(self.team)
        strides = jnp.asarray(np.cumprod([1, *sizes[:0:-1]])[::-1])
        rows = agent_states.astype(jnp.int32) @ strides
        totals = self.distances[np.array(self.team.agent_types), rows].sum(axis=0)
        return jnp.stack([part.min() for part in jnp.split(totals, np.cumsum(sizes)[:-1])])


def _sizes(team: Team) -> list[int]:
    return [feature.size for feature in team.features]
