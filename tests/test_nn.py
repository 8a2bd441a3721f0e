import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cooptions.nn import GRU, Convolution


@pytest.mark.parametrize("kernel", [3, 5])
def test_convolution_is_that_of_lax(kernel):
    layer = Convolution(kernel, 4, 6, key=jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (2, 5, 8, 4))
    filters = layer.weight.reshape(kernel, kernel, 4, 6)
    expected = jax.lax.conv_general_dilated(x, filters, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    np.testing.assert_allclose(layer(x), expected, atol=1e-5)


def test_memory_begins_anew_with_an_episode():
    memory = GRU(3, 5, key=jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (6, 2, 3))
    first = jnp.zeros((6, 2), bool).at[3].set(True)
    _, whole = memory(jnp.zeros((2, 5)), x, first)
    last, after = memory(jnp.ones((2, 5)), x[3:], first[3:])
    np.testing.assert_allclose(whole[3:], after, atol=1e-6)
    np.testing.assert_array_equal(last, after[-1])
    _, other = memory(jnp.ones((2, 5)), x, first)
    assert np.abs(whole[2] - other[2]).max() > 1e-3
