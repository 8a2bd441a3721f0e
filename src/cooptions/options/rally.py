"""Options by which an agent that has found something calls its teammates."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped

from cooptions.envs.base import AbstractEnv
from cooptions.options.base import OPTION_SOURCES, AbstractOptions, Option
from cooptions.options.calls import require_signals
from cooptions.options.handmade import coordinates, towards


class RallyOptions(AbstractOptions):
    """One option for each agent, the caller: its teammates walk to it, while it chooses for itself.

    An option can start only while its caller signals. It ends when no teammate can come nearer.
    """

    options: tuple[Option, ...] = eqx.field(static=True)
    columns: tuple[int, int] = eqx.field(static=True)
    """The indices of the features x and y."""
    max_steps: int = eqx.field(static=True)
    epsilon: float = eqx.field(static=True)

    @property
    def kinds(self) -> tuple[int, ...]:
        return (0,) * self.num_options

    @property
    def callers(self) -> tuple[int, ...]:
        return tuple(range(self.num_options))

    def actions(
        self,
        agent_states: Float[Array, "agent feature"],
        observation: Shaped[Array, "agent *shape"],
        action_mask: Bool[Array, "agent action"],
    ) -> Int[Array, "option agent"]:
        place = agent_states[:, np.array(self.columns)]
        goals = jnp.broadcast_to(place[:, None], (self.num_agents, *place.shape))  # [caller, agent, 2]
        return towards(goals, place, action_mask)


@OPTION_SOURCES.register("rally")
def rally_options(env: AbstractEnv, *, max_steps: int = 30, epsilon: float = 0.0) -> RallyOptions:
    """Options for an environment whose agents signal and move on a grid, with the first actions of `Grid`."""
    columns = coordinates(env)
    require_signals(env)
    everyone = range(env.num_agents)
    options = tuple(
        Option(f"rally to {caller + 1}", tuple(agent != caller for agent in everyone), env.num_agents - 1)
        for caller in everyone
    )
    return RallyOptions(options, columns, max_steps, epsilon)
