"""Base classes of environments that wrap another one."""

from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from cooptions.envs.base import AbstractEnv
from cooptions.types import Feature, TimeStep

State = TypeVar("State")


class AbstractAlike(AbstractEnv[State]):
    """An environment with another one in `env`, to which it delegates what it does not define."""

    env: AbstractEnv

    @property
    def num_agents(self) -> int:
        return self.env.num_agents

    @property
    def num_actions(self) -> int:
        return self.env.num_actions

    @property
    def num_options(self) -> int:
        return self.env.num_options

    @property
    def option_members(self) -> np.ndarray:
        return self.env.option_members

    @property
    def option_kinds(self) -> tuple[int, ...]:
        return self.env.option_kinds

    @property
    def noop(self) -> int:
        return self.env.noop

    @property
    def action_names(self) -> tuple[str, ...]:
        return self.env.action_names

    @property
    def ground(self) -> str | None:
        return self.env.ground

    @property
    def features(self) -> tuple[Feature, ...]:
        return self.env.features

    @property
    def agent_features(self) -> np.ndarray:
        return self.env.agent_features

    @property
    def score_names(self) -> tuple[str, ...]:
        return self.env.score_names

    @property
    def shaping_horizon(self) -> int:
        return self.env.shaping_horizon

    @property
    def task_rules(self) -> dict[str, bool | int | str]:
        return self.env.task_rules

    @property
    def files(self) -> tuple[Path, ...]:
        return self.env.files


class AbstractWrapper(eqx.Module, AbstractAlike[State]):
    """An environment that wraps another one and may hold arrays. It delegates what it does not define."""

    env: eqx.AbstractVar[AbstractEnv]

    def reset(self, key: PRNGKeyArray) -> tuple[State, TimeStep]:
        return self.env.reset(key)

    def agent_states(self, state: State) -> Float[Array, "agent feature"]:
        return self.env.agent_states(state)

    def signals(self, state: State) -> Bool[Array, " agent"]:
        return self.env.signals(self.inner_state(state))

    def inner_state(self, state: Any) -> Any:
        """The state of the wrapped environment, by default the field `inner`."""
        return state.inner


def innermost(env: AbstractEnv) -> AbstractEnv:
    """The environment inside all wrappers."""
    while isinstance(env, AbstractWrapper):
        env = env.env
    return env


def innermost_state(env: AbstractEnv, state: Any) -> Any:
    """The state of the environment inside all wrappers."""
    while isinstance(env, AbstractWrapper):
        env, state = env.env, env.inner_state(state)
    return state
