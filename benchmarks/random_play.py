"""The returns of random play, to compare with those of learners of other libraries."""

import statistics
from functools import partial
from importlib import metadata
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from cooptions.envs.base import AbstractEnv
from cooptions.envs.rollout import uniform_action
from cooptions.types import TimeStep


@partial(jax.jit, static_argnums=1)
def random_returns(env: AbstractEnv, num: int, key: PRNGKeyArray) -> Float[Array, " episode"]:
    """The returns of episodes in which every agent draws uniformly among its available actions."""

    def episode(key: PRNGKeyArray) -> Float[Array, ""]:
        def step(carry: tuple) -> tuple:
            state, timestep, total, time = carry
            action_key, step_key = jax.random.split(jax.random.fold_in(key, time))
            state, timestep = env.step(state, uniform_action(timestep.action_mask, key=action_key), step_key)
            return state, timestep, total + timestep.reward, time + 1

        def goes_on(carry: tuple) -> Array:
            timestep: TimeStep = carry[1]
            return ~timestep.last

        return jax.lax.while_loop(goes_on, step, (*env.reset(key), jnp.float32(0.0), jnp.int32(1)))[2]

    return jax.vmap(episode)(jax.random.split(key, num))


def report(env: AbstractEnv, returns: list[float], seconds: float, packages: tuple[str, ...]) -> dict[str, Any]:
    """The mean return at the beginning and end of training, and that of random play."""
    tenth = max(len(returns) // 10, 1)
    return {
        "first_tenth": round(statistics.fmean(returns[:tenth]), 3),
        "last_tenth": round(statistics.fmean(returns[-tenth:]), 3),
        "random_play": round(float(random_returns(env, 1024, jax.random.key(0)).mean()), 3),
        "seconds": round(seconds),
        "versions": {name: metadata.version(name) for name in ("cooptions", "jax", *packages) if _installed(name)},
    }


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True
