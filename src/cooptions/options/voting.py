"""The rules by which joint options start, continue and end, as pure functions for one environment.

Several options can run in parallel if no agent is a member of two of them. The running options are an array over
agents: the option that each agent follows, or -1. All members of a running option have the same entry.
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
    """Who votes for which option. Only the votes of members count."""
    option = np.arange(members.shape[0])[:, None]
    return members & (action[None] == num_primitives + option)


def votes_to_start(
    members: Bool[np.ndarray, "option agent"], thresholds: Int[np.ndarray, " option"], start: Start
) -> Int[np.ndarray, " option"]:
    """The votes of members that an option needs to start: its own threshold, at least half, or all."""
    num = members.sum(axis=1)
    return {"threshold": thresholds, "majority": (num + 1) // 2, "all": num}[start]


def votes_to_go_on(members: Bool[np.ndarray, "option agent"], keep: Keep) -> Int[np.ndarray, " option"]:
    """The votes of members that an active option needs to continue: none, at least half, or all (the paper's rule)."""
    num = members.sum(axis=1)
    return {"none": 0 * num, "majority": (num + 1) // 2, "all": num}[keep]


def going_on(
    active: Int[Array, " agent"], votes: Bool[Array, "option agent"], to_go_on: Int[np.ndarray, " option"]
) -> Bool[Array, " agent"]:
    """Which agents follow an option that has enough votes to continue."""
    return (active >= 0) & (votes.sum(axis=1) >= to_go_on)[active]


def elect(
    votes: Bool[Array, "option agent"],
    members: Bool[np.ndarray, "option agent"],
    to_start: Int[np.ndarray, " option"],
    free: Bool[Array, " agent"],
) -> Int[Array, " agent"]:
    """The option that each agent begins to follow, or -1.

    Options with enough votes start in the order of the set if all their members are still free. Members follow an
    option even if they voted otherwise.
    """
    enough = votes.sum(axis=1) >= to_start
    return first_fitting(jnp.where(enough, 0.0, -jnp.inf), members, free, rounds=most_at_once(members))


def everyone(following: Int[Array, " agent"], agrees: Bool[Array, " agent"]) -> Bool[Array, " agent"]:
    """Which agents' whole sub-team agrees. A sub-team is the agents that follow the same option."""
    same = following[:, None] == following[None]
    return jnp.all(agrees[None] | ~same, axis=1)


def ending(following: Int[Array, " agent"], agrees: Bool[Array, " agent"], end: End) -> Bool[Array, " agent"]:
    """Which agents' option ends: if all its members agree (`each`), or if the members of all options do (`together`).

    With `together`, the members of a finished option stand still until all options are finished.
    """
    return everyone(following if end == "each" else jnp.minimum(following, 0), agrees)


def consistent(
    executed: Int[Array, " agent"], planned: Int[Array, "option agent"], members: Bool[np.ndarray, "option agent"]
) -> Bool[Array, " option"]:
    """Which options would have chosen the executed action for every member."""
    return jnp.all((planned == executed[None]) | ~members, axis=1)
