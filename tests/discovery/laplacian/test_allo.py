import jax
import jax.numpy as jnp
import numpy as np
from grid_samples import standardised, walk

from cooptions.discovery.laplacian.allo import Allo, constraint_errors, lagrangian
from cooptions.discovery.laplacian.base import Pairs

SMALL = Allo(num_eigenfunctions=3, hidden=(16,), steps=10, batch_size=32)


def test_a_constraint_moves_only_the_later_function() -> None:
    values = jax.random.normal(jax.random.key(0), (50, 3))
    of_2_with_1 = jax.grad(lambda values: constraint_errors(values)[2, 1])(values)
    assert np.any(of_2_with_1[:, 2] != 0)
    np.testing.assert_array_equal(of_2_with_1[:, :2], 0)
    np.testing.assert_array_equal(constraint_errors(values)[0, 1:], 0)  # <u_0, u_1> constrains only u_1


def test_the_barrier_term_is_unbiased() -> None:
    """The mean over many small batches is the square of the expected error, without the variance of a batch."""
    state = jax.jit(SMALL.init)(Pairs(jnp.zeros((1, 2)), jnp.zeros((1, 2))), key=jax.random.key(0))
    z = jax.random.normal(jax.random.key(1), (20_000, 2, 4, 2))
    duals, one = jnp.zeros((4, 4)), jnp.float32(1.0)

    @jax.jit
    @jax.vmap
    def barrier_term(batch: jax.Array) -> jax.Array:
        return lagrangian(state.network, duals, one, Pairs(batch, batch))[0]

    expected = jax.jit(lambda z: constraint_errors(state.network(z)))(z.reshape(-1, 2))
    np.testing.assert_allclose(barrier_term(z).mean(), jnp.sum(expected**2), rtol=0.15)


def test_duals_climb_with_the_error_and_eigenvalues_come_from_them() -> None:
    data = standardised(*walk(5, 5, 2, 2_000, seed=0).spreads)
    state = jax.jit(SMALL.init)(data, key=jax.random.key(0))
    after, metrics = jax.jit(SMALL.step)(state, data, key=jax.random.key(1))
    index = jax.random.randint(jax.random.key(1), (2, 32), 0, len(data.z))
    _, (_, errors) = jax.jit(lagrangian)(
        state.network, state.duals, state.barrier, Pairs(data.z[index], data.next_z[index])
    )
    np.testing.assert_allclose(after.duals, 1e-3 * 2.0 * errors.mean, rtol=1e-5)
    eigenvalues = SMALL.eigenvalues(SMALL.solution(after))
    np.testing.assert_allclose(eigenvalues, np.sort(-np.diagonal(after.duals)[1:] / 2), rtol=1e-6)
    assert float(metrics["barrier"]) >= 2.0
