import numpy as np
import pytest

from cooptions.discovery.oracles import joint_grid, lumped, spectrum, walks
from cooptions.discovery.oracles.distances import spread
from cooptions.errors import ConfigError


def _by_brute_force(chains: list[np.ndarray], states: list[np.ndarray], has: np.ndarray) -> dict[tuple, float]:
    """The pair law of spread tuples, summed over all pairs of joint states of the full joint chain."""
    flow = np.ones((1, 1))
    for chain in chains:
        flow = np.kron(flow, walks.stationary_distribution(chain)[:, None] * chain)
    teams = np.indices([len(chain) for chain in chains]).reshape(len(chains), -1).T
    joint = np.stack([own[team] for own, team in zip(states, teams.T, strict=True)], axis=1)
    tuples = [tuple(row) for row in spread(joint, has).astype(int).tolist()]
    law: dict[tuple, float] = {}
    for before, after in zip(*np.nonzero(flow), strict=True):
        key = (tuples[before], tuples[after])
        law[key] = law.get(key, 0.0) + flow[before, after]
    return law


def _as_dict(operator: lumped.LumpedOperator) -> dict[tuple, float]:
    tuples = [tuple(row) for row in operator.tuples.astype(int).tolist()]
    return {(tuples[i], tuples[j]): operator.pairs[i, j] for i, j in zip(*np.nonzero(operator.pairs), strict=True)}


@pytest.mark.parametrize("stand_still", [False, True])
@pytest.mark.parametrize(("height", "width", "num_agents"), [(3, 4, 2), (2, 3, 3), (1, 4, 3), (2, 2, 4)])
def test_exact_operators_agree_with_the_joint_chain(height: int, width: int, num_agents: int, stand_still: bool):
    free = np.ones((height, width), bool)
    chain, cells = walks.grid_transitions(free, stand_still=stand_still), walks.grid_cells(free)
    expected = _by_brute_force([chain] * num_agents, [cells] * num_agents, np.ones((num_agents, 2), bool))
    mixture = lumped.open_grid_lumped(height, width, num_agents, stand_still=stand_still)
    assert _as_dict(mixture) == pytest.approx(expected)
    enumerated = lumped.enumerated_lumped(chain, walks.stationary_distribution(chain), cells, num_agents)
    assert _as_dict(enumerated) == pytest.approx(expected)


def test_heterogeneous_team_agrees_with_the_joint_chain():
    """The first agent has only x, so it moves in a column."""
    has = np.array([[True, False], [True, True], [True, True]])
    column, grid = np.ones((3, 1), bool), np.ones((3, 2), bool)
    chains = [walks.grid_transitions(free) for free in (column, grid, grid)]
    expected = _by_brute_force(chains, [walks.grid_cells(free) for free in (column, grid, grid)], has)
    assert _as_dict(lumped.open_grid_lumped(3, 2, 3, agent_features=has)) == pytest.approx(expected)


def test_enumeration_sees_walls():
    free = np.array([[1, 1, 0, 1], [1, 1, 1, 1]], bool)
    chain, cells = walks.grid_transitions(free), walks.grid_cells(free)
    expected = _by_brute_force([chain] * 2, [cells] * 2, np.ones((2, 2), bool))
    found = lumped.enumerated_lumped(chain, walks.stationary_distribution(chain), cells, 2)
    assert _as_dict(found) == pytest.approx(expected)


def test_counting_a_long_walk_approaches_the_exact_operator():
    rng = np.random.default_rng(0)
    free = np.ones((5, 5), bool)
    chain, cells = walks.grid_transitions(free), walks.grid_cells(free)
    start = rng.choice(25, p=walks.stationary_distribution(chain), size=(4000, 3))
    spreads = spread(cells[walks.simulate_walk(chain, start, 50, rng)])
    counted = lumped.counted_lumped(spreads[:-1].reshape(-1, 2), spreads[1:].reshape(-1, 2))
    exact = lumped.open_grid_lumped(5, 5, 3)
    np.testing.assert_array_equal(counted.tuples, exact.tuples)
    np.testing.assert_allclose(counted.weights, exact.weights, atol=0.005)
    truth, estimate = exact.spectrum(), counted.spectrum(8)
    np.testing.assert_allclose(estimate.eigenvalues, truth.eigenvalues[:8], rtol=0.03)
    clusters = spectrum.eigenvalue_clusters(truth.eigenvalues, 0.05)
    cosines = spectrum.eigen_cosine(estimate.eigenfunctions, exact.weights, truth.eigenfunctions, clusters)
    assert cosines.min() > 0.98


def test_counting_by_hand():
    before = np.array([[0.0], [0.0], [1.0], [1.0]])
    after = np.array([[1.0], [0.0], [1.0], [1.0000000001]])
    operator = lumped.counted_lumped(before, after)
    np.testing.assert_allclose(operator.pairs, np.array([[2, 1], [1, 4]]) / 8)
    np.testing.assert_allclose(operator.spectrum().eigenvalues, [1 / 3 + 1 / 5])


def test_the_first_pair_on_the_square_is_one_cluster_difference_first():
    """Section 3.2: the difference of the axes, then their sum. The two eigenvalues differ by only a thousandth."""
    operator = lumped.open_grid_lumped(15, 15, 3)
    found = operator.spectrum(12)
    clusters = spectrum.eigenvalue_clusters(found.eigenvalues)
    assert clusters[:5] == [[0, 1], [2], [3, 4], [5, 6], [7, 8]]
    swapped = found.eigenfunctions[operator.index(operator.tuples[:, ::-1])]
    parity = operator.weights @ (found.eigenfunctions * swapped)
    np.testing.assert_allclose(parity[:3], [-1.0, 1.0, 1.0], atol=1e-6)
    assert 0 < found.eigenvalues[1] / found.eigenvalues[0] - 1 < 2e-3


def test_index_finds_tuples_and_refuses_others():
    operator = lumped.open_grid_lumped(3, 3, 2)
    found = operator.index(np.array([[[0, 0], [2, 1]]]))
    assert operator.tuples[found].tolist() == [[[0, 0], [2, 1]]]
    with pytest.raises(ConfigError, match="spreads"):
        operator.index(np.array([[0, 3]]))


def test_joint_spectrum_is_made_of_products_of_single_agent_eigenvalues():
    free = np.ones((4, 5), bool)
    chain = walks.grid_transitions(free)
    single = np.sort(np.linalg.eigvals(chain).real)
    expected = np.sort(1.0 - np.outer(single, single).ravel())[1:21]
    teams, found = joint_grid.joint_grid_spectrum(free, 2, 20)
    np.testing.assert_allclose(found.eigenvalues, expected, atol=1e-10)
    assert teams.shape == (400, 2, 2)
    assert teams[21].tolist() == [[0, 1], [0, 1]]
    joint = joint_grid.joint_transitions(chain, 2)
    residual = found.eigenfunctions - joint @ found.eigenfunctions - found.eigenfunctions * found.eigenvalues
    np.testing.assert_allclose(residual, 0.0, atol=1e-9)


def test_joint_transitions_multiply_and_refuse_large_teams():
    chain = walks.grid_transitions(np.array([[1, 1, 1]], bool))
    joint, teams = joint_grid.joint_transitions(chain, 3), joint_grid.joint_teams(3, 3)
    for before, after in [(0, 0), (5, 8), (13, 26), (22, 4)]:
        expected = np.prod([chain[a, b] for a, b in zip(teams[before], teams[after], strict=True)])
        assert joint[before, after] == pytest.approx(expected)
    with pytest.raises(ConfigError, match="joint states"):
        joint_grid.joint_transitions(np.eye(225), 2)
