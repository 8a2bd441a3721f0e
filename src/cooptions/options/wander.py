"""Random options: a baseline for the reports of options, and a control for their effect on learning."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from cooptions.envs.base import AbstractEnv
from cooptions.options.base import OPTION_SOURCES, AbstractOptions, Option


class RandomPlay(AbstractOptions):
    """Options that take random actions for `max_steps` steps."""

    options: tuple[Option, ...] = eqx.field(static=True)
    max_steps: int = eqx.field(static=True)
    epsilon: float = eqx.field(static=True, default=1.0)

    def actions(
        self,
        agent_states: Float[Array, "agent feature"],
        observation: Shaped[Array, "agent *shape"],
        action_mask: Bool[Array, "agent action"],
    ) -> Int[Array, "option agent"]:
        return jnp.zeros(self.members.shape, jnp.int32)


@OPTION_SOURCES.register("wander")
def wandering_options(env: AbstractEnv, *, max_steps: int = 10) -> RandomPlay:
    """The control: one option, with which the whole team acts at random.

    With 10 steps, teams follow it in as large a share of steps as discovered options (docs/findings/meeting.md).
    """
    wander = Option("wander", (True,) * env.num_agents, env.num_agents)
    return RandomPlay(options=(wander,), max_steps=max_steps)
