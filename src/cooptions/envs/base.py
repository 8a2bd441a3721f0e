"""The environment interface, which walks, options and learners use."""

import abc
import dataclasses
import re
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, ClassVar, Generic, Literal, TypeVar, Union, get_args, get_origin

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from cooptions.errors import ConfigError, require
from cooptions.parts import Registry
from cooptions.types import Feature, TimeStep

State = TypeVar("State")


class _Bound:
    """A method that `jax.jit` accepts. Equinox's bound methods hash the module's arrays, which cannot be hashed."""

    def __init__(self, method: Callable) -> None:
        self.method = method

    def __get__(self, instance: Any, owner: type | None = None) -> Callable:
        return self.method if instance is None else partial(self.method, instance)


class AbstractEnv(abc.ABC, Generic[State]):
    """A cooperative team task.

    An environment is a frozen dataclass: its fields are its configuration, its methods are pure, and it never resets
    itself (see `cooptions.envs.rollout`). An environment that differs between seeds is an `eqx.Module` instead, whose
    arrays have a leading seed axis. A new environment needs the abstract members below. To have scenario names, it also
    sets `pattern`, with its fields as named groups, and `form` and `examples` (`cooptions.envs.names`).

        env = co.make_env("grid-8x8-2p")
        assert isinstance(env, co.AbstractEnv)
        state, timestep = env.reset(key)
        state, timestep = env.step(state, jax.numpy.full(env.num_agents, env.noop), key)
        env.agent_states(state)  # [agent, feature]
    """

    pattern: ClassVar[str] = ""
    """A regular expression for the scenario name after the family, with fields as named groups."""
    form: ClassVar[str] = ""
    """The form of a scenario name in words, including the family, for example `grid-HxW-Pp`."""
    examples: ClassVar[tuple[str, ...]] = ()
    """Scenarios that `cooptions list` shows."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Register the class as a pytree, so that learners take environments as data. Only a Module has leaves."""
        super().__init_subclass__(**arguments)
        if not issubclass(cls, eqx.Module):
            jax.tree_util.register_static(cls)
            return
        for name in ("reset", "step", "agent_states"):
            if name in cls.__dict__:
                setattr(cls, name, _Bound(getattr(cls, name)))

    @property
    @abc.abstractmethod
    def num_agents(self) -> int: ...

    @property
    @abc.abstractmethod
    def num_actions(self) -> int: ...

    @property
    @abc.abstractmethod
    def noop(self) -> int:
        """The action that stands still. An agent takes it if it votes for an option that does not start."""

    @property
    @abc.abstractmethod
    def features(self) -> tuple[Feature, ...]:
        """The features of one agent's state, in the order of `agent_states`."""

    @property
    @abc.abstractmethod
    def score_names(self) -> tuple[str, ...]: ...

    @property
    def action_names(self) -> tuple[str, ...]:
        """The names of the actions. Option policies refer to actions by name, so they work in other tasks."""
        return tuple(f"action {number}" for number in range(self.num_actions))

    @property
    def ground(self) -> str | None:
        """A name for what agents move on, apart from the ranges of their features: a map, or a hash of it.

        Option policies with relation sight fit every environment with the same agents, features and ground. None means
        unknown; such policies then fit no other environment.
        """
        return None

    @property
    def agent_features(self) -> np.ndarray:
        """Bool[agent, feature]: which features each agent's state has. Missing ones are padded with 0."""
        return np.ones((self.num_agents, len(self.features)), bool)

    @cached_property
    def shows_pictures(self) -> bool:
        """Whether agents observe pictures instead of vectors."""
        _, timestep = jax.eval_shape(self.reset, jax.random.key(0))
        return timestep.observation.ndim > 2

    @property
    def num_options(self) -> int:
        """The number of joint options. They are the last actions."""
        return 0

    @property
    def option_members(self) -> np.ndarray:
        """Bool[option, agent]: the members of each option."""
        return np.ones((self.num_options, self.num_agents), bool)

    @property
    def option_kinds(self) -> tuple[int, ...]:
        """The kind of each option, counted from 0. Options of one kind are the same behaviour of different agents."""
        return tuple(range(self.num_options))

    @property
    def shaping_horizon(self) -> int:
        """The steps of training over which the weight of `shaped_reward` falls from 1 to 0. With 0 it is not used."""
        return 0

    @property
    def task_rules(self) -> dict[str, bool | int | str]:
        """The rules in effect, by name, if they do not follow from the fields alone.

        They are part of the configuration of runs and option sets, and shown on cards.
        """
        return {}

    @property
    def files(self) -> tuple[Path, ...]:
        """The files it is read from. Their content is part of the configuration of runs and option sets."""
        return ()

    @abc.abstractmethod
    def reset(self, key: PRNGKeyArray) -> tuple[State, TimeStep]: ...

    def reset_to(self, agent_states: Float[np.ndarray, "agent feature"], key: PRNGKeyArray) -> tuple[State, TimeStep]:
        """Like `reset`, but with the agents in these states.

        Optional, and called outside of `jax.jit`. It raises `ConfigError` for impossible states. It is used to play an
        option from given positions.
        """
        raise ConfigError(f"{type(self).__name__} cannot begin from given states of its agents: define `reset_to`")

    @abc.abstractmethod
    def step(self, state: State, action: Int[Array, " agent"], key: PRNGKeyArray) -> tuple[State, TimeStep]: ...

    @abc.abstractmethod
    def agent_states(self, state: State) -> Float[Array, "agent feature"]:
        """The paper's factorisation g: the joint state as one state per agent (Section 3.1)."""

    def signals(self, state: State) -> Bool[Array, " agent"]:
        """Which agents signal to their teammates that they have found something.

        Options that an agent calls for can start only while it signals (`AbstractOptions.callers`). By default, no
        agent ever does.
        """
        return jnp.zeros(self.num_agents, bool)

    @property
    def agent_types(self) -> tuple[int, ...]:
        """The type of each agent. Agents with the same features share a type; types are numbered as they appear."""
        rows = [tuple(row) for row in self.agent_features]
        kinds = list(dict.fromkeys(rows))
        return tuple(kinds.index(row) for row in rows)

    @classmethod
    def parse(cls, stem: str, options: dict[str, str]) -> "AbstractEnv":
        """Make the environment from the part of a scenario name after the family, and `field=value` options."""
        match = re.fullmatch(cls.pattern, stem)
        assert match, f"{stem!r} does not match {cls.pattern}"
        fields = {field.name: field.type for field in dataclasses.fields(cls)}  # pyright: ignore[reportArgumentType]
        given = {name: text for name, text in match.groupdict().items() if text is not None} | options
        unknown = [name for name in given if name not in fields]
        require(not unknown, f"scenario: unknown option {', '.join(unknown)}; there are {', '.join(fields)}")
        return cls(**{name: _convert(name, fields[name], text) for name, text in given.items()})


FAMILIES: Registry[type[AbstractEnv]] = Registry("environment", "cooptions.envs", AbstractEnv)
"""Families of environments by the first word of their scenario names."""


def _convert(name: str, kind: Any, text: str) -> Any:
    """Convert a scenario option to the type of its field, which may be optional."""
    if get_origin(kind) in (Union, UnionType):
        kind = next(part for part in get_args(kind) if part is not NoneType)
    if get_origin(kind) is Literal:
        require(text in get_args(kind), f"scenario: {name} must be one of {', '.join(get_args(kind))}, not {text!r}")
    if kind is bool:
        require(text in ("true", "false"), f"scenario: {name} must be true or false, not {text!r}")
        return text == "true"
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            raise ConfigError(f"scenario: {name} must be a number, not {text!r}") from None
    return text


def require_on_axes(features: tuple[Feature, ...], agent_states: Float[np.ndarray, "agent feature"]) -> None:
    """Raise `ConfigError` for agents' states with values outside a feature's range."""
    for agent, row in enumerate(agent_states):
        for feature, value in zip(features, row.tolist(), strict=True):
            allowed = f"a whole number from 0 to {feature.size - 1}" if feature.discrete else "a number"
            fits = feature.low <= value <= feature.high and (not feature.discrete or value == int(value))
            if not feature.discrete:
                allowed = f"from {feature.low:g} to {feature.high:g}"
            require(fits, f"agent {agent + 1}: {feature.name} must be {allowed}, not {value:g}")


def require_apart(cells: Int[np.ndarray, "agent 2"]) -> None:
    """Raise `ConfigError` if two agents share a cell."""
    for agent, cell in enumerate(cells):
        same = np.flatnonzero((cells[:agent] == cell).all(axis=1))
        require(not len(same), f"agents {[*same + 1, 0][0]} and {agent + 1} stand on one cell, which holds one agent")


def check_env(env: AbstractEnv) -> None:
    """Check an environment's declarations against the shapes it produces, without running it."""
    key = jax.ShapeDtypeStruct((), jax.random.key(0).dtype)
    state, timestep = jax.eval_shape(env.reset, key)
    declared = {
        "agent_states": (jax.eval_shape(env.agent_states, state).shape, (env.num_agents, len(env.features))),
        "agent_features": (env.agent_features.shape, (env.num_agents, len(env.features))),
        "action_mask": (timestep.action_mask.shape, (env.num_agents, env.num_actions)),
        "observation (leading axis)": (timestep.observation.shape[:1], (env.num_agents,)),
        "score": (timestep.score.shape, (len(env.score_names),)),
    }
    for name, (actual, expected) in declared.items():
        require(actual == expected, f"{type(env).__name__}: {name} has shape {actual}, expected {expected}")
    names = env.action_names
    require(
        len(set(names)) == len(names) == env.num_actions,
        f"{type(env).__name__}: action_names must be {env.num_actions} different names, not {', '.join(names)}",
    )
    action = jax.ShapeDtypeStruct((env.num_agents,), np.int32)
    following, _ = jax.eval_shape(env.step, state, action, key)
    require(
        jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), following)
        == jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), state),
        f"{type(env).__name__}: step and reset return states of different shapes or dtypes",
    )
