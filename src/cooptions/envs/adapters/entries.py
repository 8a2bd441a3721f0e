"""The entries of `info` for learners of other libraries."""

import jax.numpy as jnp
from jaxtyping import Array, Int, Shaped

from cooptions.envs.base import AbstractEnv
from cooptions.types import TimeStep


def entries(env: AbstractEnv, timestep: TimeStep, action: Int[Array, " agent"]) -> dict[str, Shaped[Array, " agent"]]:
    """The entries of `info` after `action`, by name, each with a value per agent.

    They are every score and `discount`. With joint options there are also `option` (the one that the agent follows in
    the next step, or -1), its `age`, and `votes` (how many agents chose the same option as this agent; 0 if it chose a
    primitive action).
    """
    values = dict(zip(env.score_names, timestep.score, strict=True)) | {"discount": timestep.discount}
    if timestep.macro is not None:
        values |= {"option": timestep.macro.active, "age": timestep.macro.age}
    each = {name: jnp.broadcast_to(value, env.num_agents) for name, value in values.items()}
    if timestep.macro is not None:
        is_vote = action >= env.num_actions - env.num_options
        each["votes"] = jnp.where(is_vote, (action[:, None] == action[None]).sum(axis=1), 0)
    return each
