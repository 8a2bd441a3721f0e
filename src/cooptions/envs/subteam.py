"""An environment in which some of a team's agents act, and the others act at random."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from cooptions.envs.base import AbstractEnv
from cooptions.envs.rollout import uniform_action
from cooptions.envs.team import Members, Team, subteams
from cooptions.envs.wrapper import AbstractWrapper
from cooptions.errors import ConfigError, require
from cooptions.types import TimeStep

MOST_TRIES = 32
"""The maximum number of episodes begun in search of one whose other agents leave the members' places free."""


class SubteamState(eqx.Module):
    """The environment's state, the members of this episode, and the available actions of the whole team."""

    inner: object
    members: Int[Array, " member"]
    action_mask: Bool[Array, "agent action"]


class SubteamEnv(AbstractWrapper[SubteamState]):
    """An environment of m of the N agents of another. The other agents act at random.

    Each episode draws its members uniformly from the sub-teams that `members` stands for. A number stands for all
    sub-teams of that size, and needs agents of one type. A tuple of agent indices, counted from 0, stands for all
    sub-teams of the same types in the same order. Options trained here are options of m agents.

        pairs = co.SubteamEnv(co.make_env("grid-8x8-4p"), 2)
        state, timestep = pairs.reset(key)
        pairs.agent_states(state)  # of the two members
    """

    env: AbstractEnv = eqx.field(static=True)
    members: Members = eqx.field(static=True)
    """A number if the agents are all of one type, otherwise the first sub-team of this kind."""

    def __init__(self, env: AbstractEnv, members: Members) -> None:
        require(env.num_options == 0, "members: take them of an environment without options, then add these")
        first = subteams(env.agent_types, members)[0]
        self.env = env
        self.members = len(first) if len(set(env.agent_types)) == 1 else tuple(first.tolist())

    @property
    def places(self) -> Int[np.ndarray, "subteam member"]:
        """The agents of every sub-team that can be drawn."""
        return subteams(self.env.agent_types, self.members)

    @property
    def num_agents(self) -> int:
        return self.places.shape[1]

    @property
    def agent_features(self) -> np.ndarray:
        return self.env.agent_features[self.places[0]]

    def reset(self, key: PRNGKeyArray) -> tuple[SubteamState, TimeStep]:
        draw_key, env_key = jax.random.split(key)
        return self._begun(self.draw(draw_key), *self.env.reset(env_key))

    def reset_to(
        self, agent_states: Float[np.ndarray, "agent feature"], key: PRNGKeyArray
    ) -> tuple[SubteamState, TimeStep]:
        """Like `reset`, with the members in these states. If another agent is in their way, the others are drawn
        again."""
        members = np.asarray(self.draw(key))
        for attempt in range(MOST_TRIES):
            env_key = jax.random.fold_in(key, attempt)
            states = np.array(self.env.agent_states(self.env.reset(env_key)[0]))
            states[members] = agent_states
            try:
                return self._begun(jnp.asarray(members), *self.env.reset_to(states, env_key))
            except ConfigError:
                if attempt == MOST_TRIES - 1:
                    raise
        raise AssertionError("unreachable")

    def step(
        self, state: SubteamState, action: Int[Array, " agent"], key: PRNGKeyArray
    ) -> tuple[SubteamState, TimeStep]:
        others_key, env_key = jax.random.split(key)
        joint = uniform_action(state.action_mask, key=others_key).at[state.members].set(action)
        return self._begun(state.members, *self.env.step(state.inner, joint, env_key))

    def agent_states(self, state: SubteamState) -> Float[Array, "agent feature"]:
        return self.env.agent_states(state.inner)[state.members]

    def signals(self, state: SubteamState) -> Bool[Array, " member"]:
        return self.env.signals(state.inner)[state.members]

    def draw(self, key: PRNGKeyArray) -> Int[Array, " member"]:
        """Draw the members of an episode."""
        places = jnp.asarray(self.places)
        return places[jax.random.randint(key, (), 0, len(places))]

    def _begun(
        self, members: Int[Array, " member"], inner: object, timestep: TimeStep
    ) -> tuple[SubteamState, TimeStep]:
        """A state of the environment, and its time step as the members see it."""
        seen = replace(timestep, observation=timestep.observation[members], action_mask=timestep.action_mask[members])
        return SubteamState(inner, members, timestep.action_mask), seen


def subteam_envs(env: AbstractEnv, num_members: int) -> Iterator[SubteamEnv]:
    """An environment for each kind of sub-team of this size; none if the team is no larger."""
    if 2 <= num_members < env.num_agents and env.num_options == 0:
        every = combinations(range(env.num_agents), num_members)
        kinds = {tuple(env.agent_types[agent] for agent in each): each for each in every}
        yield from (SubteamEnv(env, members) for members in kinds.values())


def env_for(env: AbstractEnv, team: Team) -> AbstractEnv:
    """The environment of a given team: `env` itself, or some of its agents if the team is smaller.

    If no sub-team fits, the result is `env`. The caller compares it with the team and reports the differences.
    """
    fitting = (
        each
        for each in subteam_envs(env, team.num_agents)
        if Team.of(each, team.columns or None).agent_features == team.agent_features
    )
    return next(fitting, env)


def agents_in_words(env: AbstractEnv) -> str:
    """The number of agents in words: `4 agents`, or `2 of 4 agents` if the others act at random."""
    inside = f"{env.num_agents} of {env.env.num_agents}" if isinstance(env, SubteamEnv) else env.num_agents
    return f"{inside} agents"
