"""`mask`: one distance per feature, which sees only that feature (ours).

d(s, g) combines d_f(s_f, g_f), so z_f has no information about other features, without a discriminator. The Fermat
state is searched in each feature separately, without a Fermat encoder; for discrete features, this is exact. This
representation cannot express how features interact, for example that a wall makes the way along x longer for some y.
"""

from dataclasses import dataclass, field

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from cooptions.discovery.representations.base import REPRESENTATIONS, AbstractRepresentation
from cooptions.discovery.representations.disentangle import visible_inputs
from cooptions.discovery.representations.distance import (
    DistanceConfig,
    Embedding,
    Encoder,
    contrastive_loss,
    mrn,
    sample_pairs,
)
from cooptions.discovery.walks import Dataset
from cooptions.envs.team import Team
from cooptions.errors import LARGEST_BATCH, require_whole
from cooptions.training.loop import Metrics
from cooptions.training.nn import MLP
from cooptions.types import Feature


class MaskedDistance(eqx.Module):
    """One encoder per feature, stacked, and the potential c(g), which may see the whole goal. Only training uses it."""

    encoders: Encoder
    potential: MLP

    def __init__(self, team: Team, config: DistanceConfig, *, key: PRNGKeyArray) -> None:
        encoder_key, potential_key = jax.random.split(key)
        keys = jax.random.split(encoder_key, len(team.features))
        self.encoders = jax.vmap(lambda k: Encoder(team.num_typed_inputs, 1, config, key=k))(keys)
        self.potential = MLP([team.num_typed_inputs, *config.hidden, 1], key=potential_key)

    def embed(self, team: Team, inputs: Float[Array, " input"]) -> Embedding:
        """Embed a state: head f sees feature f and the agent's type."""
        masked = jnp.where(visible_inputs(team), inputs, 0.0)
        heads = jax.vmap(lambda encoder, x: encoder(x))(self.encoders, masked)
        return jax.tree.map(lambda x: x[:, 0], heads)

    def embed_values(self, team: Team, feature: int, values: Float[Array, " value"]) -> Embedding:
        """Embed values of one feature in its head, for agents of each type: [type, value, 1, dimension]."""
        states = jnp.zeros((len(values), len(team.features))).at[:, feature].set(values)
        kinds = jnp.repeat(jnp.arange(team.num_types), len(values)).reshape(team.num_types, -1)
        inputs = team.typed_inputs(jnp.broadcast_to(states, (team.num_types, *states.shape)), kinds)
        heads = jax.vmap(jax.vmap(lambda x: self.embed(team, x)))(inputs)
        return jax.tree.map(lambda x: x[:, :, feature : feature + 1], heads)


class MaskState(eqx.Module):
    """The distance and its optimiser."""

    distance: MaskedDistance
    optimiser: optax.OptState


@REPRESENTATIONS.register("mask")
@dataclass(frozen=True)
class Mask(AbstractRepresentation[MaskState]):
    """Relative representation from successor distances, one per feature, whose head sees only that feature.

    A head cannot leak what it does not see into its component of z, so no penalty is needed.

        found = co.discover(walk, co.Mask(steps=1_000), co.Nystrom(4), key=key)
    """

    distance: DistanceConfig = field(
        default_factory=lambda: DistanceConfig(num_pairs=128, hidden=(64, 64), norm=1, learning_rate=3e-3)
    )
    """With `norm=2`, d is more accurate (correlation with the exact one 0.992 instead of 0.973 on an open grid), but z
    follows spreads slightly less well."""
    steps: int = 3000
    num_candidates: int = 65
    """The number of values at which the Fermat value of a continuous feature is searched, besides the agents' own
    values."""

    def __post_init__(self) -> None:
        require_whole("representation.steps", self.steps)
        require_whole("representation.num_candidates", self.num_candidates, at_least=2, at_most=LARGEST_BATCH)

    @property
    def num_steps(self) -> int:
        return self.steps

    @property
    def of_single_agents(self) -> bool:
        return True

    def z_names(self, team: Team) -> tuple[str, ...]:
        return tuple(feature.name for feature in team.features)

    def init(self, team: Team, data: Dataset, *, key: PRNGKeyArray) -> MaskState:
        distance = MaskedDistance(team, self.distance, key=key)
        return MaskState(distance, self.distance.adam(self.steps).init(distance))

    def step(self, team: Team, state: MaskState, data: Dataset, *, key: PRNGKeyArray) -> tuple[MaskState, Metrics]:
        pairs = sample_pairs(team.whole, data, self.distance, key=key)
        weights = jnp.asarray(team.type_has_feature, jnp.float32)

        def loss(distance: MaskedDistance) -> Float[Array, ""]:
            return contrastive_loss(
                team, self.distance, lambda x: distance.embed(team, x), weights, distance.potential, pairs
            )

        value, gradient = jax.value_and_grad(loss)(state.distance)
        updates, optimiser = self.distance.adam(self.steps).update(gradient, state.optimiser)
        return MaskState(optax.apply_updates(state.distance, updates), optimiser), {"contrastive_loss": value}

    def encode(self, team: Team, state: MaskState, agent_states: Shaped[Array, "agent feature"]) -> Float[Array, " z"]:
        totals = self._totals(team, state, agent_states)
        return jnp.stack([total.min() for _, total in totals])

    def fermat_state(
        self, team: Team, state: MaskState, agent_states: Shaped[Array, "agent feature"]
    ) -> Float[Array, " feature"]:
        """The value of each feature with the smallest summed distance to the agents (Definition 1)."""
        totals = self._totals(team, state, agent_states)
        return jnp.stack([candidates[total.argmin()] for candidates, total in totals])

    def pair_distance(
        self,
        team: Team,
        state: MaskState,
        source: Shaped[Array, " feature"],
        goal: Shaped[Array, " feature"],
        agent_type: Int[Array | np.ndarray, ""],
    ) -> Float[Array, ""]:
        """d(s, g), over the features that the agent has."""
        ends = [state.distance.embed(team, team.typed_inputs(end, agent_type)) for end in (source, goal)]
        return self.distance.whole(jnp.where(jnp.asarray(team.type_has_feature)[agent_type], mrn(*ends), 0.0))

    def value_distances(
        self,
        team: Team,
        state: MaskState,
        agent_state: Shaped[Array, " feature"],
        agent_type: Int[Array | np.ndarray, ""],
    ) -> Float[Array, " value"]:
        """d_f(s, v) for all values of all features, which are discrete; 0 for features that the agent lacks."""
        has = jnp.asarray(team.type_has_feature)[agent_type]
        source = state.distance.embed(team, team.typed_inputs(agent_state, agent_type))
        distances = []
        for f, feature in enumerate(team.features):
            goals = state.distance.embed_values(team, f, jnp.arange(feature.size, dtype=jnp.float32))
            distances.append(jnp.where(has[f], _head_distances(source, goals, agent_type, f), 0.0))
        return jnp.concatenate(distances)

    def _totals(
        self, team: Team, state: MaskState, agent_states: Shaped[Array, "agent feature"]
    ) -> list[tuple[Float[Array, " candidate"], Float[Array, " candidate"]]]:
        """For each feature, candidate values and their summed distance from the agents that have it."""
        types = np.array(team.agent_types)
        sources = jax.vmap(lambda x: state.distance.embed(team, x))(team.typed_inputs(agent_states, types))
        totals = []
        for f, has in enumerate(team.has_feature.T):
            candidates = self._candidates(team.features[f], agent_states[np.flatnonzero(has), f])
            goals = state.distance.embed_values(team, f, candidates)
            distances = jax.vmap(lambda s, t, f=f, goals=goals: _head_distances(s, goals, t, f))(sources, types)
            totals.append((candidates, jnp.sum(distances, axis=0, where=has[:, None])))
        return totals

    def _candidates(self, feature: Feature, own: Shaped[Array, " agent"]) -> Float[Array, " candidate"]:
        """The candidates for the Fermat value: all values, or a grid and the agents' own values if it is continuous."""
        if feature.discrete:
            return jnp.arange(feature.size, dtype=jnp.float32)
        return jnp.concatenate([jnp.linspace(feature.low, feature.high, self.num_candidates), own])


def _head_distances(
    source: Embedding, goals: Embedding, agent_type: Int[Array | np.ndarray, ""], feature: int
) -> Float[Array, " candidate"]:
    """d_f from one agent's state to each candidate, embedded for the agent's type."""
    source = jax.tree.map(lambda x: x[feature : feature + 1], source)
    goals = jax.tree.map(lambda x: x[agent_type], goals)
    return jax.vmap(lambda goal: mrn(source, goal)[0])(goals)
