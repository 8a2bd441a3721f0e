"""Restrict head f of a distance to feature f, by its inputs or by a penalty on what it tells about other features.

The penalty is the conditional mutual information I(S_-f; Z_f | S_f) of a pair of agents (paper, Equation 6 and the
appendix on CMI minimisation), estimated by discriminators. The algorithm as printed diverges. This version works:
binary cross-entropy, one discriminator per feature, an encoder that minimises softplus(D(real)), and neighbours in s_f
alone.
"""

from dataclasses import dataclass
from itertools import combinations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from cooptions.discovery.representations.distance import Encoder, fill_lacking, mrn
from cooptions.envs.team import Team
from cooptions.errors import require_number, require_whole, require_widths
from cooptions.training.nn import MLP

FALL = 0.2, 0.6
"""The fractions of training between which the penalty's weight decreases."""


@dataclass(frozen=True)
class CmiConfig:
    """The penalty on conditional mutual information."""

    weight: float = 0.003
    """The final weight (the paper's value). 0 switches the penalty and its discriminators off."""
    first_weight: float = 0.1
    """The initial weight, with which heads specialise on features. It decreases between 20% and 60% of training, so
    that heads can still learn how features interact, for example at a wall with a door. The paper's weight is
    constant."""
    num_neighbours: int = 15
    learning_rate: float = 1e-3
    """The learning rate of the discriminators."""
    hidden: tuple[int, ...] = (128, 128)

    def __post_init__(self) -> None:
        require_number("cmi.weight", self.weight, at_least=0)
        require_number("cmi.first_weight", self.first_weight, above=0)
        require_number("cmi.learning_rate", self.learning_rate, at_least=0)
        require_whole("cmi.num_neighbours", self.num_neighbours)
        require_widths("cmi.hidden", self.hidden)

    @property
    def penalised(self) -> bool:
        return self.weight > 0.0

    def weight_at(self, progress: Float[Array, ""]) -> Float[Array, ""]:
        """The weight at this fraction of training, if there is a penalty."""
        begin, end = FALL
        fallen = jnp.clip((progress - begin) / (end - begin), 0.0, 1.0)
        return self.first_weight * (self.weight / self.first_weight) ** fallen


class AgentPairs(eqx.Module):
    """Two agents at the same time, as network inputs with the first one's type."""

    source: Float[Array, "pair input"]
    goal: Float[Array, "pair input"]


def agent_pairs(team: Team, joint: Shaped[Array, "batch agent feature"], *, key: PRNGKeyArray) -> AgentPairs:
    """All pairs i < j of agents in each joint state. Features that the second lacks are filled in from others."""
    first, second = np.array(list(combinations(range(team.num_agents), 2))).T
    types = np.array(team.agent_types)
    source_types, goal_types = (jnp.tile(types[agents], len(joint)) for agents in (first, second))
    sources, goals = (joint[:, agents].reshape(-1, joint.shape[-1]) for agents in (first, second))
    goals = fill_lacking(team, goals, goal_types, key=key)
    return AgentPairs(team.typed_inputs(sources, source_types), team.typed_inputs(goals, source_types))


def pair_distances(encoder: Encoder, pairs: AgentPairs) -> Float[Array, "pair head"]:
    """z = d^F(s^i, s^j)."""
    return jax.vmap(lambda source, goal: mrn(encoder(source), encoder(goal)))(pairs.source, pairs.goal)


def init_discriminators(team: Team, config: CmiConfig, *, key: PRNGKeyArray) -> MLP:
    """One network per feature, stacked. It maps a pair of states and z_f to the log-odds that they belong together."""
    keys = jax.random.split(key, len(team.features))
    return jax.vmap(lambda k: MLP([2 * team.num_typed_inputs + 1, *config.hidden, 1], key=k))(keys)


def adversarial_penalty(discriminators: MLP, pairs: AgentPairs, z: Float[Array, "pair head"]) -> Float[Array, ""]:
    """The penalty that the encoder minimises: softplus(D(real)), averaged over pairs and summed over features."""
    states = jnp.concatenate([pairs.source, pairs.goal], axis=-1)
    scores = jax.vmap(lambda discriminator, z_f: _scores(discriminator, states, z_f))(discriminators, z.T)
    return jax.nn.softplus(scores).mean(axis=1).sum()


def discriminator_loss(
    team: Team,
    config: CmiConfig,
    discriminators: MLP,
    pairs: AgentPairs,
    z: Float[Array, "pair head"],
    *,
    key: PRNGKeyArray,
) -> Float[Array, ""]:
    """Binary cross-entropy between real triplets (s_-f, s_f, z_f) and triplets with s_-f from a neighbour in s_f."""
    states = jnp.concatenate([pairs.source, pairs.goal], axis=-1)
    visible = jnp.asarray(np.tile(visible_inputs(team), 2))

    def of_feature(discriminator: MLP, visible: Array, z_f: Array, key: PRNGKeyArray) -> Float[Array, ""]:
        neighbours = random_neighbours(jnp.where(visible, states, 0.0), config.num_neighbours, key=key)
        permuted = jnp.where(visible, states, states[neighbours])
        real, fake = _scores(discriminator, states, z_f), _scores(discriminator, permuted, z_f)
        return jnp.mean(jax.nn.softplus(-real) + jax.nn.softplus(fake))

    keys = jax.random.split(key, len(team.features))
    return jax.vmap(of_feature)(discriminators, visible, jax.lax.stop_gradient(z).T, keys).sum()


def random_neighbours(points: Float[Array, "point dimension"], num: int, *, key: PRNGKeyArray) -> Array:
    """For each point, a random one of its `num` nearest other points. Ties are broken at random."""
    tie_key, choice_key = jax.random.split(key)
    squared = jnp.sum(points**2, axis=-1)
    distances = squared[:, None] + squared - 2 * points @ points.T
    distances += 1e-4 * jax.random.uniform(tie_key, distances.shape)
    nearest = jax.lax.top_k(jnp.where(jnp.eye(len(points), dtype=bool), -jnp.inf, -distances), num)[1]
    choice = jax.random.randint(choice_key, (len(points), 1), 0, num)
    return jnp.take_along_axis(nearest, choice, axis=1)[:, 0]


def _scores(discriminator: MLP, states: Float[Array, "pair input"], z: Float[Array, " pair"]) -> Float[Array, " pair"]:
    return discriminator(jnp.concatenate([states, z[:, None]], axis=-1))[:, 0]


def visible_inputs(team: Team) -> np.ndarray:
    """Bool[feature, typed_input]: the inputs that head f sees."""
    visible = np.zeros((len(team.features), team.num_typed_inputs), bool)
    visible[:, team.num_inputs :] = True
    for f, columns in enumerate(team.input_slices()):
        visible[f, columns] = True
    return visible
