"""The MacDec-POMDP as an environment: actions are primitives and votes for joint options (paper, Section 3.3)."""

import dataclasses
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from cooptions.envs.base import AbstractEnv
from cooptions.envs.rollout import uniform_action
from cooptions.envs.wrapper import AbstractWrapper
from cooptions.errors import require, require_whole
from cooptions.learners.partition import most_at_once
from cooptions.options.base import AbstractOptions
from cooptions.options.calls import calls
from cooptions.options.placed import placed
from cooptions.options.sharing.hub import is_hub_name, pinned
from cooptions.options.sharing.sealed import MANIFEST
from cooptions.options.sharing.storage import find_option_set
from cooptions.options.voting import (
    End,
    Keep,
    Start,
    ballots,
    consistent,
    elect,
    ending,
    going_on,
    votes_to_go_on,
    votes_to_start,
)
from cooptions.types import MacroStep, TimeStep

Initiation = Literal["everywhere", "acting"]
Observe = Literal["own", "team"]
Placing = Literal["subteams", "calls"]
State = TypeVar("State")

RULES: dict[str, Any] = {
    "keep": Keep,
    "start": Start,
    "end": End,
    "initiation": Initiation,
    "observe": Observe,
    "placing": Placing,
}
"""The rules of `MacroEnv` that can be chosen, with their values."""


def require_rules(chosen: Any, where: str = "") -> None:
    """Raise `ConfigError` if a rule in `chosen` has an unknown value."""
    for name, kind in RULES.items():
        value = getattr(chosen, name)
        require(value in get_args(kind), f"{where}{name} must be one of {', '.join(get_args(kind))}, not {value!r}")


def share(observation: Shaped[Array, "agent width"]) -> Shaped[Array, "agent all"]:
    """Each agent's observation, then its teammates' in the order of the team."""
    num = observation.shape[0]
    order = np.array([[agent, *(mate for mate in range(num) if mate != agent)] for agent in range(num)])
    return observation[order].reshape(num, -1)


class MacroState(eqx.Module):
    """The environment's state and observations, the active options, and the actions that options would take next."""

    inner: Any
    active: Int[Array, " agent"]
    """The option that each agent follows, -1 for none. All members of an option follow it, or none does."""
    age: Int[Array, " agent"]
    """Steps since it began."""
    available: Bool[Array, "agent primitive"]
    observation: Shaped[Array, "agent *shape"]
    """The options' input."""
    intended: Int[Array, "foreseen agent"]
    """The action of every option for each agent, with `foresight`; otherwise empty."""


@dataclasses.dataclass(frozen=True)
class MacroConfig:
    """How joint options enter a task. The rules are those of `MacroEnv`."""

    keep: Keep = "none"
    """Votes of members that an active option needs to continue: none, at least half (`majority`), or all (paper)."""
    start: Start = "threshold"
    """Votes of members that an option needs to start: its own `threshold` (all members, in trained sets), at least half
    (`majority`), or all (paper)."""
    end: End = "each"
    """When parallel options end: `each` as soon as its members want to terminate, or all `together`, when the members
    of all of them do. Members that want to terminate stand still until then."""
    initiation: Initiation = "everywhere"
    """Where agents can vote for an option: everywhere (paper), or only where it would not end at once (`acting`)."""
    observe: Observe = "own"
    """What an agent observes: its own observation, or those of the whole team."""
    placing: Placing = "subteams"
    """Who follows options for fewer agents than the team has: every sub-team that can (`subteams`), or the teammates of
    an agent that signals, each in a pair with it (`calls`, for options of two agents)."""
    num_options: int = 0
    """Number of options to use, from the beginning of the set; 0 for all."""
    option_set: str = ""
    """An option set for all seeds, instead of one discovered by every seed: its directory, its name on the hub
    (`hf://owner/name`), a run that has one, or an option source such as `handmade`, `rally` or `wander`."""
    discoveries: int = 0
    """Number of seeds that discover options; the others reuse these in turn. With 0, every seed discovers its own,
    which takes longest, but intervals then include the variation between discoveries."""

    def __post_init__(self) -> None:
        require_rules(self)
        for name in ("num_options", "discoveries"):
            require_whole(f"macro.{name}", getattr(self, name), at_least=0)

    @property
    def files(self) -> tuple[Path, ...]:
        """The manifest of the option set, which has the hashes of its files; empty if the set is not on the disk."""
        if not self.option_set or is_hub_name(self.option_set):
            return ()
        manifest = Path(find_option_set(self.option_set)) / MANIFEST
        return (manifest,) if manifest.exists() else ()

    @property
    def pinned(self) -> "MacroConfig":
        """The same configuration, with an option set on the hub pinned to a commit."""
        return dataclasses.replace(self, option_set=pinned(self.option_set))

    def around(self, env: AbstractEnv, options: AbstractOptions, *, foresight: bool = True) -> "MacroEnv":
        """The environment with the options. `initiation="acting"` needs foresight, and turns it on."""
        foresight |= self.initiation == "acting"
        rules = {name: getattr(self, name) for name in RULES}
        return MacroEnv(env, options, foresight=foresight, **rules)


class MacroEnv(AbstractWrapper[MacroState]):
    """An environment whose actions are its primitives, then one vote for each joint option.

    - Vote. An agent that follows no option takes a primitive or votes. An option starts if none of its members follows
      another and enough of them vote for it (see `start`). From this step on, all members follow it, whatever they
      chose. Options with disjoint members run in parallel. If options compete for an agent, the first in the order of
      the set starts. An agent whose vote fails stands still for that step.
    - Execution. A member takes the option's action. If that is "terminate" or unavailable, it stands still. With
      probability epsilon, it takes a random available primitive instead. Other agents choose for themselves.
    - Interruption. While an option is active, a member's action is a vote to continue it, or not (see `keep`).
    - End. An option ends if all its members want to terminate, after `max_steps`, and with the episode.

    By default, options for fewer agents than the environment has are placed on every sub-team that can follow them
    (`cooptions.options.placed`). For example, an option for pairs becomes 28 options in a team of eight.

        task = co.MacroEnv(env, options)
        assert task.num_actions == env.num_actions + options.num_options
    """

    env: AbstractEnv = eqx.field(static=True)
    options: AbstractOptions
    keep: Keep = eqx.field(static=True, default="none")
    """Votes of members that an active option needs to continue: "none" (it is never interrupted), "majority" (at least
    half), or "all" (any member interrupts it: the paper's rule)."""
    initiation: Initiation = eqx.field(static=True, default="everywhere")
    """Where agents can vote for an option: "everywhere" (paper), or "acting": not where it would end at once."""
    observe: Observe = eqx.field(static=True, default="own")
    """What an agent observes: its "own" observation, or the "team"'s, its own first (the paper's shared
    observations)."""
    foresight: bool = eqx.field(static=True, default=True)
    """Whether every step evaluates all options, for intra-option learning (`MacroStep.consistent` and `continues`).
    Otherwise only active options are evaluated, which is much faster for many options with large networks."""
    start: Start = eqx.field(static=True, default="threshold")
    """Votes of members that an option needs to start: "threshold" (its own, which is all members in trained sets),
    "majority" (at least half), or "all" (the paper's rule)."""
    end: End = eqx.field(static=True, default="each")
    """When parallel options end: "each" as soon as its members want to terminate, or all "together", when the members
    of all of them do."""
    placing: Placing = eqx.field(static=True, default="subteams")
    """Who follows options for fewer agents than the team has: every sub-team that can ("subteams"), or the teammates of
    an agent that signals, each in a pair with it ("calls", for options of two agents)."""

    def __post_init__(self) -> None:
        place = calls if self.placing == "calls" else placed
        self.options = place(self.options, self.env)

    def __check_init__(self) -> None:
        require_rules(self)
        for option in self.options.options:
            require(
                len(option.members) == self.num_agents,
                f"options: {option.name} is for {len(option.members)} agents, the environment has {self.num_agents}",
            )
        require(
            self.foresight or self.initiation == "everywhere",
            'foresight: initiation "acting" asks every option whether it would act; use foresight=True',
        )
        if self.observe == "team":
            _, timestep = jax.eval_shape(self.env.reset, jax.random.key(0))
            shape = timestep.observation.shape[1:]
            require(len(shape) == 1, f'observe: "team" needs vector observations, these have shape {shape}; use "own"')

    @property
    def num_primitives(self) -> int:
        return self.env.num_actions

    @property
    def num_options(self) -> int:
        return self.options.num_options

    @property
    def option_members(self) -> np.ndarray:
        return self.options.members

    @property
    def option_kinds(self) -> tuple[int, ...]:
        return self.options.kinds

    @property
    def num_actions(self) -> int:
        return self.num_primitives + self.num_options

    @property
    def action_names(self) -> tuple[str, ...]:
        return (*self.env.action_names, *(f"option {option.name}" for option in self.options.options))

    def reset(self, key: PRNGKeyArray) -> tuple[MacroState, TimeStep]:
        inner, timestep = self.env.reset(key)
        state = self._state(inner, timestep)
        nothing = jnp.zeros(self.num_options, bool)
        still = jnp.full(self.num_agents, self.noop, jnp.int32)
        return state, self._timestep(state, timestep, state.active, still, nothing, nothing)

    def step(self, state: MacroState, action: Int[Array, " agent"], key: PRNGKeyArray) -> tuple[MacroState, TimeStep]:
        noise_key, env_key = jax.random.split(key)
        option, age = self.decide(state, action)
        led = option >= 0
        own = jnp.where(action < self.num_primitives, action, self.noop)
        followed = self._disturb(self._planned(self._wanted(state, option)), state.available, key=noise_key)
        executed = jnp.where(led, followed, own)
        inner, timestep = self.env.step(state.inner, executed, env_key)
        after = self._arrive(self._state(inner, timestep), option, age + 1, timestep.last)
        agree = go_on = jnp.zeros(self.num_options, bool)
        if self.foresight:
            agree = consistent(executed, self._planned(state.intended), self.options.members)
            go_on = ~self._ends(after) & (timestep.discount > 0)
        done = jnp.where(led, executed, action).astype(jnp.int32)
        return after, self._timestep(after, timestep, option, done, agree, go_on)

    def decide(
        self, state: MacroState, action: Int[Array, " agent"]
    ) -> tuple[Int[Array, " agent"], Int[Array, " agent"]]:
        """The option that each agent follows at this step, or -1, and its age so far.

        An active option without enough votes is interrupted. Its members' votes then count for starting options.
        """
        members = self.options.members
        votes = ballots(action, members, self.num_primitives) & self._offered(state)[:, None]
        goes_on = going_on(state.active, votes, votes_to_go_on(members, self.keep))
        to_start = votes_to_start(members, self.options.thresholds, self.start)
        option = jnp.where(goes_on, state.active, elect(votes, members, to_start, ~goes_on))
        return option.astype(jnp.int32), jnp.where(goes_on, state.age, 0)

    def agent_states(self, state: MacroState) -> Float[Array, "agent feature"]:
        return self.env.agent_states(state.inner)

    def _state(self, inner: Any, timestep: TimeStep) -> MacroState:
        """The state without active options."""
        mask, seen = timestep.action_mask, timestep.observation
        intended = jnp.zeros((0, self.num_agents), jnp.int32)
        if self.foresight:
            intended = self._possible(self.options.actions(self.env.agent_states(inner), seen, mask), mask)
        none = jnp.full(self.num_agents, -1, jnp.int32)
        return MacroState(inner, none, jnp.zeros_like(none), mask, seen, intended)

    def _arrive(
        self, state: MacroState, option: Int[Array, " agent"], age: Int[Array, " agent"], last: Bool[Array, ""]
    ) -> MacroState:
        """The state after a step, without the options that end here."""
        ends = ending(option, self._wanted(state, option) == self.num_primitives, self.end)
        goes_on = (option >= 0) & ~ends & (age < self.options.max_steps) & ~last
        active, age = jnp.where(goes_on, option, -1), jnp.where(goes_on, age, 0)
        return dataclasses.replace(state, active=active, age=age)

    def _wanted(self, state: MacroState, option: Int[Array, " agent"]) -> Int[Array, " agent"]:
        """The action of each agent's option for it; the number of primitives means "terminate"."""
        if self.foresight:
            return state.intended[option, np.arange(self.num_agents)]
        agent_states = self.env.agent_states(state.inner)
        wanted = self.options.actions_of(option, agent_states, state.observation, state.available)
        return self._possible(wanted, state.available)

    def _possible(
        self, wanted: Int[Array, "*option agent"], available: Bool[Array, "agent primitive"]
    ) -> Int[Array, "*option agent"]:
        """Replace unavailable actions by the no-op."""
        possible = jnp.pad(available, ((0, 0), (0, 1)), constant_values=True)[np.arange(self.num_agents), wanted]
        return jnp.where(possible, wanted, self.noop).astype(jnp.int32)

    def _planned(self, wanted: Int[Array, "*option agent"]) -> Int[Array, "*option agent"]:
        """Replace "terminate" by the no-op, which members execute until their option ends."""
        return jnp.where(wanted == self.num_primitives, self.noop, wanted)

    def _ends(self, state: MacroState) -> Bool[Array, " option"]:
        return self.options.terminates(state.intended, self.num_primitives)

    def _offered(self, state: MacroState) -> Bool[Array, " option"]:
        """Which options agents can vote for: those whose caller signals, and those without a caller."""
        callers = self.options.callers
        signals = jnp.append(self.env.signals(state.inner), True)
        called = signals[np.array([-1 if caller is None else caller for caller in callers], int)]
        return called & ~self._ends(state) if self.initiation == "acting" else called

    def _disturb(
        self, action: Int[Array, " agent"], available: Bool[Array, "agent primitive"], *, key: PRNGKeyArray
    ) -> Int[Array, " agent"]:
        """With the options' epsilon, replace an agent's action by a random available primitive."""
        if self.options.epsilon == 0:
            return action
        coin_key, action_key = jax.random.split(key)
        explores = jax.random.uniform(coin_key, action.shape) < self.options.epsilon
        return jnp.where(explores, uniform_action(available, key=action_key), action)

    def _timestep(self, state: MacroState, timestep: TimeStep, *told: Array) -> TimeStep:
        """The team's time step. `told` are the fields of its `MacroStep` between `age` and `choices`."""
        observation = share(timestep.observation) if self.observe == "team" else timestep.observation
        choices = self.free_choices(state)
        most = most_at_once(self.options.members)
        macro = MacroStep(state.active, state.age, *told, choices=choices, most_at_once=most)
        mask = self._action_mask(state, choices)
        return dataclasses.replace(timestep, observation=observation, action_mask=mask, macro=macro)

    def free_choices(self, state: MacroState) -> Bool[Array, "agent action"]:
        """What agents may choose while they follow no option: primitives, and votes for options they are members of."""
        votes = jnp.asarray(self.options.members).T & self._offered(state)
        return jnp.concatenate([state.available, votes], axis=1)

    def _action_mask(self, state: MacroState, choices: Bool[Array, "agent action"]) -> Bool[Array, "agent action"]:
        """The available actions: the choices, and for members of an active option the vote to continue it.

        If options cannot be interrupted, members of an active one can only vote for it. Nobody can then vote for other
        options of these members.
        """
        busy = state.active >= 0
        going_on = busy[:, None] & (jnp.arange(self.num_actions) == self.num_primitives + state.active[:, None])
        if self.keep != "none":
            return choices | going_on
        can_start = ~jnp.any(self.options.members & busy, axis=1)
        possible = jnp.concatenate([jnp.ones(self.num_primitives, bool), can_start])
        return jnp.where(busy[:, None], going_on, choices & possible)
