"""Probe environments: tiny tasks with optimal values known by hand. Each detects one kind of error in a learner."""

import abc
from dataclasses import dataclass
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from cooptions.envs.base import FAMILIES, AbstractEnv
from cooptions.errors import require_whole
from cooptions.types import Feature, TimeStep, restart

Cue = Literal[-1, 1]
MOST_AGENTS = 32


class ProbeState(eqx.Module):
    """The time in the episode, the cue drawn at its start, and the rewards so far."""

    time: Int[Array, ""]
    cue: Float[Array, ""]
    total: Float[Array, ""]


@dataclass(frozen=True)
class AbstractProbe(AbstractEnv[ProbeState]):
    """An episode of `length` steps with a random cue of -1 or +1, and two actions.

    All agents observe (cue, clock). A probe shows those that its task needs, and 0 instead of the others.
    """

    length: ClassVar[int] = 1
    truncated: ClassVar[bool] = False
    """Whether the end is a time limit, after which the task would have continued."""

    num_agents: int = 2

    def __post_init__(self) -> None:
        require_whole("num_agents", self.num_agents, at_most=MOST_AGENTS)

    @property
    def num_actions(self) -> int:
        return 2

    @property
    def noop(self) -> int:
        return 0

    @property
    def features(self) -> tuple[Feature, ...]:
        return (Feature.coordinate("time", self.length + 1),)

    @property
    def score_names(self) -> tuple[str, ...]:
        return ("return",)

    @abc.abstractmethod
    def value_of_cue(self, gamma: float, cue: Cue) -> float:
        """The discounted return of the best policy in an episode with this cue."""

    def optimal_value(self, gamma: float) -> float:
        """The expected discounted return of the best policy from the start. Both cues are equally likely."""
        return (self.value_of_cue(gamma, -1) + self.value_of_cue(gamma, 1)) / 2

    @abc.abstractmethod
    def _reward(self, state: ProbeState, action: Int[Array, " agent"]) -> Float[Array, ""]:
        """The reward for `action` in `state`."""

    def _shown_cue(self, state: ProbeState) -> Float[Array, ""]:
        return jnp.float32(0.0)

    def _shown_clock(self, state: ProbeState) -> Float[Array, ""]:
        return jnp.float32(0.0)

    def _action_mask(self, state: ProbeState) -> Bool[Array, "agent action"]:
        return jnp.ones((self.num_agents, self.num_actions), bool)

    def reset(self, key: PRNGKeyArray) -> tuple[ProbeState, TimeStep]:
        state = ProbeState(time=jnp.int32(0), cue=jax.random.rademacher(key, (), jnp.float32), total=jnp.float32(0.0))
        return state, self._timestep(state, jnp.float32(0.0))

    def step(self, state: ProbeState, action: Int[Array, " agent"], key: PRNGKeyArray) -> tuple[ProbeState, TimeStep]:
        reward = self._reward(state, action)
        state = ProbeState(time=state.time + 1, cue=state.cue, total=state.total + reward)
        return state, self._timestep(state, reward)

    def agent_states(self, state: ProbeState) -> Float[Array, "agent feature"]:
        return jnp.full((self.num_agents, 1), state.time, jnp.float32)

    def _timestep(self, state: ProbeState, reward: Float[Array, ""]) -> TimeStep:
        last = state.time >= self.length
        shown = jnp.stack([self._shown_cue(state), self._shown_clock(state)])
        return TimeStep(
            observation=jnp.broadcast_to(shown, (self.num_agents, 2)),
            action_mask=self._action_mask(state),
            reward=reward,
            discount=jnp.float32(1.0) if self.truncated else 1.0 - last.astype(jnp.float32),
            last=last,
            score=state.total[None],
        )


@FAMILIES.register("probe-constant")
@dataclass(frozen=True)
class Constant(AbstractProbe):
    """One step with reward 1. Fails if a value cannot be fitted at all."""

    def value_of_cue(self, gamma: float, cue: Cue) -> float:
        return 1.0

    def _reward(self, state: ProbeState, action: Int[Array, " agent"]) -> Float[Array, ""]:
        return jnp.float32(1.0)


@FAMILIES.register("probe-observed_sign")
@dataclass(frozen=True)
class ObservedSign(AbstractProbe):
    """One step whose reward is the observed cue, 0 on average. Fails if values do not depend on observations."""

    def value_of_cue(self, gamma: float, cue: Cue) -> float:
        return float(cue)

    def _shown_cue(self, state: ProbeState) -> Float[Array, ""]:
        return state.cue

    def _reward(self, state: ProbeState, action: Int[Array, " agent"]) -> Float[Array, ""]:
        return state.cue


@FAMILIES.register("probe-two_step")
@dataclass(frozen=True)
class TwoStep(AbstractProbe):
    """Only the second step has reward 1. Fails if rewards, discounts or `last` are shifted by one step."""

    length: ClassVar[int] = 2

    def value_of_cue(self, gamma: float, cue: Cue) -> float:
        return gamma

    def _shown_clock(self, state: ProbeState) -> Float[Array, ""]:
        return state.time.astype(jnp.float32)

    def _reward(self, state: ProbeState, action: Int[Array, " agent"]) -> Float[Array, ""]:
        return (state.time == 1).astype(jnp.float32)


@FAMILIES.register("probe-matching")
@dataclass(frozen=True)
class Matching(AbstractProbe):
    """One step with reward 1 if all agents play the observed bit. Fails if actions do not depend on observations."""

    def value_of_cue(self, gamma: float, cue: Cue) -> float:
        return 1.0

    def _shown_cue(self, state: ProbeState) -> Float[Array, ""]:
        return state.cue

    def _reward(self, state: ProbeState, action: Int[Array, " agent"]) -> Float[Array, ""]:
        return _all_play(_bit(state), action)


@FAMILIES.register("probe-masked")
@dataclass(frozen=True)
class Masked(AbstractProbe):
    """Two steps with reward 1 if all play the cue's bit, which the first agent cannot do in the second step.

    Fails if the maximum of a target, or the choice of an action, includes unavailable actions.
    The value is then 1 + gamma.
    """

    length: ClassVar[int] = 2

    def value_of_cue(self, gamma: float, cue: Cue) -> float:
        return 1.0

    def _shown_cue(self, state: ProbeState) -> Float[Array, ""]:
        return state.cue

    def _shown_clock(self, state: ProbeState) -> Float[Array, ""]:
        return state.time.astype(jnp.float32)

    def _action_mask(self, state: ProbeState) -> Bool[Array, "agent action"]:
        first_agent = jnp.arange(self.num_agents)[:, None] == 0
        earning = jnp.arange(self.num_actions)[None] == _bit(state)
        return ~((state.time == 1) & first_agent & earning)

    def _reward(self, state: ProbeState, action: Int[Array, " agent"]) -> Float[Array, ""]:
        return _all_play(_bit(state), action)


@FAMILIES.register("probe-truncated")
@dataclass(frozen=True)
class Truncated(AbstractProbe):
    """Every step has reward 1. A time limit that agents do not observe cuts episodes after five steps.

    The value is that of the unlimited task. Fails if a time limit is treated as a termination.
    """

    length: ClassVar[int] = 5
    truncated: ClassVar[bool] = True

    def value_of_cue(self, gamma: float, cue: Cue) -> float:
        return 1.0 / (1.0 - gamma)

    def _reward(self, state: ProbeState, action: Int[Array, " agent"]) -> Float[Array, ""]:
        return jnp.float32(1.0)


@FAMILIES.register("probe-terminated")
@dataclass(frozen=True)
class Terminated(AbstractProbe):
    """Every step has reward 1, and the fifth terminates. Fails if values are bootstrapped across a termination."""

    length: ClassVar[int] = 5

    def value_of_cue(self, gamma: float, cue: Cue) -> float:
        return sum(gamma**time for time in range(self.length))

    def _shown_clock(self, state: ProbeState) -> Float[Array, ""]:
        return state.time.astype(jnp.float32)

    def _reward(self, state: ProbeState, action: Int[Array, " agent"]) -> Float[Array, ""]:
        return jnp.float32(1.0)


@FAMILIES.register("probe-recall")
@dataclass(frozen=True)
class Recall(AbstractProbe):
    """The cue is shown only at the start, and all agents must play its bit in the third step.

    Fails without a memory, or if the memory is lost or carried over between episodes.
    """

    length: ClassVar[int] = 3

    def value_of_cue(self, gamma: float, cue: Cue) -> float:
        return gamma**2

    def _shown_cue(self, state: ProbeState) -> Float[Array, ""]:
        return jnp.where(state.time == 0, state.cue, 0.0)

    def _shown_clock(self, state: ProbeState) -> Float[Array, ""]:
        return state.time.astype(jnp.float32)

    def _reward(self, state: ProbeState, action: Int[Array, " agent"]) -> Float[Array, ""]:
        return _all_play(_bit(state), action) * (state.time == 2)


class Walkers(eqx.Module):
    """The position of each sub-team in its corridor, and the time."""

    place: Int[Array, " team"]
    time: Int[Array, ""]


@dataclass(frozen=True)
class Corridors(AbstractEnv[Walkers]):
    """Sub-teams side by side, each in its own corridor. A sub-team moves if all its members choose the same action.

    Each step costs a sub-team 0.1 until it reaches the end, which gives 1. The episode ends when all are there, or
    after 30 steps. Sub-teams do not affect each other's rewards, so values are sums over sub-teams. Fails if one
    sub-team's option is mistaken for another's.
    """

    pays: tuple[float, ...] = (1.0,)
    """The weight of each sub-team's rewards."""
    mates: int = 1
    """The number of agents per sub-team. The first agents form the first sub-team."""
    length: int = 6
    num_actions: int = 3
    noop: int = 0
    score_names: tuple[str, ...] = ("steps",)

    @property
    def num_agents(self) -> int:
        return self.mates * len(self.pays)

    @property
    def features(self) -> tuple[Feature, ...]:
        return (Feature.coordinate("x", self.length),)

    def reset(self, key: PRNGKeyArray) -> tuple[Walkers, TimeStep]:
        state = Walkers(jax.random.randint(key, (len(self.pays),), 0, self.length - 1), jnp.int32(0))
        return state, restart(self._shown(state), jnp.ones((self.num_agents, self.num_actions), bool), num_scores=1)

    def step(self, state: Walkers, action: Int[Array, " agent"], key: PRNGKeyArray) -> tuple[Walkers, TimeStep]:
        by_team, end = action.reshape(-1, self.mates), self.length - 1
        agree = jnp.all(by_team == by_team[:, :1], axis=1) & (state.place != end)
        place = jnp.clip(state.place + jnp.where(agree, jnp.array([0, -1, 1])[by_team[:, 0]], 0), 0, end)
        earned = jnp.where(state.place == end, 0.0, jnp.where(place == end, 1.0, -0.1))
        state, over = Walkers(place, state.time + 1), jnp.all(place == end)
        return state, TimeStep(
            observation=self._shown(state),
            action_mask=jnp.ones((self.num_agents, self.num_actions), bool),
            reward=jnp.sum(earned * jnp.array(self.pays)),
            discount=1.0 - over,
            last=over | (state.time >= 30),
            score=state.time[None].astype(jnp.float32),
        )

    def agent_states(self, state: Walkers) -> Float[Array, "agent feature"]:
        return jnp.repeat(state.place, self.mates)[:, None].astype(jnp.float32)

    def _shown(self, state: Walkers) -> Float[Array, "agent place"]:
        return jax.nn.one_hot(jnp.repeat(state.place, self.mates), self.length)


def _bit(state: ProbeState) -> Int[Array, ""]:
    """The cue as an action: 0 for -1, 1 for +1."""
    return (state.cue > 0).astype(jnp.int32)


def _all_play(bit: Int[Array, ""], action: Int[Array, " agent"]) -> Float[Array, ""]:
    return jnp.all(action == bit).astype(jnp.float32)
