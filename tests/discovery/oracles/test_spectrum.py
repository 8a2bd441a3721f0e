import numpy as np
import pytest
import scipy.linalg

from cooptions.discovery.oracles import spectrum as spectra
from cooptions.discovery.oracles import walks
from cooptions.errors import ConfigError


def test_path_graph_has_cosines():
    size = 9
    corridor = walks.grid_transitions(np.ones((1, size), bool), stand_still=True)
    found = spectra.laplacian_spectrum(spectra.pair_law(corridor, np.full(size, 1 / size)))
    order = np.arange(1, size)
    np.testing.assert_allclose(found.eigenvalues, (2 - 2 * np.cos(np.pi * order / size)) / 5, atol=1e-12)
    cosines = np.sqrt(2.0) * np.cos(np.pi * (np.arange(size)[:, None] + 0.5) * order / size)
    signs = np.sign(np.sum(cosines * found.eigenfunctions, axis=0))
    np.testing.assert_allclose(found.eigenfunctions, cosines * signs, atol=1e-10)


def test_irreversible_chain_agrees_with_the_generalised_problem():
    chain = np.random.default_rng(0).dirichlet(np.ones(6), size=6)
    weights = walks.stationary_distribution(chain)
    reversal = (weights[:, None] * chain).T / weights[:, None]
    np.testing.assert_allclose(reversal.sum(axis=1), 1.0)
    laplacian = np.eye(6) - (chain + reversal) / 2
    expected = scipy.linalg.eigh(np.diag(weights) @ laplacian, np.diag(weights), eigvals_only=True)
    found = spectra.laplacian_spectrum(spectra.pair_law(chain, weights), 4)
    np.testing.assert_allclose(found.eigenvalues, expected[1:5], atol=1e-12)
    np.testing.assert_allclose(laplacian @ found.eigenfunctions, found.eigenfunctions * found.eigenvalues, atol=1e-10)
    gram = found.eigenfunctions.T @ np.diag(weights) @ found.eigenfunctions
    np.testing.assert_allclose(gram, np.eye(4), atol=1e-10)
    np.testing.assert_allclose(weights @ found.eigenfunctions, 0.0, atol=1e-10)


def test_only_the_constant_is_dropped_when_eigenvalue_zero_is_multiple():
    found = spectra.laplacian_spectrum(np.diag([0.25, 0.75]))
    np.testing.assert_allclose(found.eigenvalues, [0.0], atol=1e-12)
    np.testing.assert_allclose(found.eigenfunctions[:, 0], [np.sqrt(3), -1 / np.sqrt(3)])


def test_asymmetric_pairs_and_unvisited_states_are_refused():
    with pytest.raises(ConfigError, match="symmetric"):
        spectra.laplacian_spectrum(np.array([[0.2, 0.5], [0.1, 0.2]]))
    with pytest.raises(ConfigError, match="visited"):
        spectra.laplacian_spectrum(np.diag([1.0, 0.0]))


def test_eigenvalue_clusters_by_hand():
    values = np.array([0.100, 0.101, 0.2, 0.203, 0.206, 0.5])
    assert spectra.eigenvalue_clusters(values, 0.02) == [[0, 1], [2, 3, 4], [5]]
    assert spectra.eigenvalue_clusters(values, 0.001) == [[0], [1], [2], [3], [4], [5]]


def _orthonormal(weights: np.ndarray, num_columns: int) -> np.ndarray:
    vectors, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(len(weights), num_columns)))
    return vectors / np.sqrt(weights)[:, None]


def test_eigen_cosine_forgives_rotation_within_a_cluster_only():
    weights = np.random.default_rng(2).dirichlet(np.ones(12))
    basis = _orthonormal(weights, 4)
    angle = 0.4
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    estimate = 7.0 * basis[:, :2] @ turn
    np.testing.assert_allclose(spectra.eigen_cosine(estimate, weights, basis, [[0, 1], [2], [3]]), 1.0)
    apart = spectra.eigen_cosine(estimate, weights, basis, [[0], [1], [2], [3]])
    np.testing.assert_allclose(apart, np.cos(angle))
    outside = np.stack([basis[:, 0] + basis[:, 3], basis[:, 2], np.zeros(12)], axis=-1)
    np.testing.assert_allclose(
        spectra.eigen_cosine(outside, weights, basis, [[0, 1], [2, 3]]), [np.sqrt(0.5), 0.0, 0.0], atol=1e-12
    )


def test_a_constant_part_counts_against_an_estimate():
    chain = walks.grid_transitions(np.ones((1, 6), bool))
    weights = walks.stationary_distribution(chain)
    exact = spectra.laplacian_spectrum(spectra.pair_law(chain, weights))
    shifted = exact.eigenfunctions[:, :1] + 1.0
    clusters = spectra.eigenvalue_clusters(exact.eigenvalues)
    assert spectra.eigen_cosine(shifted, weights, exact.eigenfunctions, clusters)[0] == pytest.approx(np.sqrt(0.5))


def test_clusters_must_cover_the_estimates():
    with pytest.raises(ConfigError, match="clusters"):
        spectra.eigen_cosine(np.ones((3, 2)), np.full(3, 1 / 3), np.eye(3), [[0]])
