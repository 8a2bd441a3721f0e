"""The description of an environment that discovery needs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from cooptions.envs.base import AbstractEnv
from cooptions.errors import require, require_whole
from cooptions.types import Feature

Members = int | tuple[int, ...]
"""The members of a sub-team: a number of agents of one type, or agents that stand for all of the same types."""


@dataclass(frozen=True)
class Team:
    """The description of an environment that discovery needs: its agents and the features of their states."""

    features: tuple[Feature, ...]
    agent_features: tuple[tuple[bool, ...], ...]
    agent_types: tuple[int, ...]
    columns: tuple[int, ...] = ()
    """The indices of these features in the environment. Empty for all features."""
    part_of: "Team | None" = field(default=None, metadata={"may_be_absent": True})
    """The whole team, if this is a sub-team. Types keep their numbers."""

    @classmethod
    def of(cls, env: AbstractEnv, columns: Sequence[int] | None = None) -> "Team":
        """The team of an environment, with all features or those in `columns`."""
        kept = list(range(len(env.features)) if columns is None else columns)
        rows = tuple(tuple(bool(flag) for flag in row[kept]) for row in env.agent_features)
        chosen = tuple(kept) if kept != list(range(len(env.features))) else ()
        return cls(tuple(env.features[column] for column in kept), rows, env.agent_types, chosen)

    def select(self, agent_states: Shaped[Array, "*batch all_feature"]) -> Shaped[Array, "*batch feature"]:
        """The features of agents' states that belong to this description."""
        return agent_states[..., np.array(self.columns)] if self.columns else agent_states

    def part(self, members: Members) -> "Team":
        """The sub-team of these members, or the team itself if they are all of it."""
        chosen = subteams(self.agent_types, members)[0]
        if len(chosen) == self.num_agents:
            return self
        rows, types = (tuple(each[agent] for agent in chosen) for each in (self.agent_features, self.agent_types))
        return Team(self.features, rows, types, self.columns, part_of=self)

    @property
    def whole(self) -> "Team":
        """The team that this is a sub-team of, or this team."""
        return self.part_of or self

    @property
    def places(self) -> Int[np.ndarray, "subteam member"]:
        """The agents of the whole team in each sub-team that this one stands for."""
        return _alike(self.whole.agent_types, self.agent_types)

    @property
    def num_agents(self) -> int:
        return len(self.agent_features)

    @property
    def has_feature(self) -> np.ndarray:
        """Bool[agent, feature]."""
        return np.array(self.agent_features)

    @property
    def num_types(self) -> int:
        """The number of types in the whole team."""
        return len(set(self.whole.agent_types))

    @property
    def type_has_feature(self) -> np.ndarray:
        """Bool[type, feature]."""
        whole = self.whole
        return np.array([whole.agent_features[whole.agent_types.index(kind)] for kind in range(self.num_types)])

    @property
    def type_has_input(self) -> np.ndarray:
        """Bool[type, input]."""
        return np.repeat(self.type_has_feature, self.input_widths, axis=1)

    def type_has_head(self, num_heads: int) -> np.ndarray:
        """Bool[type, head]: one head per feature applies to agents that have the feature. Other heads apply to all
        agents."""
        if num_heads == len(self.features):
            return self.type_has_feature
        return np.ones((self.num_types, num_heads), bool)

    @property
    def num_inputs(self) -> int:
        """The width of `inputs`."""
        return self.input_slices()[-1].stop

    @property
    def num_typed_inputs(self) -> int:
        """The width of `typed_inputs`."""
        return self.num_inputs + (self.num_types if self.num_types > 1 else 0)

    @property
    def input_widths(self) -> tuple[int, ...]:
        """The number of columns of each feature in `inputs`."""
        return tuple(feature.size if feature.kind == "categorical" else 1 for feature in self.features)

    def input_slices(self) -> tuple[slice, ...]:
        """The columns of each feature in `inputs`."""
        widths = self.input_widths
        ends = np.cumsum(widths)
        return tuple(slice(int(end - width), int(end)) for end, width in zip(ends, widths, strict=True))

    def inputs(self, states: Shaped[Array, "*batch feature"]) -> Float[Array, "*batch input"]:
        """Single-agent states as network input: categorical features one-hot, all others scaled to [-1, 1]."""
        columns = []
        for index, feature in enumerate(self.features):
            value = states[..., index].astype(jnp.float32)
            if feature.kind == "categorical":
                columns.append((value[..., None] == jnp.arange(feature.size)).astype(jnp.float32))
            else:
                width = max(feature.high - feature.low, 1.0) if feature.discrete else feature.high - feature.low
                columns.append((2 * (value - feature.low) / width - 1)[..., None])
        return jnp.concatenate(columns, axis=-1)

    def with_type(
        self, inputs: Float[Array, "*batch input"], types: Int[Array | np.ndarray, "*batch"]
    ) -> Float[Array, "*batch typed_input"]:
        """Network input as agents of these types see it: what they lack is 0, and a one-hot type is appended.

        The type is appended only if there are several. Both are for heterogeneous teams (paper, appendix on
        heterogeneous state spaces).
        """
        if self.num_types > 1 or not self.type_has_feature.all():
            inputs = jnp.where(jnp.asarray(self.type_has_input)[types], inputs, 0.0)
        if self.num_types > 1:
            one_hot = (jnp.asarray(types)[..., None] == jnp.arange(self.num_types)).astype(jnp.float32)
            inputs = jnp.concatenate([inputs, one_hot], axis=-1)
        return inputs

    def typed_inputs(
        self, states: Shaped[Array, "*batch feature"], types: Int[Array | np.ndarray, "*batch"]
    ) -> Float[Array, "*batch typed_input"]:
        """`inputs` as agents of these types see them."""
        return self.with_type(self.inputs(states), types)


def subteams(agent_types: tuple[int, ...], members: Members) -> Int[np.ndarray, "subteam member"]:
    """The agents of every sub-team that `members` stands for, in the order of the team.

    A number stands for all sub-teams of this size, and needs agents of one type. Agents stand for all sub-teams of the
    same types in the same order.
    """
    num = len(agent_types)
    if isinstance(members, tuple):
        for agent in members:
            require_whole("members", agent, at_least=0, at_most=num - 1)
        require(
            len(members) >= 2 and list(members) == sorted(set(members)),
            f"members must be two or more different agents in the order of the team, not {members}",
        )
        return _alike(agent_types, tuple(agent_types[agent] for agent in members))
    require_whole("members", members, at_least=2, at_most=num)
    require(
        members == num or len(set(agent_types)) == 1,
        f"members: these {num} agents are of several types, so that {members} of them may be "
        f"{_compositions(agent_types, members)}: say which",
    )
    return np.array(list(combinations(range(num), members)))


def _alike(agent_types: tuple[int, ...], wanted: tuple[int, ...]) -> Int[np.ndarray, "subteam member"]:
    """Every sub-team with these types in this order."""
    every = combinations(range(len(agent_types)), len(wanted))
    return np.array([chosen for chosen in every if tuple(agent_types[agent] for agent in chosen) == wanted])


def _compositions(agent_types: tuple[int, ...], num: int) -> str:
    """The kinds of sub-teams of this size in words, with an example of each."""
    kinds: dict[tuple[int, ...], tuple[int, ...]] = {}
    for chosen in combinations(range(len(agent_types)), num):
        kinds.setdefault(tuple(agent_types[agent] for agent in chosen), chosen)
    told = [f"{chosen} of types {', '.join(map(str, types))}" for types, chosen in kinds.items()]
    return " or ".join(told)
