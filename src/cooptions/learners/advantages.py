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
    trust: Float[Array, "time *batch"] | float = 1.0,
) -> Float[Array, "time *batch"]:
    """By how much what was done turned out better than what the critic expected.

        A_t = r_t + discount_t (V_{t+1} + decay trust_{t+1} A_{t+1}) - V_t   where t is a step, and 0 where it is none

    `trust` says how likely the policy that is judged would itself have done what was done: where that was little, what
    came of it says little about steps before (V-trace).

    `reward` and `discount` are what the step from t to t + 1 brought. A tick that is not `valid` lies at the end of an
    episode and leads to the start of another one. As it has a value but no advantage, a time limit bootstraps from
    the final observation, an end (discount 0) from nothing, and neither from the next episode.
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
    """The mean over what has a weight; 0 where nothing has."""
    return jnp.where(weight > 0, weight * value, 0.0).sum() / jnp.maximum(weight.sum(), 1e-8)


def standardise(value: Float[Array, "*batch"], weight: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """Shift and scale to mean 0 and standard deviation 1, by weight."""
    centred = value - weighted_mean(value, weight)
    return centred / (jnp.sqrt(weighted_mean(centred**2, weight)) + 1e-8)


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
