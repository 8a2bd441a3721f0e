"""The records that every part of the library speaks: a time step, and a feature of an agent's state."""

from dataclasses import dataclass
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from cooptions.errors import require


class MacroStep(eqx.Module):
    """What a learner over joint options is told besides: what was done, and what each option would make of it.

    Several options may run at once, with different members: `active`, `age` and `option` say of each agent which one it
    follows. `action` is what an agent has to learn from: the primitive it executed, be it by its own choice or by an
    option's, or its vote where that failed. An option is `consistent` where all its members did just what it would have
    had them do, and `continues` where it would go on from here. `choices` are the actions of an agent that is free to
    choose: an active option narrows the time step's `action_mask`, but a state is worth its best choice all the same.
    """

    active: Int[Array, " agent"]
    """The option that each agent is executing and that goes on from here; -1 for none."""
    age: Int[Array, " agent"]
    """Steps since it began."""
    option: Int[Array, " agent"]
    """The option that led each agent in this step, be it its last or not; -1 for none."""
    action: Int[Array, " agent"]
    consistent: Bool[Array, " option"]
    continues: Bool[Array, " option"]
    choices: Bool[Array, "agent action"]
    most_at_once: int = eqx.field(static=True, default=1)
    """How many options can run at once."""


class TimeStep(eqx.Module):
    """What a team is given after each step. Agents are on the leading axis.

    `discount` is 0 where the task ended and 1 elsewhere, so a time limit keeps it at 1; `last` marks the
    final step of an episode for either reason. `score` counts from the episode's start: at `last` it is the
    episode's result. `shaped_reward` is a hint for learning that no score counts.
    """

    observation: Shaped[Array, "agent ..."]
    action_mask: Bool[Array, "agent action"]
    reward: Float[Array, ""]
    discount: Float[Array, ""]
    last: Bool[Array, ""]
    score: Float[Array, " score"]
    shaped_reward: Float[Array, ""] = eqx.field(default_factory=lambda: jnp.float32(0.0))
    macro: MacroStep | None = None
    """Only where some actions are joint options (`cooptions.options.macro`)."""


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


@dataclass(frozen=True)
class Feature:
    """One component of a single-agent state.

    A `coordinate` takes the values 0 .. size - 1 and neighbours mean something; a `categorical` takes the
    same values without an order; a `continuous` one lies between `low` and `high`.
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
