"""Every registered estimator on a problem with an exact solution by counting."""

import dataclasses
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from grid_samples import cosines, fit_one, standardised, walk

from cooptions.discovery.laplacian.allo import Allo
from cooptions.discovery.laplacian.base import LAPLACIANS, Pairs
from cooptions.discovery.laplacian.exact import Exact
from cooptions.discovery.laplacian.moments import moments, slowest
from cooptions.discovery.laplacian.nystrom import Nystrom
from cooptions.discovery.oracles import counted_lumped
from cooptions.errors import ConfigError
from cooptions.training.fitting import fit

SMALL = {
    "allo": Allo(num_eigenfunctions=4, hidden=(64, 64), steps=1500, batch_size=256, learning_rate=3e-3, dual_rate=5e-3),
    "nystrom": Nystrom(num_eigenfunctions=4, num_landmarks=60),
    "exact": Exact(num_eigenfunctions=4, max_values=40),
}


@pytest.fixture(scope="module")
def spreads() -> tuple[np.ndarray, np.ndarray]:
    return walk(6, 5, 2, 50_000, seed=0).spreads


@pytest.mark.parametrize("name", [name for name in LAPLACIANS if name != "kronecker"])  # it takes joint states
def test_finds_the_exact_eigenspaces_and_eigenvalues(name: str, spreads: tuple[np.ndarray, np.ndarray]) -> None:
    data, laplacian = standardised(*spreads), SMALL[name]
    state = fit_one(laplacian, data)
    exact = counted_lumped(*spreads).spectrum(4).eigenvalues
    assert cosines(laplacian, state, *spreads).min() > (0.95 if name == "allo" else 0.99)
    np.testing.assert_allclose(laplacian.eigenvalues(state), exact, rtol=0.25 if name == "allo" else 0.03)
    assert np.all(np.diff(laplacian.eigenvalues(state)) >= 0)
    found = jax.jit(lambda state: moments(lambda z: laplacian.eigenfunctions(state, z), data))(state)
    tolerance = 0.15 if name == "allo" else 0.01
    np.testing.assert_allclose(found.mean, 0, atol=tolerance)
    np.testing.assert_allclose(found.covariance, np.eye(4), atol=tolerance)


def test_seeds_can_be_vmapped() -> None:
    samples = [walk(5, 4 + seed, 2, 10_000, seed).spreads for seed in range(2)]
    data = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(standardised(*spreads) for spreads in samples))
    laplacian = Nystrom(num_eigenfunctions=3, num_landmarks=20)
    states = fit(laplacian, data, jax.random.split(jax.random.key(0), 2), name="laplacian")
    eigenvalues = jax.vmap(laplacian.eigenvalues)(states)
    for row, spreads in zip(eigenvalues, samples, strict=True):
        np.testing.assert_allclose(row, counted_lumped(*spreads).spectrum(3).eigenvalues, rtol=0.03)


def test_directions_of_rounding_errors_are_left_out() -> None:
    """The third direction has quotient 0.9, but rounding errors give 0.05, which would make it the slowest."""
    found = slowest(jnp.diag(jnp.array([1.0, 0.5, 4e-6])), jnp.diag(jnp.array([0.1, 0.2, 2e-7])), 2)
    np.testing.assert_allclose(found.eigenvalues, [0.1, 0.4], rtol=1e-4)


@pytest.mark.parametrize("num_features", [1, 3, 8])
def test_nystrom_orders_independent_features_by_their_speed(num_features: int) -> None:
    decay = 1 - 0.02 * (1 + 0.1 * np.arange(num_features))  # all slower than the first one's square, 0.04
    rng = np.random.default_rng(0)
    z = rng.normal(size=(40_000, num_features))
    next_z = decay * z + np.sqrt(1 - decay**2) * rng.normal(size=z.shape)
    laplacian = Nystrom(num_eigenfunctions=num_features, num_landmarks=100)
    state = fit_one(laplacian, Pairs(jnp.asarray(z, jnp.float32), jnp.asarray(next_z, jnp.float32)))
    values = np.asarray(jax.vmap(lambda z: laplacian.eigenfunctions(state, z))(jnp.asarray(z[:5000], jnp.float32)))
    correlations = np.abs(values.T @ z[:5000]) / 5000
    assert np.diag(correlations).min() > 0.9
    np.testing.assert_allclose(laplacian.eigenvalues(state), 1 - decay, rtol=0.1)


@pytest.mark.parametrize("name", ["nystrom", "exact"])
def test_missing_eigenfunctions_are_zero(name: str) -> None:
    values = np.random.default_rng(0).integers(3, size=(1000, 2)).astype(float)  # three values: two are not constant
    laplacian = dataclasses.replace(SMALL[name], num_eigenfunctions=4)
    state = fit_one(laplacian, standardised(values[:, :1], values[:, 1:]))
    z = jnp.asarray((np.arange(3)[:, None] - 1) * 1.2, jnp.float32)
    functions = np.asarray(jax.vmap(lambda z: laplacian.eigenfunctions(state, z))(z))
    assert np.abs(functions[:, :2]).max() > 0.5
    np.testing.assert_allclose(functions[:, 2:], 0, atol=1e-4)
    np.testing.assert_allclose(laplacian.eigenvalues(state)[2:], 2.0)


def test_exact_is_nan_for_too_many_values(spreads: tuple[np.ndarray, np.ndarray]) -> None:
    num_values = len(counted_lumped(*spreads).tuples)
    data = standardised(*spreads)
    enough = fit_one(Exact(num_eigenfunctions=2, max_values=num_values), data)
    too_few = fit_one(Exact(num_eigenfunctions=2, max_values=num_values - 1), data)
    assert np.isfinite(enough.eigenvalues).all()
    assert np.isnan(too_few.eigenvalues).all()


@pytest.mark.parametrize(
    ("laplacian", "field", "value"),
    [(Allo, "batch_size", 0), (Allo, "barrier", 0.0), (Nystrom, "bandwidth", -1.0), (Exact, "num_eigenfunctions", 0)],
)
def test_a_wrong_value_is_refused_by_name(laplacian: type, field: str, value: float) -> None:
    with pytest.raises(ConfigError, match=field):
        laplacian(**{field: value})


@pytest.mark.slow
def test_full_size_accuracy_and_speed() -> None:
    spreads = walk(15, 15, 3, 500_000, seed=0).spreads
    seconds = {}
    for laplacian in (Nystrom(), Allo()):
        start = time.monotonic()
        state = jax.block_until_ready(fit_one(laplacian, standardised(*spreads)))
        seconds[type(laplacian)] = time.monotonic() - start
        found = cosines(laplacian, state, *spreads)
        assert found[:5].min() >= 0.97
        assert found.min() >= 0.95
    assert seconds[Nystrom] < seconds[Allo] / 5


@pytest.mark.slow
@pytest.mark.parametrize("laplacian", [Nystrom(4), Allo(4)])
def test_raw_joint_states(laplacian: Allo | Nystrom) -> None:
    before, after = walk(7, 7, 2, 500_000, seed=0).joint
    assert cosines(laplacian, fit_one(laplacian, standardised(before, after)), before, after).min() >= 0.95
