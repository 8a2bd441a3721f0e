"""The learner interface: a stage of training on an environment, and a policy that can be evaluated at any time."""

import abc
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from cooptions.envs.base import AbstractEnv
from cooptions.errors import require, require_number, require_whole
from cooptions.learners.networks import NetworkConfig, init_memory
from cooptions.parts import Registry
from cooptions.training.loop import Metrics
from cooptions.types import TimeStep

State = TypeVar("State")


@dataclass(frozen=True)
class LearnerConfig:
    """Hyperparameters of all learners, which alternate between roll-outs in many environments and gradient steps."""

    steps: int = 1_000_000
    """Environment steps of training, over all environments."""
    num_envs: int = 32
    """Parallel environments."""
    rollout: int = 10
    """Steps of each environment between updates. With memory, also the length of training sequences."""
    learning_rate: float = 1e-3
    anneal: bool = False
    """Whether the learning rate falls linearly to 0 over training."""
    max_gradient_norm: float = 1.0
    discount: float = 0.99
    network: NetworkConfig = field(default_factory=NetworkConfig)

    def __post_init__(self) -> None:
        self._require_positive("num_envs", "rollout")
        require_number("learning_rate", self.learning_rate, at_least=0)
        require_number("max_gradient_norm", self.max_gradient_norm, above=0)
        require_number("discount", self.discount, at_least=0, at_most=1)
        require_whole("steps", self.steps, at_most=10**12)
        require(
            self.steps >= self.steps_per_update,
            f"steps must be at least num_envs x rollout = {self.steps_per_update}, not {self.steps}",
        )

    def _require_positive(self, *names: str) -> None:
        for name in names:
            require_whole(name, getattr(self, name))

    @property
    def steps_per_update(self) -> int:
        """Environment steps per update, over all environments."""
        return self.num_envs * self.rollout

    @property
    def num_updates(self) -> int:
        return self.steps // self.steps_per_update

    def build(self) -> "AbstractLearner":
        """The learner with these hyperparameters."""
        raise NotImplementedError(f"{type(self).__name__}.build")

    @property
    def speed_name(self) -> str:
        """The learner's name in files of measured speeds."""
        return type(self).__name__.removesuffix("Config").lower()

    @property
    def intra_option(self) -> bool:
        """Whether each step trains all options that are consistent with it (intra-option learning)."""
        return False

    def optimiser_over(self, num_gradient_steps: int, eps: float = 1e-8) -> optax.GradientTransformation:
        """Adam with gradient clipping, and a learning rate for this number of gradient steps."""
        rate = self.learning_rate
        schedule = optax.linear_schedule(rate, 0.0, num_gradient_steps) if self.anneal else rate
        return optax.chain(optax.clip_by_global_norm(self.max_gradient_norm), optax.adam(schedule, eps=eps))


LEARNERS: Registry[type[LearnerConfig]] = Registry("learner", "cooptions.learners", LearnerConfig)
"""The configuration classes of learners by name."""


@dataclass(frozen=True)
class AbstractLearner(abc.ABC, Generic[State]):
    """A stage whose data is the environment. One step is one update: a roll-out, then gradient steps."""

    config: Any
    """The learner's own subclass of `LearnerConfig`."""

    @property
    def num_updates(self) -> int:
        return self.config.num_updates

    @property
    def steps_per_update(self) -> int:
        return self.config.steps_per_update

    @abc.abstractmethod
    def init(self, data: AbstractEnv, *, key: PRNGKeyArray) -> State: ...

    @abc.abstractmethod
    def step(self, state: State, data: AbstractEnv, *, key: PRNGKeyArray) -> tuple[State, Metrics]: ...

    @abc.abstractmethod
    def policy(self, state: State) -> Any:
        """The part of the state that `act` needs and that is saved: the networks."""

    def init_memory(self, env: AbstractEnv, num_envs: int) -> Float[Array, "env agent memory"]:
        """The agents' initial memory; of width 0 without recurrent networks."""
        return init_memory(env, self.config.network, num_envs)

    @abc.abstractmethod
    def act(
        self,
        policy: Any,
        memory: Float[Array, "env agent memory"],
        timestep: TimeStep,
        first: Bool[Array, " env"],
        *,
        key: PRNGKeyArray,
    ) -> tuple[Float[Array, "env agent memory"], Int[Array, "env agent"]]:
        """The new memory, and the team's actions during evaluation. `first` marks the beginning of an episode."""
