"""Generalised advantage estimation for PPO and for traces of Q-learning, and the losses of PPO.

Sequences consist of ticks. Some ticks are not steps but the ends of episodes (`cooptions.envs.rollout.tick`).
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
    trust: Float[Array, "time *batch"] | float = 1.0,
) -> Float[Array, "time *batch"]:
    """The advantage of each step: how much better its outcome was than the critic's value.

        A_t = r_t + discount_t (V_{t+1} + decay trust_{t+1} A_{t+1}) - V_t   if t is a step, otherwise 0

    `trust` is the probability that the evaluated policy would have taken the same actions. Where it is low, later
    rewards count little for earlier steps (V-trace).

    `reward` and `discount` are those of the step from t to t + 1. A tick that is not `valid` is the end of an episode,
    and the next tick begins another. It has a value but no advantage. A time limit therefore bootstraps from the final
    observation, a termination (discount 0) does not bootstrap, and the next episode has no influence.
    """
    error = reward + discount * value[1:] - value[:-1]

    def back(later: Array, tick: tuple[Array, Array, Array, Array]) -> tuple[Array, Array]:
        error_t, discount_t, valid_t, trust_t = tick
        advantage = jnp.where(valid_t, error_t + decay * discount_t * later, 0.0)
        return trust_t * advantage, advantage

    ticks = (error, discount, valid, jnp.broadcast_to(trust, error.shape))
    _, found = jax.lax.scan(back, jnp.zeros_like(value[-1]), ticks, reverse=True)
    return found


def weighted_mean(value: Float[Array, "*batch"], weight: Float[Array, "*batch"]) -> Float[Array, ""]:
    """The weighted mean; 0 if all weights are 0."""
    return jnp.where(weight > 0, weight * value, 0.0).sum() / jnp.maximum(weight.sum(), 1e-8)


def standardise(value: Float[Array, "*batch"], weight: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """Shift and scale to a weighted mean of 0 and a weighted standard deviation of 1."""
    centred = value - weighted_mean(value, weight)
    return centred / (jnp.sqrt(weighted_mean(centred**2, weight)) + 1e-8)


def policy_losses(
    ratio: Float[Array, "*batch"], advantage: Float[Array, "*batch"], clip: float
) -> Float[Array, "*batch"]:
    """PPO's clipped surrogate loss: changing a probability ratio by more than `clip` brings no further gain."""
    return -jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - clip, 1 + clip) * advantage)


def value_losses(
    value: Float[Array, "*batch"], before: Float[Array, "*batch"], goal: Float[Array, "*batch"], clip: float | None
) -> Float[Array, "*batch"]:
    """Half the squared error to the goal. Changing a value by more than `clip` brings no further gain."""
    squares = (value - goal) ** 2
    if clip is not None:
        squares = jnp.maximum(squares, (before + jnp.clip(value - before, -clip, clip) - goal) ** 2)
    return squares / 2
