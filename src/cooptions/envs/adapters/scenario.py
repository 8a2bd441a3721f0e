"""The base class of named scenarios from other libraries, which only define an adapter."""

import abc
from functools import cached_property

import jax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from cooptions.envs.adapters.base import AbstractAdapter, Wrapped
from cooptions.envs.wrapper import AbstractAlike
from cooptions.types import TimeStep


class AbstractScenario(AbstractAlike[Wrapped]):
    """An adapter with a scenario name. A subclass is a frozen dataclass with the fields that the name can set.

    Two scenarios with equal fields are equal. Two adapters never are, because each has its own functions.
    """

    def __post_init__(self) -> None:
        _ = self.env  # raises early if it cannot be made

    @abc.abstractmethod
    def adapt(self) -> AbstractAdapter:
        """The environment with its factorisation. Raises `ConfigError` if a field is out of range."""

    @cached_property
    def env(self) -> AbstractAdapter:  # pyright: ignore[reportIncompatibleVariableOverride]
        with jax.ensure_compile_time_eval():  # it may be built while tracing
            return self.adapt()

    def reset(self, key: PRNGKeyArray) -> tuple[Wrapped, TimeStep]:
        return self.env.reset(key)

    def step(self, state: Wrapped, action: Int[Array, " agent"], key: PRNGKeyArray) -> tuple[Wrapped, TimeStep]:
        return self.env.step(state, action, key)

    def agent_states(self, state: Wrapped) -> Float[Array, "agent feature"]:
        return self.env.agent_states(state)
