"""Selection of options with disjoint members, which can run in parallel."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int


def most_at_once(members: Bool[np.ndarray, "option agent"]) -> int:
    """An upper bound on the number of options with disjoint members; 0 without options."""
    sizes = members.sum(axis=1)
    return members.shape[1] // int(sizes.min()) if len(sizes) else 0


def first_fitting(
    preference: Float[Array, " option"],
    members: Bool[Array | np.ndarray, "option agent"],
    free: Bool[Array, " agent"],
    *,
    rounds: int,
) -> Int[Array, " agent"]:
    """Select options with disjoint, free members in descending order of preference. Returns each agent's option, or -1.

    Each round selects the option with the highest preference among those whose members are all still free. The first
    of equals wins, and options with preference -inf are never selected. Rounds are unrolled; their number does not
    depend on the number of options.
    """
    taken = jnp.full(free.shape, -1)
    for _ in range(rounds):
        possible = (preference > -jnp.inf) & jnp.all(~members | (free & (taken < 0)), axis=1)
        best = jnp.argmax(jnp.where(possible, preference, -jnp.inf))
        joins = possible[best] & jnp.asarray(members)[best]
        taken = jnp.where(joins, best, taken)
    return taken
