"""What discovery has to know of an environment."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from cooptions.envs.base import AbstractEnv
from cooptions.types import Feature


@dataclass(frozen=True)
class Team:
    """What discovery has to know of an environment: its agents and the features of their states."""

    features: tuple[Feature, ...]
    agent_features: tuple[tuple[bool, ...], ...]
    agent_types: tuple[int, ...]
    columns: tuple[int, ...] = ()
    """Which features of the environment these are; all of them where left out."""

    @classmethod
    def of(cls, env: AbstractEnv, columns: Sequence[int] | None = None) -> "Team":
        """The team of an environment, with all features or those in `columns`."""
        kept = list(range(len(env.features)) if columns is None else columns)
        rows = tuple(tuple(bool(flag) for flag in row[kept]) for row in env.agent_features)
        chosen = tuple(kept) if kept != list(range(len(env.features))) else ()
        return cls(tuple(env.features[column] for column in kept), rows, env.agent_types, chosen)

    def select(self, agent_states: Shaped[Array, "*batch all_feature"]) -> Shaped[Array, "*batch feature"]:
        """The features of agents' states that the team is described by."""
        return agent_states[..., np.array(self.columns)] if self.columns else agent_states

    @property
    def num_agents(self) -> int:
        return len(self.agent_features)

    @property
    def has_feature(self) -> np.ndarray:
        """Bool[agent, feature]."""
        return np.array(self.agent_features)

    @property
    def num_types(self) -> int:
        return len(set(self.agent_types))

    @property
    def type_has_feature(self) -> np.ndarray:
        """Bool[type, feature]."""
        return np.array([self.agent_features[self.agent_types.index(kind)] for kind in range(self.num_types)])

    @property
    def type_has_input(self) -> np.ndarray:
        """Bool[type, input]."""
        return np.repeat(self.type_has_feature, self.input_widths, axis=1)

    def type_has_head(self, num_heads: int) -> np.ndarray:
        """Bool[type, head]: a head for each feature counts for those that have it; a single one, for all."""
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
        """How many columns each feature takes in `inputs`."""
        return tuple(feature.size if feature.kind == "categorical" else 1 for feature in self.features)

    def input_slices(self) -> tuple[slice, ...]:
        """Where each feature lies in the network input of `inputs`."""
        widths = self.input_widths
        ends = np.cumsum(widths)
        return tuple(slice(int(end - width), int(end)) for end, width in zip(ends, widths, strict=True))

    def inputs(self, states: Shaped[Array, "*batch feature"]) -> Float[Array, "*batch input"]:
        """Single-agent states as network input: coordinates scaled to [-1, 1], categoricals one-hot."""
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
        """As agents of these types see them: what they lack is 0, and the type follows, one-hot, if there are several.

        Both are for heterogeneous teams (paper, appendix on heterogeneous state spaces).
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
        """`inputs`, as agents of these types see them."""
        return self.with_type(self.inputs(states), types)
