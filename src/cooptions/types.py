"""What all parts of the library share: a time step, a feature of an agent's state, and strongly typed arrays."""

from dataclasses import dataclass
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from cooptions.errors import require


class MacroStep(eqx.Module):
    """Additional information for a learner over joint options: what was done, and how every option relates to it.

    Several options can run at once, with different members: `active`, `age` and `option` are given per agent. `action`
    is what an agent learns from: the primitive action that it executed, chosen by itself or by an option, or its vote
    if the vote failed. An option is `consistent` if all its members did exactly what it would have chosen, and
    `continues` if it would go on from here. `choices` are the actions of an agent that is free to choose. An active
    option narrows the time step's `action_mask`, but the value of a state is still that of its best choice.
    """

    active: Int[Array, " agent"]
    """The option that each agent is executing and that goes on from here; -1 for none."""
    age: Int[Array, " agent"]
    """The number of steps since it began."""
    option: Int[Array, " agent"]
    """The option that each agent followed in this step, even if it ended with it; -1 for none."""
    action: Int[Array, " agent"]
    consistent: Bool[Array, " option"]
    continues: Bool[Array, " option"]
    choices: Bool[Array, "agent action"]
    most_at_once: int = eqx.field(static=True, default=1)
    """The maximum number of options that can run at once."""


class TimeStep(eqx.Module):
    """The data that a team receives after each step. Agents are on the leading axis.

    `discount` is 0 where the task ended and 1 elsewhere, so it stays 1 at a time limit. `last` marks the final step of
    an episode in either case. `score` covers the episode so far: at `last`, it is the episode's result. `shaped_reward`
    is a hint for learning that is part of no score.
    """

    observation: Shaped[Array, "agent ..."]
    action_mask: Bool[Array, "agent action"]
    reward: Float[Array, ""]
    discount: Float[Array, ""]
    last: Bool[Array, ""]
    score: Float[Array, " score"]
    shaped_reward: Float[Array, ""] = eqx.field(default_factory=lambda: jnp.float32(0.0))
    macro: MacroStep | None = None
    """None unless some actions are joint options (`cooptions.options.macro`)."""


def restart(observation: jax.Array, action_mask: jax.Array, num_scores: int) -> TimeStep:
    """The first time step of an episode."""
    return TimeStep(
        observation=observation,
        action_mask=action_mask,
        reward=jnp.float32(0.0),
        discount=jnp.float32(1.0),
        last=jnp.bool_(False),
        score=jnp.zeros(num_scores, jnp.float32),
    )


def strongly_typed(tree: Any) -> Any:
    """The arrays without JAX's weak types. A program whose result has other types than its input is compiled twice."""
    return jax.tree.map(lambda leaf: leaf.astype(leaf.dtype) if leaf.weak_type else leaf, tree)


@dataclass(frozen=True)
class Feature:
    """One component of a single-agent state.

    A `coordinate` takes the ordered values 0 .. size - 1. A `categorical` feature takes the same values without an
    order. A `continuous` one lies between `low` and `high`.
    """

    name: str
    kind: Literal["coordinate", "categorical", "continuous"]
    size: int = 0
    low: float = 0.0
    high: float = 0.0

    @classmethod
    def coordinate(cls, name: str, size: int) -> "Feature":
        return cls(name, "coordinate", size, 0.0, float(size - 1))

    @classmethod
    def categorical(cls, name: str, size: int) -> "Feature":
        return cls(name, "categorical", size, 0.0, float(size - 1))

    @classmethod
    def continuous(cls, name: str, low: float, high: float) -> "Feature":
        return cls(name, "continuous", 0, low, high)

    def __post_init__(self) -> None:
        if self.discrete:
            require(self.size >= 1, f"feature {self.name}: size must be at least 1, not {self.size}")
        else:
            require(self.high > self.low, f"feature {self.name}: high ({self.high}) must exceed low ({self.low})")

    @property
    def discrete(self) -> bool:
        return self.kind != "continuous"
