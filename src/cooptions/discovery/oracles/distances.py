"""Exact temporal distances and the Fermat n-distances derived from them (paper, Sections 2.3, 3.1 and 3.2).

Distances are directed, `distance[state, goal]`, from an agent's state to the Fermat state. The Fermat state is always
the second argument in the paper (Section 3.1).
"""

import numpy as np
from jaxtyping import Bool, Float, Int, Real

from cooptions.errors import require


def successor_distance(transitions: Float[np.ndarray, "state state"], gamma: float) -> Float[np.ndarray, "state state"]:
    """d(s, g) = log p(g | g) - log p(g | s) (Myers et al. 2024; paper, Section 3.1).

    p = (1 - gamma) (I - gamma P)^-1 is the distribution of the state after a geometric number k >= 0 of steps. The
    distance to unreachable goals is infinite. Since p(g | s) = E[gamma^tau] p(g | g), this is also the hitting distance
    to g.
    """
    require(0.0 < gamma < 1.0, f"gamma must lie strictly between 0 and 1, not {gamma}")
    occupancy = (1.0 - gamma) * np.linalg.inv(np.eye(len(transitions)) - gamma * transitions)
    return np.maximum(_negative_log(occupancy) - _negative_log(np.diag(occupancy)), 0.0)


def hitting_distance(
    transitions: Float[np.ndarray, "state state"],
    feature_values: Real[np.ndarray, " state"],
    gamma: float,
    values: Real[np.ndarray, " value"] | None = None,
) -> Float[np.ndarray, "state value"]:
    """d_f(s, v) = -log E[gamma^tau], where tau >= 0 is the first time at which the feature is v, from the full state s.

    `feature_values[s]` is the feature of state s. The columns follow `values`, by default the distinct feature values
    in ascending order. The distance to an unreachable value is infinite.
    """
    require(0.0 < gamma < 1.0, f"gamma must lie strictly between 0 and 1, not {gamma}")
    goals = np.unique(feature_values) if values is None else values
    discounts = np.zeros((len(transitions), len(goals)))
    for column, value in enumerate(goals):
        inside = feature_values == value
        outside = ~inside
        leaving = gamma * transitions[np.ix_(outside, inside)].sum(axis=1)
        staying = np.eye(int(outside.sum())) - gamma * transitions[np.ix_(outside, outside)]
        discounts[inside, column] = 1.0
        discounts[outside, column] = np.linalg.solve(staying, leaving)
    return np.maximum(_negative_log(discounts), 0.0)


def fermat_value(
    distance: Float[np.ndarray, "state goal"],
    team: Int[np.ndarray, "*batch agent"],
    has_feature: Bool[np.ndarray, " agent"] | None = None,
) -> tuple[Float[np.ndarray, "*batch"], Int[np.ndarray, "*batch"]]:
    """min over goals of sum_i d(s^i, goal) (Definition 1), and the first minimising goal.

    With the `hitting_distance` of feature f this is z_f. `has_feature` leaves out agents that lack the feature.
    """
    total = _summed_distance(distance, team, has_feature)
    best = total.argmin(axis=-1)
    return np.take_along_axis(total, best[..., None], axis=-1)[..., 0], best


def fermat_minimisers(
    distance: Float[np.ndarray, "state goal"], team: Int[np.ndarray, "*batch agent"], tolerance: float = 1e-9
) -> Bool[np.ndarray, "*batch goal"]:
    """The Fermat set (Section 2.3): every goal whose summed distance is within `tolerance` of the minimum."""
    total = _summed_distance(distance, team, None)
    return total <= total.min(axis=-1, keepdims=True) + tolerance


def distance_to_nearest_minimiser(
    estimate: Real[np.ndarray, "*batch 2"],
    team: Int[np.ndarray, "*batch agent"],
    cells: Int[np.ndarray, "cell 2"],
    distance: Float[np.ndarray, "cell cell"],
    tolerance: float = 1e-9,
) -> Float[np.ndarray, "*batch"]:
    """The L1 distance, in cells, from an estimated Fermat state to the closest exact one, on any map.

    `distance` is the `successor_distance` on the map with the free cells `cells`. `team` has cell numbers. The mean of
    the result is the metric `fermat_error_cells`. For open grids see also `distance_to_medians`.
    """
    minimisers = fermat_minimisers(distance, team, tolerance)
    gaps = np.abs(estimate[..., None, :] - cells).sum(axis=-1)
    return np.where(minimisers, gaps, np.inf).min(axis=-1)


def distance_to_medians(
    estimate: Real[np.ndarray, "*batch feature"], agent_states: Real[np.ndarray, "*batch agent feature"]
) -> Float[np.ndarray, "*batch"]:
    """The L1 distance from an estimated Fermat state to the box of medians, which minimise the summed L1 distance.

    An even number of agents has an interval of medians on each axis, an odd number a point. On an open grid this is the
    Fermat set of the number of steps. That of the successor distance need not be exactly the same (see the tests).
    """
    ordered = np.sort(agent_states, axis=-2)
    num_agents = ordered.shape[-2]
    low, high = ordered[..., (num_agents - 1) // 2, :], ordered[..., num_agents // 2, :]
    return (np.maximum(low - estimate, 0.0) + np.maximum(estimate - high, 0.0)).sum(axis=-1)


def spread(
    agent_states: Real[np.ndarray, "*batch agent feature"],
    agent_features: Bool[np.ndarray, "agent feature"] | None = None,
    categorical: Bool[np.ndarray, " feature"] | None = None,
) -> Float[np.ndarray, "*batch feature"]:
    """The exact n-distance per feature: the sum over agents of |x_i - median|, 0 if the team is aligned.

    `agent_features` leaves out agents that lack a feature (heterogeneous teams). A feature that no agent has is 0. For
    features marked `categorical`, the distance between two values is 0 or 1, so the spread is the number of agents that
    differ from the most common value.
    """
    states = np.asarray(agent_states, dtype=float)
    num_agents, num_features = states.shape[-2:]
    has = np.ones((num_agents, num_features), bool) if agent_features is None else agent_features
    kinds = np.zeros(num_features, bool) if categorical is None else categorical
    least = np.full((*states.shape[:-2], num_features), np.inf)
    for agent in range(num_agents):  # one agent's value is always a minimiser: a median or the mode
        gaps = np.abs(states - states[..., agent : agent + 1, :])
        total = (np.where(kinds, gaps > 0, gaps) * has).sum(axis=-2)
        least = np.where(has[agent], np.minimum(least, total), least)
    return np.where(has.any(axis=0), least, 0.0)


def _summed_distance(
    distance: Float[np.ndarray, "state goal"],
    team: Int[np.ndarray, "*batch agent"],
    has_feature: Bool[np.ndarray, " agent"] | None,
) -> Float[np.ndarray, "*batch goal"]:
    """sum_i d(s^i, g) for every goal g."""
    members = team if has_feature is None else team[..., has_feature]
    total = np.zeros((*team.shape[:-1], distance.shape[1]))
    for agent in range(members.shape[-1]):
        total += distance[members[..., agent]]
    return total


def _negative_log(probabilities: np.ndarray) -> np.ndarray:
    """-log p, with infinity for p = 0 and for slightly negative values from rounding."""
    positive = probabilities > 0.0
    return np.where(positive, -np.log(np.where(positive, probabilities, 1.0)), np.inf)
