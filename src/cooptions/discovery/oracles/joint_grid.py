"""The exact joint chain of a small team on a small grid without collisions, which raw joint methods estimate."""

import functools

import numpy as np
from jaxtyping import Bool, Float, Int

from cooptions.discovery.oracles.spectrum import Spectrum, laplacian_spectrum, pair_law
from cooptions.discovery.oracles.walks import grid_cells, grid_transitions, stationary_distribution
from cooptions.errors import require

MAX_JOINT_STATES = 5000


def joint_transitions(transitions: Float[np.ndarray, "state state"], num_agents: int) -> Float[np.ndarray, "team team"]:
    """The Kronecker power P x ... x P for agents that move independently, with states in the order of `joint_teams`."""
    num_joint = len(transitions) ** num_agents
    require(num_joint <= MAX_JOINT_STATES, f"joint states: {num_joint}, too many for dense matrices")
    return functools.reduce(np.kron, [transitions] * num_agents)


def joint_teams(num_states: int, num_agents: int) -> Int[np.ndarray, "team agent"]:
    """The single-agent state numbers of every joint state, in Kronecker order."""
    return np.indices((num_states,) * num_agents).reshape(num_agents, -1).T


def joint_grid_spectrum(
    free: Bool[np.ndarray, "height width"],
    num_agents: int,
    num_eigenfunctions: int | None = None,
    *,
    stand_still: bool = False,
) -> tuple[Int[np.ndarray, "team agent 2"], Spectrum]:
    """Every joint state as cells, and the exact eigenfunctions of the joint walk's Laplacian."""
    single = grid_transitions(free, stand_still=stand_still)
    weights = functools.reduce(np.kron, [stationary_distribution(single)] * num_agents)
    pairs = pair_law(joint_transitions(single, num_agents), weights)
    return grid_cells(free)[joint_teams(len(single), num_agents)], laplacian_spectrum(pairs, num_eigenfunctions)
