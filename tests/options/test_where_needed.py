"""An expensive function is evaluated only for the entries that need it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cooptions.options.where_needed import CHUNK, where_needed

SIZE = 3 * CHUNK + 1


def product(matrix, vector):
    return matrix @ vector


def plain(matrix, needed, vector):
    return jnp.where(needed, matrix @ vector, 0)


def inputs(*front: int):
    keys = jax.random.split(jax.random.key(0), 2)
    return jax.random.normal(keys[0], (*front, 3, 2)), jax.random.normal(keys[1], (*front, SIZE, 2))


@pytest.mark.parametrize("num", [0, 1, CHUNK, CHUNK + 1, SIZE])
def test_needed_entries_of_a_batch_are_evaluated(num):
    matrix, vectors = inputs()
    needed = jax.random.permutation(jax.random.key(1), jnp.arange(SIZE) < num)
    answers = jax.jit(jax.vmap(lambda needed, vector: where_needed(product, matrix, needed, vector)))(needed, vectors)
    np.testing.assert_allclose(answers, jax.vmap(plain, (None, 0, 0))(matrix, needed, vectors), rtol=1e-5, atol=1e-6)


def test_an_outer_axis_has_its_own_shared_value():
    matrices, vectors = inputs(5)
    needed = jax.random.uniform(jax.random.key(1), (5, SIZE)) < jnp.linspace(0, 1, 5)[:, None]

    def of_seed(matrix, needed, vectors):
        return jax.vmap(lambda needed, vector: where_needed(product, matrix, needed, vector))(needed, vectors)

    expected = jax.vmap(jax.vmap(plain, (None, 0, 0)))(matrices, needed, vectors)
    np.testing.assert_allclose(jax.jit(jax.vmap(of_seed))(matrices, needed, vectors), expected, rtol=1e-5, atol=1e-6)


def test_members_without_a_shared_value_are_vmapped():
    matrices, vectors = inputs(5)
    needed = jnp.arange(5) % 2 == 0
    answers = jax.vmap(lambda *args: where_needed(product, *args))(matrices, needed, vectors[:, 0])
    np.testing.assert_allclose(answers, jax.vmap(plain)(matrices, needed, vectors[:, 0]), rtol=1e-5, atol=1e-6)


def test_arguments_without_a_batch_axis_are_allowed():
    matrix, vectors = inputs()
    needed = jnp.arange(SIZE) % 3 == 0
    answers = jax.vmap(lambda needed: where_needed(product, matrix, needed, vectors[0]))(needed)
    np.testing.assert_allclose(answers, needed[:, None] * (matrix @ vectors[0]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("num", "expected"), [(0, 0), (CHUNK, CHUNK), (CHUNK + 1, 2 * CHUNK)])
def test_other_entries_are_not_evaluated(num, expected):
    calls = []

    def counted(_, number):
        return jax.pure_callback(lambda x: calls.append(1) or x, number, number, vmap_method="sequential")

    needed = jnp.arange(SIZE) < num
    jax.block_until_ready(jax.vmap(lambda needed, x: where_needed(counted, (), needed, x))(needed, jnp.arange(SIZE)))
    assert len(calls) == expected


def test_on_a_gpu_all_entries_are_evaluated(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    matrix, vectors = inputs()
    needed = jnp.arange(SIZE) % 3 == 0
    asked = jax.vmap(lambda needed, vector: where_needed(product, matrix, needed, vector))
    np.testing.assert_allclose(asked(needed, vectors), needed[:, None] * (vectors @ matrix.T), rtol=1e-5, atol=1e-6)
    assert "while" not in str(jax.make_jaxpr(asked)(needed, vectors))


def test_batches_of_batches_are_worked_out_as_one():
    """Few of many environments' agents: no more than a chunk, though they are spread over the environments."""
    calls = []

    def counted(_, number):
        return jax.pure_callback(lambda x: calls.append(1) or x, number, number, vmap_method="sequential")

    needed = jnp.zeros((CHUNK, 3), bool).at[:, 1].set(True)
    numbers = jnp.arange(1, 3 * CHUNK + 1).reshape(CHUNK, 3)
    answers = jax.vmap(jax.vmap(lambda needed, x: where_needed(counted, (), needed, x)))(needed, numbers)
    np.testing.assert_array_equal(answers, jnp.where(needed, numbers, 0))
    assert len(calls) == CHUNK
