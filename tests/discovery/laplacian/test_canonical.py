import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from grid_samples import fit_one, standardised, walk

from cooptions.discovery.laplacian.base import Pairs
from cooptions.discovery.laplacian.canonical import Basis, Canonical, References, canonicalise, num_to_fit
from cooptions.discovery.laplacian.moments import Moments, moments
from cooptions.discovery.laplacian.nystrom import Nystrom
from cooptions.discovery.laplacian.nystrom import Solution as NystromSolution
from cooptions.training.fitting import fit

BASES: tuple[Basis, ...] = ("symmetric", "axes")


def canonical_values(
    laplacian: Nystrom, samples: list[tuple[np.ndarray, np.ndarray]], common: np.ndarray, num: int, basis: Basis
) -> np.ndarray:
    """[data set, common, k]: the first eigenfunctions of each data set at common spreads, standardised there."""
    data = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(standardised(*spreads) for spreads in samples))
    states = fit(laplacian, data, jax.random.split(jax.random.key(0), len(samples)), name="laplacian")
    z = np.stack([(common - before.mean(axis=0)) / before.std(axis=0) for before, _ in samples])

    @jax.jit
    @jax.vmap
    def evaluate(state: Any, data: Pairs, z: jax.Array) -> jax.Array:
        canonical = canonicalise(laplacian, state, data, num, basis)
        return jax.vmap(lambda z: canonical(laplacian.eigenfunctions(state, z)))(z)

    values = np.asarray(evaluate(states, data, jnp.asarray(z, jnp.float32)))
    return (values - values.mean(axis=1, keepdims=True)) / values.std(axis=1, keepdims=True)


def worst_agreement(found: np.ndarray) -> np.ndarray:
    """The smallest signed cosine between the same function of any two data sets."""
    return np.min([(a * b).mean(axis=0) for a, b in itertools.combinations(found, 2)], axis=0)


@pytest.mark.parametrize("basis", BASES)
def test_fresh_data_gives_the_same_functions_and_signs(basis: Basis) -> None:
    samples = [walk(7, 7, 2, 50_000, seed).spreads for seed in range(4)]
    common = samples[0][0][::20]
    found = canonical_values(Nystrom(num_to_fit(4), num_landmarks=40), samples, common, 4, basis)
    assert worst_agreement(found).min() > 0.9
    x, y = ((common - common.mean(axis=0)) / common.std(axis=0)).T
    expected = (-(x + y), y - x) if basis == "symmetric" else (-x, -y)
    for function, reference in zip(found[0].T, expected, strict=False):
        assert np.mean(function * reference) / reference.std() > 0.9


def test_rotations_of_the_learned_functions_change_nothing() -> None:
    """Mixing, scaling and shifting the estimator's functions changes nothing. The result is standardised."""
    data = standardised(*walk(7, 7, 2, 20_000, seed=0).spreads)
    laplacian = Nystrom(6, num_landmarks=40)
    state = fit_one(laplacian, data)
    mixing = jax.random.normal(jax.random.key(1), (6, 6))
    mixed = type(state)(state.landmarks, state.bandwidth, state.weights @ mixing, state.offset + 1, state.eigenvalues)

    @jax.jit
    def evaluate(state: Any) -> tuple[jax.Array, Canonical, Moments]:
        canonical = canonicalise(laplacian, state, data, 4)
        functions = lambda z: canonical(laplacian.eigenfunctions(state, z))  # noqa: E731
        return jax.vmap(functions)(data.z[:2000]), canonical, moments(functions, data)

    values, canonical, found = evaluate(state)
    np.testing.assert_allclose(values, evaluate(mixed)[0], atol=0.03)
    assert list(canonical.reference) == [0, 1, 2, 3]  # x + y, x - y, x y, x^2 + y^2
    np.testing.assert_allclose(found.mean, 0, atol=1e-3)
    np.testing.assert_allclose(found.covariance, np.eye(4), atol=1e-2)
    np.testing.assert_allclose(np.diagonal(found.energy), canonical.eigenvalues, rtol=1e-2)


def test_learned_keeps_the_functions_and_standardises_them() -> None:
    z = jax.random.normal(jax.random.key(0), (5000, 2)) @ jnp.array([[3.0, 1.0], [0.0, 1.0]])
    data = Pairs(z, z + 0.5 * jax.random.normal(jax.random.key(1), z.shape))
    laplacian = Nystrom(2)
    identity = NystromSolution(jnp.zeros((1, 2)), jnp.float32(1.0), jnp.eye(3)[:, :2], jnp.zeros(2), jnp.zeros(2))
    canonical = jax.jit(lambda: canonicalise(laplacian, identity, data, 1, "learned"))()
    both = np.concatenate([data.z, data.next_z])
    np.testing.assert_allclose(canonical.matrix, [[1 / both[:, 0].std()], [0.0]], rtol=1e-3)
    np.testing.assert_allclose(canonical(data.z[0]), (data.z[0, :1] - both[:, 0].mean()) / both[:, 0].std(), atol=1e-3)
    np.testing.assert_allclose(canonical.eigenvalues, 0.125 / both[:, 0].var(), rtol=0.1)


def test_distinct_eigenvalues_are_left_alone() -> None:
    """On a long grid x is slower than y: `symmetric` must not mix them."""
    spreads = walk(10, 5, 2, 50_000, seed=0).spreads
    values = canonical_values(Nystrom(8, num_landmarks=40), [spreads], spreads[0], 1, "symmetric")[0, :, 0]
    x, y = ((spreads[0] - spreads[0].mean(axis=0)) / spreads[0].std(axis=0)).T
    assert np.mean(values * -x) > 0.9
    assert abs(np.mean(values * y)) < 0.1


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("num_features", [1, 2, 3, 8])
def test_references_are_1_where_all_are_together(num_features: int, basis: Basis) -> None:
    references = References.of(num_features, basis)
    assert references.combination.shape == (references.rank.size, len(references.exponents))
    np.testing.assert_array_equal(references.exponents[:num_features], np.eye(num_features))
    np.testing.assert_allclose(
        references.combination @ references.combination.T, np.eye(references.rank.size), atol=1e-9
    )
    together = references(jnp.full(num_features, -50.0))
    np.testing.assert_allclose(together, references.combination.sum(axis=1), atol=1e-4)


def test_references_have_names() -> None:
    assert References.of(2, "symmetric").names("xy")[:5] == ("x + y", "x - y", "x y", "x^2 + y^2", "x^2 - y^2")
    assert References.of(3, "symmetric").names("xyz")[:3] == ("x + y + z", "x - y", "x + y - 2z")
    assert References.of(2, "axes").names("xy")[:5] == ("x", "y", "x y", "x^2", "y^2")


def test_moments_do_not_depend_on_blocks() -> None:
    """4100 transitions fill one block and a little of a second."""
    z = jax.random.normal(jax.random.key(0), (4100, 2)) + 3.0
    next_z = z + 0.1 * jax.random.normal(jax.random.key(1), z.shape)
    found = jax.jit(lambda: moments(lambda z: z, Pairs(z, next_z)))()
    both = np.concatenate([z, next_z]).astype(float)
    np.testing.assert_allclose(found.mean, both.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(found.covariance, np.cov(both.T, bias=True), rtol=1e-3, atol=1e-4)
    step = np.asarray(next_z - z, float)
    np.testing.assert_allclose(found.energy, step.T @ step / 8200, rtol=1e-3, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("shape", [(15, 15, 3), (10, 10, 2), (10, 10, 4), (11, 11, 3)])
def test_ten_full_data_sets_agree(shape: tuple[int, int, int], basis: Basis) -> None:
    samples = [walk(*shape, 500_000, seed).spreads for seed in range(10)]
    found = canonical_values(Nystrom(num_to_fit(10), 150), samples, samples[0][0][::20], 10, basis)
    assert worst_agreement(found)[:4].min() > 0.9
