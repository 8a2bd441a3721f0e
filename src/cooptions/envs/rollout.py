"""Run a batch of environments and reset each at the end of its episode without losing the final state."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from cooptions.envs.base import AbstractEnv
from cooptions.types import TimeStep


class Runners(eqx.Module):
    """The states of a batch of environments, with the time steps that led there."""

    state: Any
    timestep: TimeStep


def start(env: AbstractEnv, num_envs: int, *, key: PRNGKeyArray) -> Runners:
    """Reset `num_envs` environments."""
    return Runners(*jax.vmap(env.reset)(jax.random.split(key, num_envs)))


def advance(
    env: AbstractEnv, runners: Runners, action: Int[Array, "env agent"], *, key: PRNGKeyArray
) -> tuple[Runners, Runners]:
    """Step every environment. Returns the outcome of the actions, and the states from which to continue.

    The two differ where an episode ended. The first then holds the final state and observation, from which learners
    bootstrap at a time limit. The second holds the start of the next episode.
    """

    step_key, reset_key = jax.random.split(key)
    step_keys = jax.random.split(step_key, action.shape[0])
    outcome = Runners(*jax.vmap(env.step)(runners.state, action, step_keys))
    last = outcome.timestep.last
    # At most steps no episode ends. Without an outer vmap over seeds, no start states are computed then.
    onward = jax.lax.cond(
        jnp.any(last), lambda: select(last, start(env, last.shape[0], key=reset_key), outcome), lambda: outcome
    )
    return outcome, onward


@jax.named_scope("step")
def tick(env: AbstractEnv, runners: Runners, action: Int[Array, "env agent"], *, key: PRNGKeyArray) -> Runners:
    """Step every environment, or reset it if its episode is over, which ignores the action.

    An episode thus takes one tick more than with `advance`, and all its time steps are in one sequence.
    """
    step_key, reset_key = jax.random.split(key)
    over = runners.timestep.last
    stepped = Runners(*jax.vmap(env.step)(runners.state, action, jax.random.split(step_key, action.shape[0])))
    return jax.lax.cond(
        jnp.any(over), lambda: select(over, start(env, over.shape[0], key=reset_key), stepped), lambda: stepped
    )


def select(mask: Bool[Array, " env"], chosen: Runners, other: Runners) -> Runners:
    """`chosen` where `mask` holds, `other` elsewhere."""
    pick = jax.vmap(lambda flag, a, b: jax.tree.map(lambda x, y: jnp.where(flag, x, y), a, b))
    return pick(mask, chosen, other)


def uniform_action(mask: Bool[Array, "*batch action"], *, key: PRNGKeyArray) -> Int[Array, "*batch"]:
    """Draw uniformly among the available actions."""
    return jnp.argmax(jnp.where(mask, jax.random.uniform(key, mask.shape), -1.0), axis=-1)


def training_reward(env: AbstractEnv, timestep: TimeStep, step: Int[Array, ""]) -> Float[Array, "*batch"]:
    """The reward for a learner at environment step `step`, with shaped rewards that fade over the horizon."""
    if env.shaping_horizon == 0:
        return timestep.reward
    weight = jnp.maximum(0.0, 1.0 - step / env.shaping_horizon)
    return timestep.reward + weight * timestep.shaped_reward
