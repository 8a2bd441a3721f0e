"""Options that run at once: which of them fit beside each other."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int


def most_at_once(members: Bool[np.ndarray, "option agent"]) -> int:
    """How many options with different members there is room for; 0 where there are no options."""
    sizes = members.sum(axis=1)
    return members.shape[1] // int(sizes.min()) if len(sizes) else 0


def first_fitting(
    preference: Float[Array, " option"],
    members: Bool[Array | np.ndarray, "option agent"],
    free: Bool[Array, " agent"],
    *,
    rounds: int,
) -> Int[Array, " agent"]:
    """Options of free and different members, by falling preference, as the option of each agent, or -1.

    Each round takes the option with the highest preference, the first of equals, among those whose members are all
    still free; one with the preference minus infinity is never taken. Rounds are unrolled, and their number does not
    depend on that of the options.
    """
    taken = jnp.full(free.shape, -1)
    for _ in range(rounds):
        possible = (preference > -jnp.inf) & jnp.all(~members | (free & (taken < 0)), axis=1)
        best = jnp.argmax(jnp.where(possible, preference, -jnp.inf))
        joins = possible[best] & jnp.asarray(members)[best]
        taken = jnp.where(joins, best, taken)
    return taken
