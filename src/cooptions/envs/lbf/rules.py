"""The rules in which versions of Level-Based Foraging differ."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

Reach = Literal["corner", "side"]
Coop = Literal["all", "three_lowest", "two_lowest", "none"]
Flag = Literal["sees", "reaches"]
Mask = Literal["reach", "side", "moves", "none"]
RuleSet = Literal["paper", "jumanji"]

REACH_CELLS: Mapping[Reach, int] = MappingProxyType({"corner": 8, "side": 4})
"""The number of cells from which an apple can be loaded."""

NUM_LOWEST: Mapping[Coop, int | None] = MappingProxyType({"all": None, "three_lowest": 3, "two_lowest": 2, "none": 3})
"""The number of lowest agent levels whose sum bounds an apple's level; None is all of them."""


@dataclass(frozen=True)
class Rules:
    """A complete set of rules."""

    sight: int
    """The distance in cells, along each axis, up to which an agent sees an apple; 0 is the whole grid."""
    reach: Reach
    """The cells from which an agent loads an apple: all eight around it, or its four sides."""
    coop: Coop
    """An apple's level: the sum of the agents' levels, all or the lowest; or (`none`) random up to the three lowest."""
    knows_place: bool
    """Whether an agent knows its position on the grid, or only its position within its field of view."""
    flag: Flag
    """The meaning of the bit per agent that all observe: the agent sees an apple, or has an apple within reach."""
    mask: Mask
    """When loading is available: within reach of an apple, or beside one of its four sides, or always (`moves`: moves
    are still masked). With `none`, every action is always available."""


RULE_SETS: Mapping[RuleSet, Rules] = MappingProxyType(
    {
        "paper": Rules(sight=2, reach="corner", coop="all", knows_place=False, flag="sees", mask="reach"),
        "jumanji": Rules(sight=0, reach="side", coop="three_lowest", knows_place=True, flag="reaches", mask="reach"),
    }
)
"""`paper`: Section 4 and the first author's fork of Jumanji. `jumanji`: the public version, with forced cooperation."""


def within_reach(reach: Reach, offset: Int[Array | np.ndarray, "*pair 2"]) -> Bool[Array, "*pair"]:
    """Whether an apple at this offset from an agent can be loaded."""
    distance = jnp.abs(offset)
    return distance.max(axis=-1) <= 1 if reach == "corner" else distance.sum(axis=-1) == 1


def required_level(coop: Coop, level: Int[Array, " agent"]) -> Int[Array, ""]:
    """The highest level that an apple can have in a team of these levels."""
    num = NUM_LOWEST[coop]
    return level.sum() if num is None else jnp.sort(level)[:num].sum()
