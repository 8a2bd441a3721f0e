"""`hit`: the time until each feature reaches a value, from the agent's whole state (ours).

d_f(s, v) = -log E[gamma^tau], where tau >= 0 is the first time at which feature f of the agent is v. It depends on the
goal only through v. So z_f = min_v sum_i d_f(s^i, v) is disentangled by construction, and its minimum is found exactly,
without a discriminator or a Fermat encoder. It accounts for walls, because s is the whole state.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from cooptions.discovery.representations.base import REPRESENTATIONS, AbstractRepresentation
from cooptions.discovery.walks import Dataset
from cooptions.envs.team import Team
from cooptions.errors import LARGEST_BATCH, require_number, require_whole, require_widths
from cooptions.training.loop import Metrics
from cooptions.training.nn import MLP
from cooptions.types import Feature


class HitState(eqx.Module):
    """The network, whose outputs are the log-odds of E[gamma^tau], and its optimiser."""

    network: MLP
    optimiser: optax.OptState


class Window(eqx.Module):
    """The states after one state of one agent: `ahead[k]` is k + 1 steps later, in the same episode if `alive[k]`."""

    source: Shaped[Array, " feature"]
    ahead: Shaped[Array, "time feature"]
    alive: Bool[Array, " time"]
    agent: Int[Array, ""]


@REPRESENTATIONS.register("hit")
@dataclass(frozen=True)
class Hit(AbstractRepresentation[HitState]):
    """Relative representation from the hitting times of single features. The default.

    A continuous feature hits v when it comes within half a bin of v or jumps over it. The network gives log-odds at the
    bins' centres. They are interpolated in between and trained at random v, so that z is continuous.

        found = co.discover(walk, co.Hit(steps=1_000), co.Nystrom(4), key=key)
    """

    discount: float = 0.97
    cap: float = 5.0
    """Where distances level off, as -log(p (1 - exp(-cap)) + exp(-cap)). The probability of rarer hits is not known."""
    num_bins: int = 32
    """The number of bins of a continuous feature, between its `low` and `high`."""
    steps_ahead: int = 32
    """The number of steps after which targets use the estimate itself (n-step bootstrapping)."""
    batch: int = 512
    steps: int = 2500
    learning_rate: float = 3e-3
    """The initial learning rate. It decreases to 0 along a cosine."""
    hidden: tuple[int, ...] = (128, 128)

    def __post_init__(self) -> None:
        require_number("representation.discount", self.discount, above=0, below=1)
        require_number("representation.cap", self.cap, above=0)
        require_number("representation.learning_rate", self.learning_rate, at_least=0)
        for name in ("num_bins", "steps_ahead", "batch"):
            require_whole(f"representation.{name}", getattr(self, name), at_most=LARGEST_BATCH)
        require_whole("representation.steps", self.steps)
        require_widths("representation.hidden", self.hidden)

    @property
    def num_steps(self) -> int:
        return self.steps

    @property
    def of_single_agents(self) -> bool:
        return True

    def z_names(self, team: Team) -> tuple[str, ...]:
        return tuple(feature.name for feature in team.features)

    def init(self, team: Team, data: Dataset, *, key: PRNGKeyArray) -> HitState:
        num_outputs = sum(len(self.centres(feature)) for feature in team.features)
        network = MLP([team.num_typed_inputs, *self.hidden, num_outputs], key=key)
        return HitState(network, self._adam().init(network))

    def step(self, team: Team, state: HitState, data: Dataset, *, key: PRNGKeyArray) -> tuple[HitState, Metrics]:
        window_key, goal_key = jax.random.split(key)
        windows = sample_windows(data, self.batch, self.steps_ahead, key=window_key)
        goal_keys = jax.random.split(goal_key, len(team.features))
        goals = [self._random_goals(feature, key=k) for feature, k in zip(team.features, goal_keys, strict=True)]

        def loss(network: MLP) -> Float[Array, ""]:
            return jax.vmap(lambda window: self._loss(team.whole, network, window, goals))(windows).mean()

        value, gradient = jax.value_and_grad(loss)(state.network)
        updates, optimiser = self._adam().update(gradient, state.optimiser)
        return HitState(optax.apply_updates(state.network, updates), optimiser), {"loss": value}

    def encode(self, team: Team, state: HitState, agent_states: Shaped[Array, "agent feature"]) -> Float[Array, " z"]:
        return jnp.stack([total.min() for _, total in self._totals(team, state, agent_states)])

    def fermat_state(
        self, team: Team, state: HitState, agent_states: Shaped[Array, "agent feature"]
    ) -> Float[Array, " feature"]:
        """The value of each feature at which z is attained (Definition 1).

        Each value is found separately. Together they may be an impossible state, for example in a wall.
        """
        return jnp.stack([goals[total.argmin()] for goals, total in self._totals(team, state, agent_states)])

    def hit_distances(
        self,
        team: Team,
        state: HitState,
        agent_state: Shaped[Array, " feature"],
        agent_type: Int[Array | np.ndarray, ""],
        feature: int,
        goals: Float[Array, " goal"],
    ) -> Float[Array, " goal"]:
        """d_f(s, v) for the values `goals` of the feature with index `feature`."""
        log_odds = self._log_odds(team, state.network, agent_state, agent_type)[feature]
        learned = -jax.nn.log_sigmoid(self._at(team.features[feature], log_odds, goals))
        return self.capped(learned) * self._away(team.features[feature], agent_state[feature], goals)

    def value_distances(
        self,
        team: Team,
        state: HitState,
        agent_state: Shaped[Array, " feature"],
        agent_type: Int[Array | np.ndarray, ""],
    ) -> Float[Array, " value"]:
        """d_f(s, v) for all values of all features, which are discrete; 0 for features that the agent lacks."""
        has = jnp.asarray(team.type_has_feature)[agent_type]
        distances = []
        for f, feature in enumerate(team.features):
            values = jnp.asarray(self.centres(feature))
            hits = self.hit_distances(team, state, agent_state, agent_type, f, values)
            distances.append(jnp.where(has[f], hits, 0.0))
        return jnp.concatenate(distances)

    def _totals(
        self, team: Team, state: HitState, agent_states: Shaped[Array, "agent feature"]
    ) -> list[tuple[Float[Array, " goal"], Float[Array, " goal"]]]:
        """For each feature, candidate values and their summed distance from the agents that have it."""
        types = np.array(team.agent_types)
        totals = []
        for f, has in enumerate(team.has_feature.T):
            goals = jnp.asarray(self.centres(team.features[f]))
            if not team.features[f].discrete:  # with the members' own values, z is 0 if they are aligned
                goals = jnp.concatenate([goals, agent_states[np.flatnonzero(has), f]])
            distances = jax.vmap(lambda s, t, f=f, goals=goals: self.hit_distances(team, state, s, t, f, goals))
            totals.append((goals, distances(agent_states, types).sum(axis=0, where=has[:, None])))
        return totals

    def capped(self, distance: Float[Array | np.ndarray, "*batch"]) -> Float[Array, "*batch"]:
        """Distances that level off at the cap."""
        floor = np.exp(-self.cap)
        return -jnp.log(jnp.exp(-distance) * (1 - floor) + floor)

    def centres(self, feature: Feature) -> np.ndarray:
        """The values at which the network gives log-odds."""
        if feature.discrete:
            return np.arange(feature.size, dtype=np.float32)
        return np.linspace(feature.low, feature.high, 2 * self.num_bins + 1, dtype=np.float32)[1::2]

    def _loss(self, team: Team, network: MLP, window: Window, goals: list[Float[Array, " _"]]) -> Float[Array, ""]:
        """Binary cross-entropy with the target gamma^tau, or gamma^m times the estimate if m steps have no hit."""
        agent_type = jnp.asarray(team.agent_types)[window.agent]
        num_alive = window.alive.sum()
        estimates = self._log_odds(team, network, window.source, agent_type)
        later = self._log_odds(team, network, window.ahead[num_alive - 1], agent_type)
        powers = jnp.where(window.alive, self.discount ** (1.0 + jnp.arange(self.steps_ahead)), 0.0)
        losses = []
        for f, feature in enumerate(team.features):
            path = jnp.concatenate([window.source[None], window.ahead])[:, f]
            hits = jax.vmap(lambda a, b, f=f: self._hits(team.features[f], a, b, goals[f]))(path[:-1], path[1:])
            soonest = jnp.max(jnp.where(hits, powers[:, None], 0.0), axis=0)
            onward = self.discount**num_alive * jax.nn.sigmoid(self._at(feature, later[f], goals[f]))
            target = jax.lax.stop_gradient(jnp.where(soonest > 0.0, soonest, onward))
            error = optax.sigmoid_binary_cross_entropy(self._at(feature, estimates[f], goals[f]), target)
            # A hit at once has distance 0. Close to a continuous goal, the steps that follow matter: see `_away`.
            matters = self._away(feature, path[0], goals[f]) > 0.0
            losses.append(jnp.where(matters & jnp.asarray(team.has_feature)[window.agent, f], error, 0.0))
        return jnp.concatenate(losses).mean()

    def _log_odds(
        self, team: Team, network: MLP, agent_state: Shaped[Array, " feature"], agent_type: Int[Array | np.ndarray, ""]
    ) -> list[Float[Array, " _"]]:
        """For each feature, the log-odds of E[gamma^tau] at its `centres`."""
        ends = np.cumsum([len(self.centres(feature)) for feature in team.features])
        return jnp.split(network(team.typed_inputs(agent_state, agent_type)), ends[:-1])

    def _at(self, feature: Feature, log_odds: Float[Array, " centre"], goals: Float[Array, " goal"]) -> Array:
        """The log-odds at `goals`, which for a discrete feature are all its values."""
        return log_odds if feature.discrete else jnp.interp(goals, self.centres(feature), log_odds)

    def _hits(
        self, feature: Feature, before: Shaped[Array, ""], after: Shaped[Array, ""], goals: Float[Array, " goal"]
    ) -> Bool[Array, " goal"]:
        """Which goals are hit by a step from one value to another."""
        if feature.discrete:
            return after == goals
        radius = self._radius(feature)
        return (jnp.minimum(before, after) - radius <= goals) & (goals <= jnp.maximum(before, after) + radius)

    def _away(self, feature: Feature, value: Shaped[Array, ""], goals: Float[Array, " goal"]) -> Float[Array, " goal"]:
        """0 at the goal and 1 from its radius on, with a linear ramp in between for a continuous feature.

        Just outside its radius, a goal is hit after a step or more, if at all. Without the ramp, z would jump there.
        """
        if feature.discrete:
            return (value != goals).astype(jnp.float32)
        return jnp.clip(jnp.abs(value - goals) / self._radius(feature), 0.0, 1.0)

    def _radius(self, feature: Feature) -> float:
        return (feature.high - feature.low) / (2 * self.num_bins)

    def _random_goals(self, feature: Feature, *, key: PRNGKeyArray) -> Float[Array, " goal"]:
        """All values of a discrete feature, or a random value in each bin of a continuous one."""
        if feature.discrete:
            return jnp.asarray(self.centres(feature))
        edges = np.linspace(feature.low, feature.high, self.num_bins + 1)
        return jax.random.uniform(key, (self.num_bins,), minval=edges[:-1], maxval=edges[1:])

    def _adam(self) -> optax.GradientTransformation:
        return optax.adam(optax.cosine_decay_schedule(self.learning_rate, self.steps))


def sample_windows(data: Dataset, num: int, steps_ahead: int, *, key: PRNGKeyArray) -> Window:
    """Draw `num` states of single agents, with the states that follow."""
    states, next_states, last = data.walk.states, data.walk.next_states, data.walk.last
    keys = jax.random.split(key, 3)
    times, envs, agents = (
        jax.random.randint(k, (num,), 0, size) for k, size in zip(keys, states.shape[:3], strict=True)
    )

    def window(time: Int[Array, ""], env: Int[Array, ""], agent: Int[Array, ""]) -> Window:
        steps = time + jnp.arange(steps_ahead)
        inside = jnp.minimum(steps, states.shape[0] - 1)
        ended = jnp.cumsum(last[inside, env]) - last[inside, env] > 0
        alive = ~ended & (steps < states.shape[0])
        return Window(states[time, env, agent], next_states[inside, env, agent], alive, agent)

    return jax.vmap(window)(times, envs, agents)
