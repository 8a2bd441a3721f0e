"""Environments of other libraries by name: a class says how a scenario is made and factorised, and nothing more."""

import abc
from functools import cached_property

import jax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from cooptions.envs.adapters.base import AbstractAdapter, Wrapped
from cooptions.envs.wrapper import AbstractAlike
from cooptions.types import TimeStep


class AbstractScenario(AbstractAlike[Wrapped]):
    """An adapter with a name. A subclass is a frozen dataclass: its fields are what a scenario name can set.

    Two scenarios of the same fields are equal, which two adapters with functions of their own never are.
    """

    def __post_init__(self) -> None:
        _ = self.env  # what cannot be made is refused here

    @abc.abstractmethod
    def adapt(self) -> AbstractAdapter:
        """The environment with its factorisation; a `ConfigError` where a field is out of range."""

    @cached_property
    def env(self) -> AbstractAdapter:  # pyright: ignore[reportIncompatibleVariableOverride]
        with jax.ensure_compile_time_eval():  # it may be built inside our trace
            return self.adapt()

    def reset(self, key: PRNGKeyArray) -> tuple[Wrapped, TimeStep]:
        return self.env.reset(key)

    def step(self, state: Wrapped, action: Int[Array, " agent"], key: PRNGKeyArray) -> tuple[Wrapped, TimeStep]:
        return self.env.step(state, action, key)

    def agent_states(self, state: Wrapped) -> Float[Array, "agent feature"]:
        return self.env.agent_states(state)
