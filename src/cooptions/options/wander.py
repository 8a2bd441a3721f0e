"""A control for discovered options: the team leaves its policy together for as long, and goes nowhere in particular."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from cooptions.envs.base import AbstractEnv
from cooptions.options.base import AbstractOptions, Option


class WanderingOptions(AbstractOptions):
    """One option: every agent takes random actions until time is up."""

    options: tuple[Option, ...] = eqx.field(static=True)
    noop: int = eqx.field(static=True)
    max_steps: int = eqx.field(static=True)
    epsilon: float = eqx.field(static=True)

    def actions(
        self,
        agent_states: Float[Array, "agent feature"],
        observation: Shaped[Array, "agent *shape"],
        action_mask: Bool[Array, "agent action"],
    ) -> Int[Array, "option agent"]:
        return jnp.full((self.num_options, action_mask.shape[0]), self.noop)


def wandering_options(env: AbstractEnv, *, max_steps: int = 10) -> WanderingOptions:
    """The control for an environment. 10 steps are about what discovered options take in Overcooked (8 to 9.5)."""
    option = Option("wander", (True,) * env.num_agents, env.num_agents)
    return WanderingOptions(options=(option,), noop=env.noop, max_steps=max_steps, epsilon=1.0)
