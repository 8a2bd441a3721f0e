import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from grid_samples import fit_one

from cooptions.discovery.laplacian.base import Pairs
from cooptions.discovery.laplacian.exact import Exact
from cooptions.discovery.laplacian.kronecker import Kronecker, largest_products
from cooptions.discovery.laplacian.moments import moments
from cooptions.discovery.oracles import (
    eigen_cosine,
    eigenvalue_clusters,
    grid_cells,
    grid_transitions,
    joint_grid_spectrum,
)
from cooptions.envs.grid import Grid
from cooptions.envs.team import Team
from cooptions.errors import ConfigError

FREE = np.ones((5, 5), bool)


def steps_of(free: np.ndarray) -> Pairs:
    """Every step of a grid once, because the stationary walk over available actions is uniform on them."""
    source, target = np.nonzero(grid_transitions(free))
    cells = (grid_cells(free) - 2.0) / 2.0
    return Pairs(jnp.asarray(cells[source], jnp.float32), jnp.asarray(cells[target], jnp.float32))


def both_agents(pairs: Pairs) -> Pairs:
    """Joint transitions whose single-agent parts, pooled, are each of `pairs` twice."""
    return jax.tree.map(lambda z: jnp.concatenate([z, z[::-1]], axis=1), pairs)


def test_products_are_the_joint_walks_eigenfunctions() -> None:
    teams, exact = joint_grid_spectrum(FREE, num_agents=2, num_eigenfunctions=60)
    team = Team.of(Grid(5, 5, 2))
    kronecker = Kronecker(50, Exact(num_eigenfunctions=24, max_values=25)).for_team(team, 4)
    state = fit_one(kronecker, both_agents(steps_of(FREE)))
    z = jnp.asarray((teams - 2.0) / 2.0, jnp.float32).reshape(len(teams), -1)
    values = np.asarray(jax.jit(jax.vmap(lambda z: kronecker.eigenfunctions(state, z)))(z), float)
    clusters = eigenvalue_clusters(exact.eigenvalues, tolerance=1e-3)
    assert max(len(cluster) for cluster in clusters) >= 4
    assert eigen_cosine(values, exact.weights, exact.eigenfunctions, clusters).min() > 0.99
    np.testing.assert_allclose(kronecker.eigenvalues(state), exact.eigenvalues[:50], atol=1e-4)


def test_each_type_has_its_own_factors() -> None:
    """One agent moves only along x, the other on the plane. Products are the joint eigenfunctions."""
    laplacian = Kronecker(12, Exact(num_eigenfunctions=4, max_values=25)).for_team(
        Team.of(Grid(5, 5, 2, types="12")), 3
    )
    line, plane = steps_of(np.ones((5, 1), bool)), steps_of(FREE)
    data = jax.tree.map(
        lambda x, xy: jnp.concatenate([jnp.repeat(x[:, :1], len(xy), axis=0), jnp.tile(xy, (len(x), 1))], axis=1),
        line,
        plane,
    )
    solution = fit_one(laplacian, data)
    found = moments(lambda z: laplacian.eigenfunctions(solution, z), data)
    np.testing.assert_allclose(found.covariance, np.eye(12), atol=1e-3)
    np.testing.assert_allclose(found.energy, np.diag(laplacian.eigenvalues(solution)), atol=1e-3)
    first = jax.vmap(lambda z: laplacian.single_eigenfunctions(solution, z)[0, 0])(data.z)
    assert abs(np.corrcoef(first, data.z[:, 0])[0, 1]) > 0.97


def test_only_raw_joint_states_have_products() -> None:
    with pytest.raises(ConfigError, match="raw_joint"):
        Kronecker().for_team(Team.of(Grid(5, 5, 3)), 2)


@pytest.mark.parametrize(("num_values", "num_factors", "num"), [(3, 4, 30), (6, 2, 10), (2, 3, 8)])
def test_largest_products_against_all_of_them(num_values: int, num_factors: int, num: int) -> None:
    rest = np.random.default_rng(0).uniform(size=(num_factors, num_values - 1))
    values = np.concatenate([np.ones((num_factors, 1)), -np.sort(-rest, axis=1)], axis=1)
    combinations = np.array(list(itertools.product(range(num_values), repeat=num_factors)))
    everything = np.sort(values[np.arange(num_factors), combinations].prod(axis=1))[::-1]
    indices, products = largest_products(jnp.asarray(values, jnp.float32), num)
    np.testing.assert_allclose(products, everything[:num], rtol=1e-5)
    np.testing.assert_allclose(values[np.arange(num_factors), indices].prod(axis=1), products, rtol=1e-5)
    assert len({tuple(row) for row in np.asarray(indices)}) == num
    np.testing.assert_array_equal(indices[0], 0)


def test_more_products_than_there_are_is_refused() -> None:
    with pytest.raises(ConfigError, match="num_eigenfunctions"):
        Kronecker(9, Exact(num_eigenfunctions=2)).for_team(Team.of(Grid(5, 5, 2)), 4)
