from collections import Counter

import numpy as np
import pytest
from scipy.sparse.csgraph import shortest_path

from cooptions.discovery.oracles import distances, walks
from cooptions.errors import ConfigError

GAMMA = 0.9
WALL = np.array([[1, 1, 0, 1], [1, 1, 1, 1], [1, 1, 0, 1]], bool)


def test_two_state_chain_by_hand():
    go, back = 0.3, 0.6
    chain = np.array([[1 - go, go], [back, 1 - back]])
    there = -np.log(GAMMA * go / (1 - GAMMA * (1 - go)))
    return_ = -np.log(GAMMA * back / (1 - GAMMA * (1 - back)))
    expected = np.array([[0.0, there], [return_, 0.0]])
    np.testing.assert_allclose(distances.successor_distance(chain, GAMMA), expected, atol=1e-12)
    np.testing.assert_allclose(distances.hitting_distance(chain, np.arange(2), GAMMA), expected, atol=1e-12)


def test_successor_distance_agrees_with_the_power_series():
    chain = walks.grid_transitions(WALL)
    power, occupancy = np.eye(len(chain)), np.zeros_like(chain)
    for step in range(400):
        occupancy += (1 - GAMMA) * GAMMA**step * power
        power = power @ chain
    expected = np.log(np.diag(occupancy)) - np.log(occupancy)
    np.testing.assert_allclose(distances.successor_distance(chain, GAMMA), expected, atol=1e-9)


def test_the_hitting_distance_of_states_is_the_successor_distance():
    chain = np.random.default_rng(0).dirichlet(np.ones(6), size=6)
    hitting = distances.hitting_distance(chain, np.arange(6), GAMMA)
    np.testing.assert_allclose(hitting, distances.successor_distance(chain, GAMMA), atol=1e-10)


def test_hitting_distance_agrees_with_simulation_behind_a_wall():
    rng = np.random.default_rng(2)
    chain, columns = walks.grid_transitions(WALL), walks.grid_cells(WALL)[:, 1]
    exact = distances.hitting_distance(chain, columns, GAMMA)
    for start in (0, 6):
        seen = columns[walks.simulate_walk(chain, np.full(20_000, start), 150, rng)]
        for value in range(4):
            hit = seen == value
            first = np.where(hit.any(axis=0), hit.argmax(axis=0), np.inf)
            assert exact[start, value] == pytest.approx(-np.log(np.mean(GAMMA**first)), abs=0.03)
    # Column 3 is farther from the corner (0, 0) than from (1, 0), which faces the door: the full state counts.
    assert exact[0, 3] > exact[2, 3] + 0.05


def test_values_that_cannot_be_reached_are_at_infinity():
    rooms = walks.grid_transitions(np.array([[True, False, True]]))
    expected = np.array([[0.0, np.inf], [np.inf, 0.0]])
    np.testing.assert_array_equal(distances.successor_distance(rooms, GAMMA), expected)
    hitting = distances.hitting_distance(rooms, np.array([0, 2]), GAMMA, values=np.arange(3))
    np.testing.assert_array_equal(hitting, [[0.0, np.inf, np.inf], [np.inf, np.inf, 0.0]])


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_gamma_must_lie_between_0_and_1(gamma: float):
    with pytest.raises(ConfigError, match="gamma"):
        distances.successor_distance(np.eye(2), gamma)


def test_fermat_value_by_exhaustion():
    rng = np.random.default_rng(3)
    distance = rng.random((7, 5))
    team = rng.integers(7, size=(20, 3))
    value, best = distances.fermat_value(distance, team)
    without, _ = distances.fermat_value(distance, team, np.array([True, False, True]))
    for row, (first, second, third) in enumerate(team):
        sums = [distance[first, goal] + distance[second, goal] + distance[third, goal] for goal in range(5)]
        assert value[row] == pytest.approx(min(sums))
        assert best[row] == sums.index(min(sums))
        assert without[row] == pytest.approx(min(distance[first, g] + distance[third, g] for g in range(5)))


@pytest.mark.parametrize("num_agents", [2, 3, 4, 5])
def test_spread_is_the_distance_to_the_median(num_agents: int):
    states = np.random.default_rng(num_agents).integers(15, size=(50, num_agents, 2))
    expected = np.abs(states - np.median(states, axis=-2, keepdims=True)).sum(axis=-2)
    np.testing.assert_allclose(distances.spread(states), expected)


def test_spread_leaves_out_agents_that_lack_a_feature():
    states = np.array([[4, 0, 0], [1, 7, 0], [3, 9, 0]])
    has = np.array([[True, False, False], [True, True, False], [True, True, False]])
    assert distances.spread(states, has).tolist() == [3.0, 2.0, 0.0]
    assert distances.spread(states).tolist() == [3.0, 9.0, 0.0]


def test_categorical_spread_counts_those_outside_the_majority():
    states = np.random.default_rng(5).integers(4, size=(60, 5, 2))
    found = distances.spread(states, categorical=np.array([True, False]))
    for team, (kind, _) in zip(states, found, strict=True):
        assert kind == 5 - Counter(team[:, 0].tolist()).most_common(1)[0][1]
    np.testing.assert_array_equal(found[:, 1], distances.spread(states)[:, 1])


@pytest.mark.parametrize("num_agents", [3, 4])
def test_minimisers_of_the_number_of_steps_are_the_medians(num_agents: int):
    rng = np.random.default_rng(6)
    free = np.ones((6, 7), bool)
    cells = walks.grid_cells(free)
    steps = np.asarray(shortest_path(walks.grid_transitions(free) > 0, unweighted=True))
    team = rng.integers(len(cells), size=(100, num_agents))
    guess = cells[rng.integers(len(cells), size=100)].astype(float)
    by_search = distances.distance_to_nearest_minimiser(guess, team, cells, steps)
    np.testing.assert_allclose(by_search, distances.distance_to_medians(guess, cells[team]))
    assert by_search.max() > 3
    assert by_search.min() == 0


def test_distance_to_medians_by_hand():
    team = np.array([[0, 0], [2, 1], [5, 1], [9, 8]])  # medians: x in [2, 5], y = 1
    guesses = np.array([[3.5, 1.0], [1.0, 1.0], [6.5, 3.0]])
    found = distances.distance_to_medians(guesses, np.broadcast_to(team, (3, 4, 2)))
    np.testing.assert_allclose(found, [0.0, 1.0, 3.5])


def test_ties_are_all_minimisers():
    distance = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]])
    assert distances.fermat_minimisers(distance, np.array([0, 2])).tolist() == [True, True, True]
    assert distances.fermat_minimisers(distance, np.array([0, 1, 2])).tolist() == [False, True, False]


def test_the_scalar_successor_distance_does_not_find_the_medians():
    """In two dimensions it is steep near an agent, so its own cell is often minimal. Per feature it is the median."""
    rng = np.random.default_rng(7)
    free = np.ones((15, 15), bool)
    chain, cells = walks.grid_transitions(free), walks.grid_cells(free)
    team = rng.integers(225, size=(500, 3))
    _, best = distances.fermat_value(distances.successor_distance(chain, 0.95), team)
    error = distances.distance_to_medians(cells[best].astype(float), cells[team])
    assert 0.9 < error.mean() < 1.6
    assert np.mean(np.any(best[:, None] == team, axis=1)) > 0.8
    per_axis = [
        distances.fermat_value(distances.hitting_distance(chain, cells[:, axis], 0.95), team)[1] for axis in (0, 1)
    ]
    assert distances.distance_to_medians(np.stack(per_axis, axis=-1).astype(float), cells[team]).mean() < 0.1
