"""The data of sub-teams, taken from the walk of the whole team."""

from dataclasses import replace

import jax
import numpy as np
from jaxtyping import Array, PRNGKeyArray, Shaped

from cooptions.discovery.walks import Walk
from cooptions.envs.team import Team


def walk_of(team: Team, walk: Walk) -> Walk:
    """The walk of a sub-team, taken from the walk of its whole team.

    Each environment follows one sub-team from its first step to its last, so that states remain consecutive. The
    environments are divided evenly among the sub-teams that `team` stands for.
    """
    if team.part_of is None:
        return walk
    num_envs, places = walk.last.shape[-1], team.places
    envs = np.arange(num_envs)
    agents = places[envs * len(places) // num_envs]

    def of_members(values: Shaped[Array | np.ndarray, "*batch env agent"]) -> Shaped[Array | np.ndarray, "..."]:
        return values[..., envs[:, None], agents]

    states, next_states = (each[..., envs[:, None], agents, :] for each in (walk.states, walk.next_states))
    votes = None if walk.votes is None else of_members(walk.votes)
    return replace(walk, states=states, next_states=next_states, votes=votes, team=team)


def draw_subteams(
    team: Team, joint: Shaped[Array, "batch all_agent feature"], *, key: PRNGKeyArray
) -> Shaped[Array, "batch agent feature"]:
    """The states of one sub-team's members, drawn independently for each joint state of the whole team."""
    if team.part_of is None:
        return joint
    chosen = jax.random.choice(jax.random.fold_in(key, 1), team.places, (len(joint),))
    return joint[np.arange(len(joint))[:, None], chosen]
