import numpy as np
import pytest

from cooptions.discovery.oracles import walks
from cooptions.errors import ConfigError

WALL = np.array([[1, 1, 0, 1], [1, 1, 1, 1], [1, 1, 0, 1]], bool)


def test_two_by_two_grid_by_hand():
    third = 1.0 / 3.0
    expected = [[third, third, third, 0], [third, third, 0, third], [third, 0, third, third], [0, third, third, third]]
    np.testing.assert_allclose(walks.grid_transitions(np.ones((2, 2), bool)), expected)


def test_blocked_moves_stand_still_with_the_flag():
    corridor = walks.grid_transitions(np.ones((1, 3), bool), stand_still=True)
    np.testing.assert_allclose(corridor, np.array([[4, 1, 0], [1, 3, 1], [0, 1, 4]]) / 5.0)
    np.testing.assert_allclose(walks.stationary_distribution(corridor), np.full(3, 1 / 3))


def test_corridor_is_stationary_in_proportion_to_available_actions():
    corridor = walks.grid_transitions(np.ones((1, 3), bool))
    np.testing.assert_allclose(walks.stationary_distribution(corridor), np.array([2, 3, 2]) / 7.0)


def test_grid_with_a_wall_agrees_with_a_walk_written_out():
    rng = np.random.default_rng(0)
    cells = [tuple(cell) for cell in walks.grid_cells(WALL)]
    assert (0, 2) not in cells
    assert (1, 2) in cells
    visits = np.zeros((len(cells), len(cells)))
    row, column = 0, 0
    for _ in range(40_000):
        around = [(row, column), (row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]
        available = [cell for cell in around if cell in cells]
        chosen = available[rng.integers(len(available))]
        visits[cells.index((row, column)), cells.index(chosen)] += 1
        row, column = chosen
    transitions = walks.grid_transitions(WALL)
    assert np.array_equal(visits > 0, transitions > 0)
    np.testing.assert_allclose(visits / visits.sum(axis=1, keepdims=True), transitions, atol=0.04)
    np.testing.assert_allclose(
        visits.sum(axis=1) / visits.sum(), walks.stationary_distribution(transitions), atol=0.015
    )


def test_cell_indices_invert_grid_cells_and_refuse_walls():
    cells = walks.grid_cells(WALL)
    assert np.array_equal(walks.cell_indices(WALL, cells.reshape(2, 5, 2)), np.arange(10).reshape(2, 5))
    with pytest.raises(ConfigError, match="wall"):
        walks.cell_indices(WALL, np.array([[0, 2]]))


def test_separate_rooms_have_no_stationary_distribution():
    rooms = np.array([[True, False, True]])
    with pytest.raises(ConfigError, match="2 closed classes"):
        walks.stationary_distribution(walks.grid_transitions(rooms))


def test_transient_states_have_no_stationary_weight():
    np.testing.assert_allclose(walks.stationary_distribution(np.array([[0.5, 0.5], [0.0, 1.0]])), [0, 1], atol=1e-12)


def test_counted_transitions_by_hand():
    states = np.array([[0, 5], [0, 5], [0, 5], [2, 1], [0, 5]])
    next_states = np.array([[2, 1], [0, 5], [2, 1], [0, 5], [9, 9]])
    last = np.array([False, False, False, False, True])
    distinct, transitions = walks.counted_transitions(states, next_states, last)
    assert distinct.tolist() == [[0, 5], [2, 1]]
    np.testing.assert_allclose(transitions, [[1 / 3, 2 / 3], [1, 0]])
    distinct, transitions = walks.counted_transitions(states, next_states)
    assert distinct.tolist() == [[0, 5], [2, 1], [9, 9]]
    np.testing.assert_allclose(transitions, [[0.25, 0.5, 0.25], [1, 0, 0], [0, 0, 1]])  # (9, 9) is never left


def test_simulated_walks_are_counted_back():
    rng = np.random.default_rng(1)
    transitions = rng.dirichlet(np.ones(4), size=4)
    transitions[2] = [0.0, 0.3, 0.0, 0.7]
    walk = walks.simulate_walk(transitions, rng.integers(4, size=(500, 2)), 200, rng)
    assert walk.shape == (201, 500, 2)
    _, counted = walks.counted_transitions(walk[:-1].reshape(-1, 1), walk[1:].reshape(-1, 1))
    np.testing.assert_allclose(counted, transitions, atol=0.01)
    assert counted[2, 0] == counted[2, 2] == 0.0
