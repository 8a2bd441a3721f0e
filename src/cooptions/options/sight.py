"""What option policies see: the task's own observation, or nothing but how the agents stand to one another."""

from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from cooptions.envs.base import AbstractEnv
from cooptions.envs.team import Team

Sight = Literal["relation", "observation"]


@dataclass(frozen=True)
class View:
    """What the agents of a team see while an option leads them. Training and execution both use it."""

    sight: Sight
    """`relation`: the agents' states from each agent's place, so that the policies fit every task with such agents.
    `observation`: what the environment shows, so that they can depend on the rest of the world."""
    team: Team

    @classmethod
    def of(cls, env: AbstractEnv, sight: Sight) -> "View":
        return cls(sight, Team.of(env))

    def __call__(
        self, agent_states: Float[Array, "agent feature"], observation: Shaped[Array, "agent *shape"]
    ) -> Shaped[Array, "agent *seen"]:
        return relations(self.team, agent_states) if self.sight == "relation" else observation

    def shape(self, env: AbstractEnv) -> tuple[int, ...]:
        """The shape of what one agent sees in an environment, without running it."""

        def seen(key: PRNGKeyArray) -> Array:
            state, timestep = env.reset(key)
            return self(env.agent_states(state), timestep.observation)

        return jax.eval_shape(seen, jax.random.key(0)).shape[1:]


def relations(team: Team, agent_states: Shaped[Array, "agent feature"]) -> Float[Array, "agent relation"]:
    """The agents' states from each agent's place: its own, then each teammate's, in the order of the team.

    The own state is scaled to [-1, 1], categoricals are one-hot. A teammate's ordered features are relative to the
    agent, in units of their range, and its categoricals one-hot. What a teammate lacks is 0. What an agent lacks is 0
    in its own state, and absolute in its teammates', which tells it when they are done. In teams of several types
    every state ends with its agent's type, one-hot.
    """
    num, types = team.num_agents, np.array(team.agent_types)
    own = team.typed_inputs(agent_states, types)
    if num == 1:
        return own
    others = np.array([[mate for mate in range(num) if mate != agent] for agent in range(num)])
    is_ordered = np.repeat([feature.kind != "categorical" for feature in team.features], team.input_widths)
    has = team.type_has_input[types]
    unit = jnp.where(is_ordered, (team.inputs(agent_states) + 1) / 2, team.inputs(agent_states)) * has
    mates = (unit[others] - (unit * is_ordered)[:, None]) * has[others]
    if team.num_types > 1:
        told = np.eye(team.num_types, dtype=np.float32)[types][others]
        mates = jnp.concatenate([mates, told], axis=-1)
    return jnp.concatenate([own, mates.reshape(num, -1)], axis=1)
