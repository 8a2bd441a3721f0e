"""The contrastively learned successor distance between an agent's states (paper, Section 3.1; Myers et al. 2024).

d(s, g) = log p(g | g) - log p(g | s), where p(g | s) is the discounted occupancy of g from s. CMD-1 trains a
contrastive classifier with the logits c(g) - d(s, g), where d vanishes for s = g. Here d is an MRN (Liu et al. 2023),
which is a quasimetric by construction, and c is a free function of the goal.
"""

from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from cooptions.discovery.walks import Dataset, sample_futures
from cooptions.envs.team import Team
from cooptions.errors import WIDEST, require, require_number, require_whole, require_widths
from cooptions.training.nn import MLP


@dataclass(frozen=True)
class DistanceConfig:
    """How the successor distance is learned."""

    discount: float = 0.95
    """The discount. Futures are drawn a geometric number of steps ahead, with this parameter."""
    num_pairs: int = 128
    """The number of pairs of a state and a future per minibatch. Each is contrasted with the futures of all others."""
    hidden: tuple[int, ...] = (128, 128)
    head_size: int = 8
    """The dimension of each head's symmetric part, and of its asymmetric part."""
    norm: int = 2
    """How heads are combined into one distance: 1 for their sum (the paper's projection), 2 for the root of the sum of
    their squares. On an open grid, the distance of a random walk is nearly Euclidean. Heads of one feature each then
    fit it less well with 1 (exact answers: correlation at most 0.979 with 1, 0.994 with 2), which works against the
    penalty."""
    learning_rate: float = 1e-3
    anneal: bool = True
    """Whether the learning rate decreases to 0 along a cosine. The paper's is constant."""

    def __post_init__(self) -> None:
        require_number("distance.discount", self.discount, above=0, below=1)
        require_number("distance.learning_rate", self.learning_rate, at_least=0)
        require_whole("distance.num_pairs", self.num_pairs, at_least=2, at_most=WIDEST)
        require_whole("distance.head_size", self.head_size, at_most=WIDEST)
        require_widths("distance.hidden", self.hidden)
        require(self.norm in (1, 2), f"distance.norm must be 1 or 2, not {self.norm}")

    def adam(self, num_steps: int) -> optax.GradientTransformation:
        schedule = optax.cosine_decay_schedule(self.learning_rate, num_steps) if self.anneal else self.learning_rate
        return optax.adam(schedule)

    def whole(self, heads: Float[Array, "head *batch"]) -> Float[Array, "*batch"]:
        """Combine all heads into one distance, which is a quasimetric if they are."""
        return heads.sum(axis=0) if self.norm == 1 else _root(jnp.sum(heads**2, axis=0))


class Embedding(eqx.Module):
    """The embedding of a state in each head of an MRN. Distances are between two embeddings."""

    symmetric: Float[Array, "head dimension"]
    asymmetric: Float[Array, "head dimension"]


class Encoder(eqx.Module):
    """One network that embeds a state, given as network input, in every head of the MRN."""

    network: MLP
    head_size: int = eqx.field(static=True)

    def __init__(self, num_inputs: int, num_heads: int, config: DistanceConfig, *, key: PRNGKeyArray) -> None:
        self.network = MLP([num_inputs, *config.hidden, num_heads * 2 * config.head_size], key=key)
        self.head_size = config.head_size

    def __call__(self, inputs: Float[Array, " input"]) -> Embedding:
        parts = self.network(inputs).reshape(-1, 2, self.head_size)
        return Embedding(parts[:, 0], parts[:, 1])


class SuccessorDistance(eqx.Module):
    """The MRN d, with F heads and their weights, and the potential c(g), which only training uses."""

    encoder: Encoder
    potential: MLP
    raw_weights: Float[Array, " head"]

    def __init__(self, team: Team, num_heads: int, config: DistanceConfig, *, key: PRNGKeyArray) -> None:
        encoder_key, potential_key = jax.random.split(key)
        self.encoder = Encoder(team.num_typed_inputs, num_heads, config, key=encoder_key)
        self.potential = MLP([team.num_typed_inputs, *config.hidden, 1], key=potential_key)
        self.raw_weights = jnp.full(num_heads, np.log(np.expm1(1.0)), jnp.float32)

    @property
    def weights(self) -> Float[Array, " head"]:
        """The positive weights of the heads, initially 1."""
        return jax.nn.softplus(self.raw_weights)

    def type_weights(self, team: Team) -> Float[Array, "type head"]:
        """The weights for agents of each type; 0 if a head belongs to a feature that they lack."""
        return self.weights * team.type_has_head(self.raw_weights.size)

    def loss(self, team: Team, config: DistanceConfig, pairs: "Pairs") -> Float[Array, ""]:
        return contrastive_loss(team, config, self.encoder, self.type_weights(team), self.potential, pairs)

    def __call__(
        self,
        team: Team,
        source: Shaped[Array, " feature"],
        goal: Shaped[Array, " feature"],
        agent_type: Int[Array | np.ndarray, ""],
    ) -> Float[Array, " head"]:
        """The weighted heads in nats, which `DistanceConfig.whole` combines into d(s, g)."""
        ends = [self.encoder(team.typed_inputs(end, agent_type)) for end in (source, goal)]
        return self.type_weights(team)[agent_type] * mrn(*ends)


class Pairs(eqx.Module):
    """States with a future each, and the type of their agent. Values that a goal lacks are filled in."""

    source: Shaped[Array, "pair feature"]
    goal: Shaped[Array, "pair feature"]
    type: Int[Array, " pair"]


def mrn(source: Embedding, goal: Embedding) -> Float[Array, " head"]:
    """|| g(s) - g(g) || + max_i relu(h_i(s) - h_i(g)) in each head. This is a quasimetric: 0 between equal states."""
    return _mrn(source.symmetric - goal.symmetric, source.asymmetric - goal.asymmetric, axis=-1)


def pairwise_mrn(sources: Embedding, goals: Embedding) -> Float[Array, "head source goal"]:
    """`mrn` between all sources and all goals, each batched on its leading axis.

    Not vmapped, because with states on the last axes it is several times faster on a CPU.
    """

    def differences(left: Float[Array, "source head dim"], right: Float[Array, "goal head dim"]) -> Array:
        return left.transpose(1, 2, 0)[:, :, :, None] - right.transpose(1, 2, 0)[:, :, None, :]

    symmetric = differences(sources.symmetric, goals.symmetric)
    return _mrn(symmetric, differences(sources.asymmetric, goals.asymmetric), axis=1)


def _mrn(symmetric: Array, asymmetric: Array, *, axis: int) -> Array:
    return _root(jnp.sum(symmetric**2, axis=axis)) + jax.nn.relu(jnp.max(asymmetric, axis=axis))


def _root(squared: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """The square root, with gradient 0 at 0."""
    return jnp.where(squared > 0.0, jnp.sqrt(jnp.where(squared > 0.0, squared, 1.0)), 0.0)


def symmetric_infonce(logits: Float[Array, "pair pair"]) -> Float[Array, ""]:
    """Symmetrised InfoNCE without resubstitution: the normalisers leave out the positives on the diagonal."""
    num_pairs = len(logits)
    negatives = jnp.where(jnp.eye(num_pairs, dtype=bool), -jnp.inf, logits)
    normalisers = jax.nn.logsumexp(negatives, axis=0) + jax.nn.logsumexp(negatives, axis=1)
    return jnp.mean(normalisers / 2 - jnp.diag(logits)) - jnp.log(num_pairs - 1.0)


def sample_pairs(team: Team, data: Dataset, config: DistanceConfig, *, key: PRNGKeyArray) -> Pairs:
    """Draw futures. If an agent's type lacks a feature, its goal takes the value of a random goal that has it.

    The distance then learns that such a feature has no information (paper, appendix on heterogeneous state spaces).
    """
    future_key, fill_key = jax.random.split(key)
    futures = sample_futures(data, config.num_pairs, config.discount, key=future_key)
    types = jnp.asarray(team.agent_types)[futures.agent]
    return Pairs(futures.source, fill_lacking(team, futures.goal, types, key=fill_key), types)


def fill_lacking(
    team: Team, states: Shaped[Array, "state feature"], types: Int[Array, " state"], *, key: PRNGKeyArray
) -> Shaped[Array, "state feature"]:
    """Replace each feature that a state's type lacks by that of a random state that has it."""
    if team.type_has_feature.all():
        return states
    has = jnp.asarray(team.type_has_feature)[types]
    owners_first = jnp.argsort(~has, axis=0, stable=True)
    nth = jax.random.randint(key, states.shape, 0, jnp.maximum(has.sum(axis=0), 1))
    donors = jnp.take_along_axis(owners_first, nth, axis=0)
    return jnp.where(has, states, jnp.take_along_axis(states, donors, axis=0))


def contrastive_loss(
    team: Team,
    config: DistanceConfig,
    embed: Callable[[Float[Array, " input"]], Embedding],
    weights: Float[Array, "type head"],
    potential: Callable[[Float[Array, " input"]], Float[Array, " 1"]],
    pairs: Pairs,
) -> Float[Array, ""]:
    """The InfoNCE loss of the logits c(g) - d(s, g), where d combines the weighted heads.

    All networks see the type of the source's agent, also for goals of other pairs. Goals are embedded once per type.
    """
    sources = jax.vmap(embed)(team.typed_inputs(pairs.source, pairs.type))

    def logits_of_type(kind: Int[Array, ""], weights: Float[Array, " head"]) -> Float[Array, "pair pair"]:
        inputs = team.typed_inputs(pairs.goal, jnp.broadcast_to(kind, pairs.type.shape))
        distances = pairwise_mrn(sources, jax.vmap(embed)(inputs))
        return jax.vmap(potential)(inputs)[:, 0] - config.whole(weights[:, None, None] * distances)

    logits = jax.vmap(logits_of_type)(jnp.arange(team.num_types), weights)
    return symmetric_infonce(logits[pairs.type, jnp.arange(len(pairs.type))])
