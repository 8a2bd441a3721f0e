"""Options of two agents, used as calls: an agent that has found something calls its teammates."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from cooptions.envs.base import AbstractEnv
from cooptions.envs.wrapper import innermost
from cooptions.errors import require
from cooptions.options.base import AbstractOptions, Option

# Pyright takes the abstract attributes of `AbstractOptions` for arguments of the class below: hence the ignore.


def calls(options: AbstractOptions, env: AbstractEnv) -> "CalledOptions":
    """The options of pairs, repeated for each caller. Raises `ConfigError` if they cannot be used as calls."""
    if isinstance(options, CalledOptions) and options.team_size == env.num_agents:
        return options
    name = options.options[0].name
    require(options.num_agents == 2, f"options: {name} is for {options.num_agents} agents; calls need options of two")
    alike = len(set(env.agent_types)) == 1
    require(alike and bool(options.roles(env).all()), f"options: {name} cannot be called: agents differ in features")
    require_signals(env)
    return CalledOptions(options.in_env(env), env.num_agents)  # pyright: ignore[reportCallIssue]


def require_signals(env: AbstractEnv) -> None:
    """Raise `ConfigError` if no agent ever signals."""
    inner = innermost(env)
    require(
        type(inner).signals is not AbstractEnv.signals,
        f"env: agents of {type(inner).__name__} never signal, so no agent can call: define `signals`",
    )


class CalledOptions(AbstractOptions):
    """The options of two agents, repeated for each caller. Every teammate acts as if it formed a pair with the caller.

    The caller chooses for itself. The calls of one option are consecutive. Their names contain the caller, counted from
    1: `+e1 called by 3`.
    """

    pair: AbstractOptions
    team_size: int = eqx.field(static=True)

    @property
    def options(self) -> tuple[Option, ...]:
        return tuple(self._call(option, caller) for option in self.pair.options for caller in range(self.team_size))

    @property
    def max_steps(self) -> int:
        return self.pair.max_steps

    @property
    def epsilon(self) -> float:
        return self.pair.epsilon

    @property
    def kinds(self) -> tuple[int, ...]:
        return tuple(kind for kind in self.pair.kinds for _ in range(self.team_size))

    @property
    def callers(self) -> tuple[int, ...]:
        return tuple(range(self.team_size)) * self.pair.num_options

    def first(self, num: int) -> "CalledOptions":
        """A set of the first `num` options, which must include each option with all of its callers."""
        kinds, rest = divmod(num, self.team_size)
        require(rest == 0, f"options: the first {num} are no multiple of {self.team_size} callers")
        return dataclasses.replace(self, pair=self.pair.first(kinds))

    def action_of(
        self,
        option: Int[Array, ""],
        agent: Int[Array, ""],
        agent_states: Float[Array, "agent feature"],
        observation: Shaped[Array, "agent *shape"],
        action_mask: Bool[Array, "agent action"],
    ) -> Int[Array, ""]:
        """The action of one option for one agent, from the states of the agent and its caller only, in team order."""
        kind, caller = option // self.team_size, option % self.team_size
        two = jnp.sort(jnp.stack([agent, caller]))
        kind = jnp.where(option >= 0, kind, -1)
        role = (agent > caller).astype(jnp.int32)
        return self.pair.action_of(kind, role, agent_states[two], observation[two], action_mask[two])

    def actions(
        self,
        agent_states: Float[Array, "agent feature"],
        observation: Shaped[Array, "agent *shape"],
        action_mask: Bool[Array, "agent action"],
    ) -> Int[Array, "option agent"]:
        """The actions of all calls. Callers take action 0."""

        def of_two(caller: Int[Array, ""], agent: Int[Array, ""]) -> Int[Array, " kind"]:
            two = jnp.sort(jnp.stack([agent, caller]))
            told = self.pair.actions(agent_states[two], observation[two], action_mask[two])
            return jnp.where(agent == caller, 0, told[:, (agent > caller).astype(jnp.int32)])

        everyone = jnp.arange(self.team_size)
        each = jax.vmap(lambda caller: jax.vmap(lambda agent: of_two(caller, agent))(everyone))(everyone)
        return jnp.moveaxis(each, 2, 0).reshape(self.num_options, self.team_size)  # [kind, caller, agent] before

    def _call(self, option: Option, caller: int) -> Option:
        members = tuple(agent != caller for agent in range(self.team_size))
        name, votes = f"{option.name} called by {caller + 1}", self.team_size - 1
        return dataclasses.replace(option, name=name, members=members, threshold=votes)
