import jax
import jax.numpy as jnp
import pytest

from cooptions.training.liveness import array_bytes, working_bytes

SQUARE = jax.ShapeDtypeStruct((100, 100), jnp.float32)
SIZE = 40_000


def chain(x):
    return jnp.tanh(jnp.tanh(x @ x) @ x) @ x


def kept(x):
    first = x @ x
    second = first @ x
    return (second @ x) + first


def stacked(x):
    return jax.lax.scan(lambda carry, _: (jnp.tanh(carry), carry), x, length=5)[1]


def inside(x):
    return jax.lax.scan(lambda carry, _: (carry + (carry @ x) @ x, None), x, length=5)[0]


def overwritten(x):
    return jax.lax.dynamic_update_slice(x @ x, x[:1] + 1, (3, 0))


def either(x):
    return jax.lax.cond(x[0, 0] > 0, lambda: ((x @ x) @ x) @ x, lambda: x)


@pytest.mark.parametrize(
    ("function", "squares"),
    [
        (lambda x: jnp.tanh(2 * x) + 1, 0),  # fused into its consumer
        (lambda x: x @ x, 1),
        (chain, 2),  # an operand and a result at a time
        (kept, 3),  # the first result is needed at the end
        (stacked, 5),
        (inside, 2),
        (overwritten, 1),
        (either, 3),  # the branch's memory, and the result
        (lambda x: jax.jit(chain)(x) @ x, 2),  # a nested function changes nothing
        (lambda x: jnp.concatenate([x, x]), 2),
        (lambda x: jnp.linalg.eigh(x, symmetrize_input=False)[1], 4.01),  # LAPACK's workspace, and the result
        (lambda x: jnp.where(x > 0, x @ x, 0.0).T[:50] @ x, 1.5),  # views keep their base alive
    ],
)
def test_written_arrays_count_during_their_lifetime(function, squares):
    assert working_bytes(function, SQUARE) == squares * SIZE


def test_gradients_keep_what_they_need():
    loss = jax.grad(lambda x: chain(x).sum())
    assert working_bytes(loss, SQUARE) >= 3 * SIZE


def test_arrays_have_sizes():
    assert array_bytes(jnp.zeros((3, 5), jnp.int8)) == 15
    assert array_bytes(jax.random.split(jax.random.key(0), 4)) == 32
