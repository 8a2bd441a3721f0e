"""The input of option policies: the environment's observation, or only the relations between the agents."""

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
    """What the agents of a team observe while they execute an option. Training and execution both use it."""

    sight: Sight
    """`relation`: the agents' states relative to each agent, so that the policies fit every task with such agents.
    `observation`: the environment's observation, so that the policies can depend on the rest of the world."""
    team: Team

    @classmethod
    def of(cls, env: AbstractEnv, sight: Sight) -> "View":
        return cls(sight, Team.of(env))

    def __call__(
        self, agent_states: Float[Array, "agent feature"], observation: Shaped[Array, "agent *shape"]
    ) -> Shaped[Array, "agent *seen"]:
        return relations(self.team, agent_states) if self.sight == "relation" else observation

    def shape(self, env: AbstractEnv) -> tuple[int, ...]:
        """The shape of one agent's view in an environment, found without running it."""

        def seen(key: PRNGKeyArray) -> Array:
            state, timestep = env.reset(key)
            return self(env.agent_states(state), timestep.observation)

        return jax.eval_shape(seen, jax.random.key(0)).shape[1:]


def relations(team: Team, agent_states: Shaped[Array, "agent feature"]) -> Float[Array, "agent relation"]:
    """For each agent, its own state and then each teammate's state relative to it, in the order of the team.

    The own state is scaled to [-1, 1], with categorical features one-hot. A teammate's ordered features are relative to
    the agent, in units of their range, and its categorical features one-hot. A feature that a teammate lacks is 0. A
    feature that the agent itself lacks is 0 in its own state and absolute in its teammates' states, which shows it when
    they are done. In teams of several types, every state ends with its agent's type, one-hot.
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
        mate_types = np.eye(team.num_types, dtype=np.float32)[types][others]
        mates = jnp.concatenate([mates, mate_types], axis=-1)
    return jnp.concatenate([own, mates.reshape(num, -1)], axis=1)
