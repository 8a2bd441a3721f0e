"""What joint options are: behaviours that several agents begin, follow and end together."""

import abc
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped

from cooptions.envs.base import AbstractEnv
from cooptions.errors import require
from cooptions.parts import Registry


@dataclass(frozen=True)
class Option:
    """Who takes part in an option, and how it starts."""

    name: str
    members: tuple[bool, ...]
    """Which agents execute it. The others go on choosing for themselves."""
    threshold: int
    """Votes of members that start it; all of them in the paper."""
    eigenfunction: int = 0
    """The eigenfunction it follows, counted from 1; 0 if it follows none."""
    sign: int = 0
    """Whether it seeks high values (1) or low ones (-1)."""

    def __post_init__(self) -> None:
        num = sum(self.members)
        require(num >= 1, f"option {self.name}: members must not be empty")
        require(1 <= self.threshold <= num, f"option {self.name}: threshold must be 1 to {num}, not {self.threshold}")


class AbstractOptions(eqx.Module):
    """A set of joint options for one team, learned or written by hand."""

    options: eqx.AbstractVar[tuple[Option, ...]]
    max_steps: eqx.AbstractVar[int]
    """Steps after which an option ends in any case."""
    epsilon: eqx.AbstractVar[float]
    """How often an executing agent takes a random action instead of the option's."""

    @abc.abstractmethod
    def actions(
        self,
        agent_states: Float[Array, "agent feature"],
        observation: Shaped[Array, "agent *shape"],
        action_mask: Bool[Array, "agent action"],
    ) -> Int[Array, "option agent"]:
        """What every option would have its agents do here; the number of actions means "terminate"."""

    def action_of(
        self,
        option: Int[Array, ""],
        agent: Int[Array, ""],
        agent_states: Float[Array, "agent feature"],
        observation: Shaped[Array, "agent *shape"],
        action_mask: Bool[Array, "agent action"],
    ) -> Int[Array, ""]:
        """What one option would have one of its agents do, and anything where the option is -1 and none is asked; a set
        whose options are costly works out that one alone."""
        return self.actions(agent_states, observation, action_mask)[option, agent]

    def actions_of(
        self,
        option: Int[Array, " agent"],
        agent_states: Float[Array, "agent feature"],
        observation: Shaped[Array, "agent *shape"],
        action_mask: Bool[Array, "agent action"],
    ) -> Int[Array, " agent"]:
        """What the option that each agent follows would have it do, and anything where that is -1."""

        def of_agent(option: Int[Array, ""], agent: Int[Array, ""]) -> Int[Array, ""]:
            return self.action_of(option, agent, agent_states, observation, action_mask)

        return jax.vmap(of_agent)(option, jnp.arange(option.shape[0]))

    def roles(self, env: AbstractEnv) -> Bool[np.ndarray, "role agent"]:
        """Which agents of an environment can take the part of which agent of the team that the options are for.

        By default anybody can, in a team of agents that are all alike; other sets define it.
        """
        require(
            len(set(env.agent_types)) == 1,
            f"options: {type(self).__name__} does not say which agents of several types it is for; define `roles`",
        )
        return np.ones((self.num_agents, env.num_agents), bool)

    def in_env(self, env: AbstractEnv) -> "AbstractOptions":
        """The same options with the actions of an environment, which may be in another order there."""
        return self

    @property
    def num_options(self) -> int:
        return len(self.options)

    @property
    def num_agents(self) -> int:
        """The size of the team that they are for."""
        return len(self.options[0].members)

    @property
    def kinds(self) -> tuple[int, ...]:
        """Which options are the same behaviour, of different agents: they have the same number, counted from 0."""
        return tuple(range(self.num_options))

    @property
    def callers(self) -> tuple[int | None, ...]:
        """The agent that calls for each option, or None. A call can be followed only while the agent signals
        (`AbstractEnv.signals`); other options can start everywhere."""
        return (None,) * self.num_options

    @property
    def members(self) -> np.ndarray:
        """Bool[option, agent]."""
        return np.array([option.members for option in self.options])

    @property
    def thresholds(self) -> np.ndarray:
        """Int[option]."""
        return np.array([option.threshold for option in self.options])

    def first(self, num: int) -> "AbstractOptions":
        """The first options alone."""
        return dataclasses.replace(self, options=self.options[:num])

    def terminates(self, actions: Int[Array, "option agent"], terminate: int) -> Bool[Array, " option"]:
        """Which options end: those whose members all want to."""
        return jnp.all((actions == terminate) | ~self.members, axis=1)


OPTION_SOURCES: Registry[Callable[[AbstractEnv], AbstractOptions]] = Registry("option source", "cooptions.options")
"""Options that need no discovery, by name: functions from an environment to its options."""
