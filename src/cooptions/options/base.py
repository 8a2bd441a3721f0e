"""The interface of joint options: behaviours that several agents begin, follow and end together."""

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
    """Which agents execute it. The others choose for themselves."""
    threshold: int
    """The votes of members that it needs to start; all members in the paper."""
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
    """The maximum length of an option in steps."""
    epsilon: eqx.AbstractVar[float]
    """The probability that a member takes a random action instead of the option's."""

    @abc.abstractmethod
    def actions(
        self,
        agent_states: Float[Array, "agent feature"],
        observation: Shaped[Array, "agent *shape"],
        action_mask: Bool[Array, "agent action"],
    ) -> Int[Array, "option agent"]:
        """The action of every option for each agent; the number of actions means "terminate"."""

    def action_of(
        self,
        option: Int[Array, ""],
        agent: Int[Array, ""],
        agent_states: Float[Array, "agent feature"],
        observation: Shaped[Array, "agent *shape"],
        action_mask: Bool[Array, "agent action"],
    ) -> Int[Array, ""]:
        """The action of one option for one agent; arbitrary if the option is -1. Sets with expensive options override
        this to evaluate only this option."""
        return self.actions(agent_states, observation, action_mask)[option, agent]

    def actions_of(
        self,
        option: Int[Array, " agent"],
        agent_states: Float[Array, "agent feature"],
        observation: Shaped[Array, "agent *shape"],
        action_mask: Bool[Array, "agent action"],
    ) -> Int[Array, " agent"]:
        """The action of each agent's option for it; arbitrary where the option is -1."""

        def of_agent(option: Int[Array, ""], agent: Int[Array, ""]) -> Int[Array, ""]:
            return self.action_of(option, agent, agent_states, observation, action_mask)

        return jax.vmap(of_agent)(option, jnp.arange(option.shape[0]))

    def roles(self, env: AbstractEnv) -> Bool[np.ndarray, "role agent"]:
        """Which agents of an environment can take the role of each agent of the options' team.

        By default, every agent can take every role if all agents are alike. Other sets override this.
        """
        require(
            len(set(env.agent_types)) == 1,
            f"options: {type(self).__name__} does not say which agents of several types it is for; define `roles`",
        )
        return np.ones((self.num_agents, env.num_agents), bool)

    def in_env(self, env: AbstractEnv) -> "AbstractOptions":
        """The same options with the action numbers of an environment."""
        return self

    @property
    def num_options(self) -> int:
        return len(self.options)

    @property
    def num_agents(self) -> int:
        """The size of the team that the options are for."""
        return len(self.options[0].members)

    @property
    def kinds(self) -> tuple[int, ...]:
        """The kind of each option, counted from 0. Options of one kind are the same behaviour of different agents."""
        return tuple(range(self.num_options))

    @property
    def callers(self) -> tuple[int | None, ...]:
        """The caller of each option, or None. An option with a caller can start only while that agent signals
        (`AbstractEnv.signals`)."""
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
        """A set of the first `num` options."""
        return dataclasses.replace(self, options=self.options[:num])

    def terminates(self, actions: Int[Array, "option agent"], terminate: int) -> Bool[Array, " option"]:
        """Which options end: those whose members all choose to terminate."""
        return jnp.all((actions == terminate) | ~self.members, axis=1)


OPTION_SOURCES: Registry[Callable[[AbstractEnv], AbstractOptions]] = Registry("option source", "cooptions.options")
"""Options that need no discovery: functions from an environment to its options, by name."""
