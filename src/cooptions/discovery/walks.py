"""Random joint walks: the data that discovery learns from."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, Shaped

from cooptions.envs.base import AbstractEnv
from cooptions.envs.rollout import Runners, advance, start, uniform_action
from cooptions.envs.team import Team
from cooptions.errors import Interrupted, require, require_whole
from cooptions.training.keys import stage_key
from cooptions.training.memory import require_room
from cooptions.training.progress import Progress
from cooptions.training.signals import StopSignals
from cooptions.types import Feature, TimeStep, strongly_typed

Policy = Callable[[TimeStep, PRNGKeyArray], Int[Array, "env agent"]]


NUM_CHUNKS = 10
"""The number of parts in which a walk is made, with progress after each. A large walk has more parts."""
CHUNK_TRANSITIONS = 200_000
"""The maximum number of transitions of a part, over all seeds. A part takes some seconds on a small machine. Signals
are handled only after a part."""


@dataclass(frozen=True)
class WalkConfig:
    """The settings of a random walk of the team."""

    transitions: int = 500_000
    """The number of joint transitions in the data set. The default is the paper's."""
    num_envs: int = 100
    """The number of parallel environments. `transitions` must be a multiple of it."""
    features: tuple[str, ...] = ()
    """The names of the agents' features to keep. Empty keeps all."""

    def __post_init__(self) -> None:
        require_whole("walk.transitions", self.transitions, at_most=10**12)
        require_whole("walk.num_envs", self.num_envs)
        require(
            len(set(self.features)) == len(self.features), f"walk.features: {', '.join(self.features)}: one is twice"
        )
        require(
            self.transitions % self.num_envs == 0,
            f"walk.transitions ({self.transitions}) must be a multiple of walk.num_envs ({self.num_envs})",
        )

    @property
    def shape(self) -> tuple[int, int]:
        """The number of steps, and of parallel environments."""
        return self.transitions // self.num_envs, self.num_envs


class Walk(eqx.Module):
    """Single-agent states before and after each joint transition. `last` marks the end of an episode.

    At the end of an episode, `next_states` has its final state, and the next row of `states` has a new start.
    """

    states: Shaped[Array | np.ndarray, "*batch env agent feature"]
    next_states: Shaped[Array | np.ndarray, "*batch env agent feature"]
    last: Bool[Array | np.ndarray, "*batch env"]
    votes: Int[Array | np.ndarray, "*batch env agent"] | None = None
    """The joint option that each agent voted for, or -1 for a primitive action. None without options."""
    team: Team | None = eqx.field(static=True, default=None)
    """The team that walked, with the features that were kept."""


class Extent(eqx.Module):
    """The minimum and maximum of every feature in a walk, and the largest distance of its values from whole numbers."""

    low: Float[Array | np.ndarray, "*batch feature"]
    high: Float[Array | np.ndarray, "*batch feature"]
    fraction: Float[Array | np.ndarray, "*batch feature"]

    @classmethod
    def of(cls, states: Float[Array, "env agent feature"], has: Bool[np.ndarray, "agent feature"]) -> "Extent":
        """The extent of some states, without the features that agents lack."""
        low = jnp.where(has, states, jnp.inf).min(axis=(0, 1))
        high = jnp.where(has, states, -jnp.inf).max(axis=(0, 1))
        return cls(low, high, jnp.where(has, jnp.abs(states - jnp.round(states)), 0.0).max(axis=(0, 1)))

    def whole(self) -> "Extent":
        """The extent over the whole batch."""
        axes = tuple(range(self.low.ndim - 1))
        return Extent(self.low.min(axis=axes), self.high.max(axis=axes), self.fraction.max(axis=axes))


class Dataset(eqx.Module):
    """A walk with an index, from which futures are drawn without a search."""

    walk: Walk
    by_remaining: Int[Array | np.ndarray, "*seed transition"]
    """Transitions, flattened over time and env, in descending order of the states left in their episode."""
    num_with: Int[Array | np.ndarray, "*seed horizon"]
    """Entry k: the number of transitions with at least k more states ahead of them in their episode. The number of
    entries depends only on the size of the walk, so that walks of one size share their programs."""
    horizon: Int[Array | np.ndarray, "*seed"]
    """The number of these entries that are not 0 in the walk with the longest episode; the same for all seeds."""


def random_policy(timestep: TimeStep, key: PRNGKeyArray) -> Int[Array, "env agent"]:
    """Draw uniformly among each agent's available actions."""
    return uniform_action(timestep.action_mask, key=key)


def kept_columns(env: AbstractEnv, config: WalkConfig) -> tuple[int, ...]:
    """The indices in an agent's state of the features to keep."""
    names = [feature.name for feature in env.features]
    for name in config.features:
        require(name in names, f"walk.features: unknown feature {name!r}; there are {', '.join(names)}")
    return tuple(names.index(name) for name in config.features or names)


def compact_dtype(features: tuple[Feature, ...]) -> type:
    """The smallest dtype that holds every feature exactly."""
    if all(feature.discrete for feature in features):
        return np.min_scalar_type(max(feature.size for feature in features) - 1).type
    return np.float32


def votes_of(env: AbstractEnv, action: Int[Array, "env agent"]) -> Int[Array, "env agent"] | None:
    """The option that each agent's action votes for, or -1 for none. None if the environment has no options."""
    if env.num_options == 0:
        return None
    return jnp.maximum(action - (env.num_actions - env.num_options), -1).astype(jnp.int16)


def walk(
    env: AbstractEnv,
    transitions: int = 500_000,
    *,
    num_envs: int = 100,
    features: Sequence[str] = (),
    policy: Policy = random_policy,
    key: PRNGKeyArray,
    progress: Progress | bool = False,
) -> Walk:
    """Record `transitions` joint transitions of a team that acts at random. Discovery learns from the result.

    `features` names the features of agents' states to keep. Empty keeps all.

        walk = co.walk(co.make_env("grid-15x15-3p"), transitions=100_000, key=jax.random.key(0))
    """
    config = WalkConfig(transitions, num_envs, tuple(features))
    walked = walk_seeds(env, config, stage_key(key, "walk")[None], policy=policy, progress=Progress.of(progress))
    return jax.tree.map(lambda leaf: leaf[0], walked)


def walk_seeds(
    env: AbstractEnv,
    config: WalkConfig,
    keys: Key[Array, " seed"],
    *,
    policy: Policy = random_policy,
    progress: Progress | None = None,
) -> Walk:
    """Record a walk for every seed, with `policy` and the configured number of transitions."""
    num_steps = config.transitions // config.num_envs
    columns = kept_columns(env, config)
    require_room("walk", walk_bytes(env, config, len(keys)), "walk.transitions or seeds")
    chunk_steps = min(-(-num_steps // NUM_CHUNKS), max(1, CHUNK_TRANSITIONS // (config.num_envs * len(keys))))
    chunks, extents = [], []
    with StopSignals("walk") as stop, (progress or Progress.silent()).stage("walk", config.transitions) as show:
        with show.compiling(), stop.uncut():
            runners = jax.block_until_ready(_start(env, config.num_envs, keys))
        for begun in range(0, num_steps, chunk_steps):
            length = min(chunk_steps, num_steps - begun)
            runners, (chunk, extent) = _walk_chunk(env, policy, columns, length, runners, keys, jnp.int32(begun))
            chunks.append(jax.device_get(chunk))
            extents.append(jax.device_get(extent.whole()))
            show.advance(length * config.num_envs, {})
            if stop.requested:
                raise Interrupted("walk: stopped; a walk is made in one go: run the same command to begin it again")
    team = Team.of(env, columns)
    require_in_range(team.features, jax.tree.map(lambda *parts: np.stack(parts), *extents).whole())
    whole = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *chunks)
    return dataclasses.replace(whole, team=team)


def require_in_range(features: tuple[Feature, ...], extent: Extent) -> None:
    """Raise `ConfigError` if a feature took values in the walk that are outside its declared range."""
    outside = []
    for feature, low, high, fraction in zip(features, extent.low, extent.high, extent.fraction, strict=True):
        lies_within = np.float32(feature.low) <= low and high <= np.float32(feature.high)  # False for NaN
        if not lies_within or (feature.discrete and fraction > 0):
            kind = "whole numbers" if feature.discrete else "numbers"
            outside.append(
                f"feature {feature.name} is declared to take {kind} from {feature.low:g} to {feature.high:g}, "
                f"but took values from {low:g} to {high:g}"
            )
    advice = "declare the range that it has, or clip it where the environment gives its agents' states"
    require(not outside, f"walk: {'; '.join(outside)}: {advice}")


def walk_bytes(env: AbstractEnv, config: WalkConfig, num_seeds: int) -> int:
    """The bytes of the walks of `num_seeds` seeds. They are held twice: in parts, and as a whole."""
    features = tuple(env.features[column] for column in kept_columns(env, config))
    states = 2 * env.num_agents * len(features) * np.dtype(compact_dtype(features)).itemsize
    return 2 * num_seeds * config.transitions * (states + 1)


@partial(jax.jit, static_argnums=1)
def _start(env: AbstractEnv, num_envs: int, keys: Key[Array, " seed"]) -> Runners:
    return jax.lax.map(lambda key: start(env, num_envs, key=jax.random.fold_in(key, 2**31 - 1)), keys)


@partial(jax.jit, static_argnums=(1, 2, 3), donate_argnums=4)
def _walk_chunk(
    env: AbstractEnv,
    policy: Policy,
    columns: tuple[int, ...],
    length: int,
    runners: Runners,
    keys: Key[Array, " seed"],
    begun: Array,
) -> tuple[Runners, tuple[Walk, Extent]]:
    """Walk `length` steps, one seed after the other. With seeds in parallel, environments would be reset at every
    step."""
    dtype = compact_dtype(tuple(env.features[column] for column in columns))
    observe = jax.vmap(lambda state: env.agent_states(state)[:, jnp.array(columns)])
    has = env.agent_features[:, list(columns)]

    def one_seed(seed: tuple[Runners, PRNGKeyArray]) -> tuple[Runners, tuple[Walk, Extent]]:
        runners, key = seed

        def step(runners: Runners, time: Array) -> tuple[Runners, tuple[Walk, Extent]]:
            policy_key, step_key = jax.random.split(jax.random.fold_in(key, time))
            action = policy(runners.timestep, policy_key)
            outcome, onward = advance(env, runners, action, key=step_key)
            here, there = observe(runners.state), observe(outcome.state)
            extent = Extent.of(jnp.concatenate([here, there]), has)
            walk = Walk(here.astype(dtype), there.astype(dtype), outcome.timestep.last, votes_of(env, action))
            return onward, (walk, extent)

        return jax.lax.scan(step, runners, begun + jnp.arange(length))

    onward, chunk = jax.lax.map(one_seed, (runners, keys))
    return strongly_typed(onward), chunk


def index_futures(walks: Walk) -> Dataset:
    """Move walks with a leading seed axis to the device, and index them."""
    remaining = _remaining(np.asarray(walks.last))
    flat = remaining.reshape(len(remaining), -1)
    by_remaining = np.argsort(-flat, axis=1, kind="stable").astype(np.int32)
    reached = np.stack([np.bincount(row, minlength=remaining.shape[1] + 1) for row in flat])
    num_with = reached[:, ::-1].cumsum(axis=1)[:, ::-1].astype(np.int32)
    horizon = np.full(len(flat), flat.max() + 1, np.int32)
    return jax.tree.map(jnp.asarray, Dataset(walks, by_remaining, num_with, horizon))


def dataset_shapes(team: Team, num_seeds: int, walked: tuple[int, int]) -> Dataset:
    """The shapes of the walks of `num_seeds` seeds, [time, env] each, and of their index. The whole team walks."""
    shape, num = (num_seeds, *walked), walked[0] * walked[1]

    def make() -> Dataset:
        states = jnp.zeros((*shape, team.whole.num_agents, len(team.features)), compact_dtype(team.features))
        index, num_with = (jnp.zeros((num_seeds, size), jnp.int32) for size in (num, walked[0] + 1))
        return Dataset(Walk(states, states, jnp.zeros(shape, bool)), index, num_with, jnp.zeros(num_seeds, jnp.int32))

    return jax.eval_shape(make)


def _remaining(last: np.ndarray) -> np.ndarray:
    """Int[seed, time, env]: the number of states after each transition's start, within its episode and the walk."""
    remaining = np.empty(last.shape, np.int32)
    ahead = np.zeros_like(remaining[:, 0])
    for time in reversed(range(last.shape[1])):
        ahead = np.where(last[:, time], 1, ahead + 1)
        remaining[:, time] = ahead
    return remaining


class Futures(eqx.Module):
    """Pairs of an agent's state and a state of the same agent, k >= 0 steps later in the same episode."""

    source: Shaped[Array, "pair feature"]
    goal: Shaped[Array, "pair feature"]
    agent: Int[Array, " pair"]


def sample_futures(dataset: Dataset, num_pairs: int, discount: float, *, key: PRNGKeyArray) -> Futures:
    """Draw pairs k steps apart, with k geometric from 0. Goals follow the discounted occupancy of their source.

    The offset is drawn first, then a transition with that many steps left in its episode. The ends of episodes thus
    shorten no offset; only offsets longer than every episode are cut.
    """
    offset_key, start_key, agent_key = jax.random.split(key, 3)
    states, longest = dataset.walk.states, dataset.num_with.shape[0]
    survival = jnp.array([1.0 - discount**horizon for horizon in range(longest + 1)], jnp.float32)[dataset.horizon]
    uniform = jax.random.uniform(offset_key, (num_pairs,))
    offset = jnp.floor(jnp.log1p(-uniform * survival) / jnp.log(discount)).astype(jnp.int32)
    offset = offset.clip(0, (dataset.num_with > 0).sum() - 1)
    nth = jax.random.randint(start_key, (num_pairs,), 0, dataset.num_with[offset])
    time, env = jnp.divmod(dataset.by_remaining[nth], states.shape[1])
    agent = jax.random.randint(agent_key, (num_pairs,), 0, states.shape[2])
    source = states[time, env, agent]
    later = dataset.walk.next_states[jnp.maximum(time + offset - 1, 0), env, agent]
    return Futures(source, jnp.where(offset[:, None] == 0, source, later), agent)


def sample_transitions(dataset: Dataset, num: int, *, key: PRNGKeyArray) -> tuple[Array, Array]:
    """Draw joint transitions: the team's states before and after each, [num, agent, feature]."""
    states = dataset.walk.states
    index = jax.random.randint(key, (num,), 0, states.shape[0] * states.shape[1])
    time, env = jnp.divmod(index, states.shape[1])
    return states[time, env], dataset.walk.next_states[time, env]
