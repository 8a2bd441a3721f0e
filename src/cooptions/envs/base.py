"""The environment interface: the only one that walks, options and learners know."""

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
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from cooptions.errors import ConfigError, require
from cooptions.parts import Registry
from cooptions.types import Feature, TimeStep

State = TypeVar("State")


class _Bound:
    """A method that `jax.jit` takes: Equinox binds methods to objects that hash by their arrays, which have no hash."""

    def __init__(self, method: Callable) -> None:
        self.method = method

    def __get__(self, instance: Any, owner: type | None = None) -> Callable:
        return self.method if instance is None else partial(self.method, instance)


class AbstractEnv(abc.ABC, Generic[State]):
    """A cooperative team task.

    An environment is a frozen dataclass: its fields are its configuration, its methods are pure, and it never resets
    itself (see `cooptions.envs.rollout`). One that differs from seed to seed is an `eqx.Module` instead, whose arrays
    have a leading seed axis. A new environment needs the abstract members below; to be reachable by a scenario name it
    also sets `pattern`, with its fields as named groups, and `form` and `examples` (`cooptions.envs.names`).

        env = co.make_env("grid-8x8-2p")
        assert isinstance(env, co.AbstractEnv)
        state, timestep = env.reset(key)
        state, timestep = env.step(state, jax.numpy.full(env.num_agents, env.noop), key)
        env.agent_states(state)  # [agent, feature]
    """

    pattern: ClassVar[str] = ""
    """What follows the family in a scenario name, as a regular expression with fields as named groups."""
    form: ClassVar[str] = ""
    """The same for people, family included: `grid-HxW-Pp`."""
    examples: ClassVar[tuple[str, ...]] = ()
    """Scenarios that `cooptions list` shows."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Every environment is a pytree, so that a learner takes it as data: of no leaves, unless it is a Module."""
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
        """The action that stands still: what an agent does while its vote has not been heard."""

    @property
    @abc.abstractmethod
    def features(self) -> tuple[Feature, ...]:
        """The features of one agent's state, in the order of `agent_states`."""

    @property
    @abc.abstractmethod
    def score_names(self) -> tuple[str, ...]: ...

    @property
    def action_names(self) -> tuple[str, ...]:
        """What the actions are called. Option policies know actions by name, and so find them in another task."""
        return tuple(f"action {number}" for number in range(self.num_actions))

    @property
    def ground(self) -> str | None:
        """What agents move on, apart from the ranges of their features: a map, or a hash of it.

        Option policies that see the agents alone fit every environment with the same agents, features and ground. None
        says that nothing is known: then they fit no other environment.
        """
        return None

    @property
    def agent_features(self) -> np.ndarray:
        """Bool[agent, feature]: which features an agent's state has; those it lacks are padded with 0."""
        return np.ones((self.num_agents, len(self.features)), bool)

    @cached_property
    def shows_pictures(self) -> bool:
        """Whether an agent observes pictures, not vectors."""
        _, timestep = jax.eval_shape(self.reset, jax.random.key(0))
        return timestep.observation.ndim > 2

    @property
    def num_options(self) -> int:
        """How many of the actions, the last ones, are joint options."""
        return 0

    @property
    def option_members(self) -> np.ndarray:
        """Bool[option, agent]: who takes part in which of them."""
        return np.ones((self.num_options, self.num_agents), bool)

    @property
    def option_kinds(self) -> tuple[int, ...]:
        """Which of them are the same behaviour, of different agents: they have the same number, counted from 0."""
        return tuple(range(self.num_options))

    @property
    def shaping_horizon(self) -> int:
        """Steps of training over which `shaped_reward` fades from full to nothing; 0 leaves it out."""
        return 0

    @property
    def task_rules(self) -> dict[str, bool | int | str]:
        """The rules that apply, by name, where fields leave them open: part of what a run, or an option set, was made
        with, and told on its card."""
        return {}

    @property
    def files(self) -> tuple[Path, ...]:
        """Files it is read from: their content is part of what a run, or an option set, was made with."""
        return ()

    @abc.abstractmethod
    def reset(self, key: PRNGKeyArray) -> tuple[State, TimeStep]: ...

    def reset_to(self, agent_states: Float[np.ndarray, "agent feature"], key: PRNGKeyArray) -> tuple[State, TimeStep]:
        """Like `reset`, with the agents in these states: everything else is as `reset` draws it.

        Optional, and called outside of `jax.jit`: it refuses states that no agents can be in. An option is played from
        given places with it.
        """
        raise ConfigError(f"{type(self).__name__} cannot begin from given states of its agents: define `reset_to`")

    @abc.abstractmethod
    def step(self, state: State, action: Int[Array, " agent"], key: PRNGKeyArray) -> tuple[State, TimeStep]: ...

    @abc.abstractmethod
    def agent_states(self, state: State) -> Float[Array, "agent feature"]:
        """The paper's factorisation g: the joint state as one state per agent (Section 3.1)."""

    @property
    def agent_types(self) -> tuple[int, ...]:
        """Agents that have the same features are of one type; types are numbered in order of appearance."""
        rows = [tuple(row) for row in self.agent_features]
        kinds = list(dict.fromkeys(rows))
        return tuple(kinds.index(row) for row in rows)

    @classmethod
    def parse(cls, stem: str, options: dict[str, str]) -> "AbstractEnv":
        """Build the environment from the part of a scenario name after its family, and `field=value` options."""
        match = re.fullmatch(cls.pattern, stem)
        assert match, f"{stem!r} does not match {cls.pattern}"
        fields = {field.name: field.type for field in dataclasses.fields(cls)}  # pyright: ignore[reportArgumentType]
        given = {name: text for name, text in match.groupdict().items() if text is not None} | options
        unknown = [name for name in given if name not in fields]
        require(not unknown, f"scenario: unknown option {', '.join(unknown)}; there are {', '.join(fields)}")
        return cls(**{name: _convert(name, fields[name], text) for name, text in given.items()})


FAMILIES: Registry[type[AbstractEnv]] = Registry("environment", "cooptions.envs", AbstractEnv)
"""Families of environments, by the word that their scenario names begin with."""


def _convert(name: str, kind: Any, text: str) -> Any:
    """Read a scenario option as the type of its field, which may also be None."""
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
    """Refuse agents' states with values that a feature does not have."""
    for agent, row in enumerate(agent_states):
        for feature, value in zip(features, row.tolist(), strict=True):
            allowed = f"a whole number from 0 to {feature.size - 1}" if feature.discrete else "a number"
            fits = feature.low <= value <= feature.high and (not feature.discrete or value == int(value))
            if not feature.discrete:
                allowed = f"from {feature.low:g} to {feature.high:g}"
            require(fits, f"agent {agent + 1}: {feature.name} must be {allowed}, not {value:g}")


def require_apart(cells: Int[np.ndarray, "agent 2"]) -> None:
    """Refuse agents that share a cell, where none may."""
    for agent, cell in enumerate(cells):
        same = np.flatnonzero((cells[:agent] == cell).all(axis=1))
        require(not len(same), f"agents {[*same + 1, 0][0]} and {agent + 1} stand on one cell, which holds one agent")


def check_env(env: AbstractEnv) -> None:
    """Compare what an environment declares with the shapes it produces, without running it."""
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
