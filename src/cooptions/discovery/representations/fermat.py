"""The Fermat encoder, from the team's states to the state with the smallest summed distance (paper, Equation 4)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from cooptions.discovery.representations.distance import Embedding, SuccessorDistance, mrn
from cooptions.envs.team import Team
from cooptions.errors import LARGEST_BATCH, require, require_whole, require_widths
from cooptions.training.nn import MLP


@dataclass(frozen=True)
class FermatConfig:
    """How the Fermat encoder is learned."""

    power: int = 1
    """The power of the distances in the loss. 1 finds the Fermat point of Definition 1, 2 (the paper's) the mean."""
    categorical: Literal["softmax", "straight_through"] = "straight_through"
    """Categorical outputs: probabilities, or the most likely value with the gradient of the probabilities."""
    hidden: tuple[int, ...] = (128, 128)
    batch: int = 100
    """The number of joint states in a minibatch."""

    def __post_init__(self) -> None:
        require(self.power in (1, 2), f"fermat.power must be 1 or 2, not {self.power}")
        require_whole("fermat.batch", self.batch, at_most=LARGEST_BATCH)
        require_widths("fermat.hidden", self.hidden)


class FermatEncoder(eqx.Module):
    """phi: maps the agents' concatenated states to one state, as network input and always within its bounds."""

    network: MLP
    straight_through: bool = eqx.field(static=True)

    def __init__(self, team: Team, config: FermatConfig, *, key: PRNGKeyArray) -> None:
        self.network = MLP([team.num_agents * team.num_typed_inputs, *config.hidden, team.num_inputs], key=key)
        self.straight_through = config.categorical == "straight_through"

    def __call__(self, team: Team, agent_states: Shaped[Array, "agent feature"]) -> Float[Array, " input"]:
        outputs = self.network(team.typed_inputs(agent_states, np.array(team.agent_types)).reshape(-1))
        parts = []
        for feature, columns in zip(team.features, team.input_slices(), strict=True):
            bounded = jax.nn.softmax if feature.kind == "categorical" else jnp.tanh
            value = bounded(outputs[columns])
            if feature.kind == "categorical" and self.straight_through:
                likeliest = (jnp.arange(feature.size) == value.argmax()).astype(value.dtype)
                value += jax.lax.stop_gradient(likeliest - value)
            parts.append(value)
        return jnp.concatenate(parts)

    def state(self, team: Team, agent_states: Shaped[Array, "agent feature"]) -> Float[Array, " feature"]:
        """phi as a state: the most likely values of categorical features, all others in their own units."""
        point = self(team, agent_states)
        values = []
        for feature, columns in zip(team.features, team.input_slices(), strict=True):
            if feature.kind == "categorical":
                values.append(point[columns].argmax().astype(jnp.float32))
            else:
                values.append(feature.low + (point[columns][0] + 1) / 2 * (feature.high - feature.low))
        return jnp.stack(values)


def agent_distances(
    team: Team,
    embed: Callable[[Float[Array, " input"]], Embedding],
    fermat: FermatEncoder,
    agent_states: Shaped[Array, "agent feature"],
) -> Float[Array, "agent head"]:
    """The distance from each agent to the Fermat state, the second argument (Section 3.1); 0 in heads that it lacks."""
    types = np.array(team.agent_types)
    point = fermat(team, agent_states)
    kinds = np.arange(team.num_types)
    goals = jax.vmap(embed)(team.with_type(jnp.broadcast_to(point, (len(kinds), *point.shape)), kinds))
    sources = jax.vmap(embed)(team.typed_inputs(agent_states, types))
    distances = jax.vmap(mrn)(sources, jax.tree.map(lambda x: x[types], goals))
    return jnp.where(team.type_has_head(distances.shape[1])[types], distances, 0.0)


def fermat_loss(
    team: Team,
    config: FermatConfig,
    fermat: FermatEncoder,
    distance: SuccessorDistance,
    joint: Shaped[Array, "batch agent feature"],
) -> Float[Array, ""]:
    """Equation 4, with the unweighted sum of the heads. It trains only the Fermat encoder, not the distance."""
    fixed = jax.tree.map(jax.lax.stop_gradient, distance.encoder)
    distances = jax.vmap(lambda states: agent_distances(team, fixed, fermat, states))(joint)
    return jnp.mean(distances.sum(axis=-1) ** config.power)


def n_distance(
    team: Team, distance: SuccessorDistance, fermat: FermatEncoder, agent_states: Shaped[Array, "agent feature"]
) -> Float[Array, " head"]:
    """z: in each head, the distance to the Fermat state, summed over the agents.

    Each head has its weight in the overall distance, so that the spreads are comparable. A head that applies to a
    single agent is 0, because that agent is always aligned with itself.
    """
    total = distance.weights * agent_distances(team, distance.encoder, fermat, agent_states).sum(axis=0)
    has_head = team.type_has_head(total.size)[np.array(team.agent_types)]
    return jnp.where(has_head.sum(axis=0) >= 2, total, 0.0)
