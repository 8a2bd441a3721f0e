"""How well things went, which PPO and traces ask, and what policy and critic of PPO lose by it.

Sequences are of ticks, some of which are no steps but the ends of episodes (`cooptions.envs.rollout.tick`).
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def advantages(
    reward: Float[Array, "time *batch"],
    discount: Float[Array, "time *batch"],
    valid: Bool[Array, "time *batch"],
    value: Float[Array, "time_plus_one *batch"],
    *,
    decay: float,
) -> Float[Array, "time *batch"]:
    """By how much what was done turned out better than what the critic expected.

        A_t = r_t + discount_t V_{t+1} - V_t + decay discount_t A_{t+1}   where t is a step, and 0 where it is none

    `reward` and `discount` are what the step from t to t + 1 brought. A tick that is not `valid` lies at the end of an
    episode and leads to the start of another one. As it has a value but no advantage, a time limit bootstraps from
    the final observation, an end (discount 0) from nothing, and neither from the next episode.
    """
    error = reward + discount * value[1:] - value[:-1]

    def back(later: Array, tick: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        error_t, discount_t, valid_t = tick
        advantage = jnp.where(valid_t, error_t + decay * discount_t * later, 0.0)
        return advantage, advantage

    _, found = jax.lax.scan(back, jnp.zeros_like(value[-1]), (error, discount, valid), reverse=True)
    return found


def masked_mean(value: Float[Array, "*batch"], valid: Bool[Array, "*batch"]) -> Float[Array, ""]:
    """The mean over what is valid; 0 where nothing is."""
    return jnp.where(valid, value, 0.0).sum() / jnp.maximum(valid.sum(), 1)


def standardise(value: Float[Array, "*batch"], valid: Bool[Array, "*batch"]) -> Float[Array, "*batch"]:
    """Shift and scale what is valid to mean 0 and standard deviation 1."""
    centred = value - masked_mean(value, valid)
    return centred / (jnp.sqrt(masked_mean(centred**2, valid)) + 1e-8)


def policy_losses(
    ratio: Float[Array, "*batch"], advantage: Float[Array, "*batch"], clip: float
) -> Float[Array, "*batch"]:
    """What was better than expected shall become likelier, as long as it did not do so by more than `clip` already."""
    return -jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - clip, 1 + clip) * advantage)


def value_losses(
    value: Float[Array, "*batch"], before: Float[Array, "*batch"], goal: Float[Array, "*batch"], clip: float | None
) -> Float[Array, "*batch"]:
    """Half the squared distance to the goal, but no gain from moving by more than `clip`."""
    squares = (value - goal) ** 2
    if clip is not None:
        squares = jnp.maximum(squares, (before + jnp.clip(value - before, -clip, clip) - goal) ** 2)
    return squares / 2
