"""The rules by which joint options start, go on and end, as pure functions of one environment's agents.

Several options may run at once, as long as no agent is a member of two of them. What runs is an array over agents: the
option that each of them follows, or -1. All members of a running option follow it, so that members know each other by
having the same entry.
"""

from typing import Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from cooptions.learners.partition import first_fitting, most_at_once

Keep = Literal["none", "majority", "all"]
Start = Literal["threshold", "majority", "all"]
End = Literal["each", "together"]


def ballots(
    action: Int[Array, " agent"], members: Bool[np.ndarray, "option agent"], num_primitives: int
) -> Bool[Array, "option agent"]:
    """Who votes for which option: only the votes of members count."""
    option = np.arange(members.shape[0])[:, None]
    return members & (action[None] == num_primitives + option)


def votes_to_start(
    members: Bool[np.ndarray, "option agent"], thresholds: Int[np.ndarray, " option"], start: Start
) -> Int[np.ndarray, " option"]:
    """How many members must vote for an option so that it starts: its own threshold, at least half, or all."""
    num = members.sum(axis=1)
    return {"threshold": thresholds, "majority": (num + 1) // 2, "all": num}[start]


def votes_to_go_on(members: Bool[np.ndarray, "option agent"], keep: Keep) -> Int[np.ndarray, " option"]:
    """How many members must want an active option to go on: none, at least half, or all (the paper's rule)."""
    num = members.sum(axis=1)
    return {"none": 0 * num, "majority": (num + 1) // 2, "all": num}[keep]


def going_on(
    active: Int[Array, " agent"], votes: Bool[Array, "option agent"], to_go_on: Int[np.ndarray, " option"]
) -> Bool[Array, " agent"]:
    """Who follows an option that goes on, because enough of its members want it to."""
    return (active >= 0) & (votes.sum(axis=1) >= to_go_on)[active]


def elect(
    votes: Bool[Array, "option agent"],
    members: Bool[np.ndarray, "option agent"],
    to_start: Int[np.ndarray, " option"],
    free: Bool[Array, " agent"],
) -> Int[Array, " agent"]:
    """The option that each agent begins to follow, or -1.

    Those with enough votes whose members are all free start, in the order of the set: the first, then the next whose
    members are still free, and so on. Members follow it even if they voted otherwise.
    """
    enough = votes.sum(axis=1) >= to_start
    return first_fitting(jnp.where(enough, 0.0, -jnp.inf), members, free, rounds=most_at_once(members))


def everyone(following: Int[Array, " agent"], agrees: Bool[Array, " agent"]) -> Bool[Array, " agent"]:
    """Whose whole sub-team agrees, a sub-team being the agents that follow the same option."""
    same = following[:, None] == following[None]
    return jnp.all(agrees[None] | ~same, axis=1)


def ending(following: Int[Array, " agent"], agrees: Bool[Array, " agent"], end: End) -> Bool[Array, " agent"]:
    """Whose option ends: where all its members agree (`each`), or where the members of all options that run do.

    With `together`, members of an option that is done stand still until the others are done, too.
    """
    return everyone(following if end == "each" else jnp.minimum(following, 0), agrees)


def consistent(
    executed: Int[Array, " agent"], planned: Int[Array, "option agent"], members: Bool[np.ndarray, "option agent"]
) -> Bool[Array, " option"]:
    """Which options would have had every member do what it did."""
    return jnp.all((planned == executed[None]) | ~members, axis=1)
