"""The adapter for multi-agent Jumanji environments."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray, Shaped
from jumanji.env import Environment
from jumanji.specs import MultiDiscreteArray

from cooptions.envs.adapters.base import AbstractAdapter, Wrapped
from cooptions.errors import ConfigError, require
from cooptions.types import TimeStep


def agents_view(observation: Any) -> Any:
    """The field `agents_view` of an observation, which most multi-agent Jumanji environments have."""
    if not hasattr(observation, "agents_view"):
        raise ConfigError(f"observe: a {type(observation).__name__} has no agents_view; say what to show each agent")
    return observation.agents_view


@dataclass(frozen=True)
class FromJumanji(AbstractAdapter):
    """A Jumanji environment with one discrete action per agent, given the factorisation of its state.

    `discount` and `last` are the environment's own. Many of Jumanji's environments report a time limit as a
    termination; `timed_out` distinguishes the two.

        env = co.FromJumanji(
            RobotWarehouse(),
            features=(Feature.coordinate("row", 11), Feature.coordinate("column", 10)),
            factorise=lambda state: jax.numpy.stack([state.agents.position.x, state.agents.position.y], axis=1),
        )
    """

    env: Environment
    observe: Callable[[Any], Any] = agents_view
    """The environment's observation -> [agent, ...]."""

    @cached_property
    def action_counts(self) -> tuple[int, ...]:
        spec = self.env.action_spec
        suits = isinstance(spec, MultiDiscreteArray) and len(spec.shape) == 1
        require(
            suits,
            f"env: its action_spec must be a MultiDiscreteArray of shape [agent], one discrete action per agent, "
            f"not {spec}",
        )
        return tuple(int(count) for count in np.asarray(spec.num_values))

    def reset(self, key: PRNGKeyArray) -> tuple[Wrapped, TimeStep]:
        inner, timestep = self.env.reset(key)
        observation = timestep.observation
        return self._start(inner, self._observation(observation), self._action_mask(observation))

    def step(self, state: Wrapped, action: Int[Array, " agent"], key: PRNGKeyArray) -> tuple[Wrapped, TimeStep]:
        inner, timestep = self.env.step(state.inner, action)  # its state has its own random key
        return self._follow(
            state,
            inner,
            self._observation(timestep.observation),
            self._action_mask(timestep.observation),
            jnp.asarray(timestep.reward),
            discount=jnp.max(timestep.discount).astype(jnp.float32),  # the task ends when it ends for all agents
            last=jnp.asarray(timestep.last()),
        )

    def _observation(self, observation: Any) -> Shaped[Array, "agent ..."]:
        view = jnp.asarray(self.observe(observation))
        expected = f"[agent, ...] with {self.num_agents} agents"
        require(view.shape[:1] == (self.num_agents,), f"observe: returns shape {view.shape}, expected {expected}")
        return view

    def _action_mask(self, observation: Any) -> Bool[Array, "agent action"]:
        mask = getattr(observation, "action_mask", None)
        return self._own_actions() if mask is None else self._own_actions() & mask.astype(bool)
