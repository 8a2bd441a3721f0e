import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cooptions.learners.networks import Network, NetworkConfig
from cooptions.training import recurrence_kernel
from cooptions.training.nn import GRU, MLP, Convolution, normalised_relu

WIDTH = 16
"""Of hidden states: the least for which there is a kernel."""


def with_random_biases(layer):
    """Replace the biases, which are initialised at 0, so that the test would notice if they were ignored."""
    leaves, structure = jax.tree.flatten(layer)
    keys = jax.random.split(jax.random.key(7), len(leaves))
    noisy = [jax.random.normal(k, x.shape) if x.ndim == 1 else x for k, x in zip(keys, leaves, strict=True)]
    return jax.tree.unflatten(structure, noisy)


@pytest.mark.parametrize("pictures", [1, 7])
@pytest.mark.parametrize(("kernel", "width"), [(2, 8), (3, 8), (5, 8), (5, 2)])
def test_convolution_is_that_of_lax(kernel, width, pictures):
    layer = with_random_biases(Convolution(kernel, 4, 6, key=jax.random.key(0)))
    x = jax.random.normal(jax.random.key(1), (pictures, 5, width, 4))
    filters = layer.weight.reshape(kernel, kernel, 4, 6)
    expected = jax.lax.conv_general_dilated(x, filters, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    np.testing.assert_allclose(layer(x), expected + layer.bias, atol=1e-5)


def test_all_layers_but_the_last_are_activated():
    layers = MLP([1, 2, 1], key=jax.random.key(0))
    weights, biases = [jnp.array([[1.0, -1.0]]), jnp.array([[2.0], [3.0]])], [jnp.array([0.5, 0.0]), jnp.array([-4.0])]
    layers = eqx.tree_at(lambda m: (m.weights, m.biases), layers, (weights, biases))
    np.testing.assert_allclose(layers(jnp.array([[1.0], [-1.0]])), [[2 * 1.5 - 4], [3 * 1.0 - 4]])


def test_weights_start_orthogonal_and_scaled():
    for layers, scale in (
        (MLP([8, 4], key=jax.random.key(0)), 2.0**0.5),
        (MLP([8, 4], key=jax.random.key(0), scale=0.1), 0.1),
    ):
        np.testing.assert_allclose(layers.weights[0].T @ layers.weights[0], scale**2 * np.eye(4), atol=1e-5)


@pytest.fixture(params=["cpu", "gpu", "kernel"])
def backend(request, monkeypatch):
    """Short sequences are written out on a GPU; on some one kernel runs the whole sequence, which is interpreted
    here."""
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu" if request.param == "cpu" else "gpu")
    monkeypatch.setattr(recurrence_kernel, "interpret", request.param == "kernel")


def test_the_gru_equals_equinox(backend):
    """Compare step by step, with a reset in the middle of one of two sequences."""
    memory = with_random_biases(GRU(3, WIDTH, key=jax.random.key(0)))
    cell = eqx.nn.GRUCell(3, WIDTH, key=jax.random.key(2))
    parts = memory.input_weight.T, memory.weight.T, memory.input_bias, memory.bias
    cell = eqx.tree_at(lambda c: (c.weight_ih, c.weight_hh, c.bias, c.bias_n), cell, parts)
    x = jax.random.normal(jax.random.key(1), (4, 2, 3))
    first = jnp.zeros((4, 2), bool).at[2, 0].set(True)
    begun = jax.random.normal(jax.random.key(3), (2, WIDTH))
    last, states = memory(begun, x, first)
    for sequence in range(2):
        hidden = begun[sequence]
        for time in range(4):
            hidden = cell(x[time, sequence], jnp.zeros(WIDTH) if first[time, sequence] else hidden)
            np.testing.assert_allclose(states[time, sequence], hidden, atol=1e-5)
    np.testing.assert_array_equal(last, states[-1])


def test_the_gradient_of_the_gru_is_that_of_its_steps(backend):
    memory = with_random_biases(GRU(3, WIDTH, key=jax.random.key(0)))
    x, begun = jax.random.normal(jax.random.key(1), (4, 2, 3)), jax.random.normal(jax.random.key(3), (2, WIDTH))
    first = jnp.zeros((4, 2), bool).at[2, 0].set(True)
    wanted = jax.random.normal(jax.random.key(4), (4, 2, WIDTH))

    def plain(memory, hidden, x):
        states = []
        for time in range(4):
            hidden = jnp.where(first[time, :, None], 0.0, hidden)
            reset_x, update_x, new_x = jnp.split(x[time] @ memory.input_weight + memory.input_bias, 3, axis=-1)
            reset_h, update_h, new_h = jnp.split(hidden @ memory.weight, 3, axis=-1)
            update = jax.nn.sigmoid(update_x + update_h)
            new = jnp.tanh(new_x + jax.nn.sigmoid(reset_x + reset_h) * (new_h + memory.bias))
            hidden = (1 - update) * new + update * hidden
            states.append(hidden)
        return (jnp.stack(states) * wanted).sum() + hidden.sum()

    def ours(memory, hidden, x):
        last, states = memory(hidden, x, first)
        return (states * wanted).sum() + last.sum()

    found, expected = (jax.grad(f, argnums=(0, 1, 2))(memory, begun, x) for f in (ours, plain))
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


SHAPES = {"vector": ((6,), {}), "picture": ((5, 8, 3), {"channels": (8,), "kernels": (3,)})}


def outputs_and_gradient(shape, layers, half, recurrent, normalised):
    """The outputs for a short sequence, and the gradient of their error, in either precision."""
    config = NetworkConfig(hidden=(16, 16), recurrent=recurrent, half=half, normalised=normalised, **layers)
    network = with_random_biases(Network(shape, config, 3, key=jax.random.key(0)))
    seen = jax.random.normal(jax.random.key(1), (4, 32, *shape))
    first, wanted = jnp.zeros((4, 32), bool).at[2, :16].set(True), jax.random.normal(jax.random.key(2), (4, 32, 3)) + 2

    def loss(network):
        memory, outputs = network(jnp.zeros((32, config.memory_size)), seen, first)
        return ((outputs - wanted) ** 2).mean(), (memory, outputs)

    (_, results), gradient = jax.value_and_grad(loss, has_aux=True)(network)
    return jax.tree.leaves((results, gradient))


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize(("shape", "recurrent"), [("vector", True), ("picture", False)])
def test_half_precision_is_near_single_and_does_not_leave_the_network(shape, recurrent, normalised, backend):
    halves, singles = (outputs_and_gradient(*SHAPES[shape], half, recurrent, normalised) for half in (True, False))
    for half, single in zip(halves, singles, strict=True):
        assert half.dtype == jnp.float32
        if half.size:
            error = jnp.linalg.norm(half - single) / jnp.linalg.norm(single)
            assert 0 < error < 0.1


@pytest.mark.parametrize("shape", SHAPES)
def test_normalised_layers_are_scale_invariant(shape, backend):
    """Doubling weights changes neither a layer's activations nor the outputs, except for the head's weights."""
    shape, layers = SHAPES[shape]
    seen, first = jax.random.normal(jax.random.key(1), (1, 5, *shape)), jnp.zeros((1, 5), bool)

    def outputs(normalised, scale):
        config = NetworkConfig(hidden=(16, 16), normalised=normalised, **layers)
        network = with_random_biases(Network(shape, config, 3, key=jax.random.key(0)))
        larger = jax.tree.map(lambda leaf: scale * leaf, (network.convolutions, network.body))
        network = eqx.tree_at(lambda n: (n.convolutions, n.body), network, larger)
        return network(jnp.zeros((5, 0)), seen, first)[1]

    np.testing.assert_allclose(outputs(True, 2.0), outputs(True, 1.0), atol=1e-4)
    assert jnp.abs(outputs(False, 2.0) - outputs(False, 1.0)).max() > 0.01


def test_normalised_units_have_mean_0_and_variance_1(backend):
    x = 5 + 3 * jax.random.normal(jax.random.key(0), (7, 64))
    expected = jax.nn.relu((x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True))
    np.testing.assert_allclose(normalised_relu(x), expected, atol=1e-4)
    assert normalised_relu(x.astype(jnp.bfloat16)).dtype == jnp.bfloat16  # and so do the following layers


def test_small_changes_of_the_hidden_state_add_up_in_half_precision(backend):
    """A nearly closed update gate changes the hidden state by less than the resolution of half precision."""
    memory = GRU(1, 1, key=jax.random.key(0))
    gates = jnp.array([0.0, 7.0, 20.0])  # reset halfway, keep 99.9%, new content 1
    memory = eqx.tree_at(lambda m: (m.input_bias, m.weight), memory, (gates, jnp.zeros((1, 3))))
    last, _ = memory(jnp.ones((1, 1)) * 0.5, jnp.zeros((20, 1, 1), jnp.bfloat16), jnp.zeros((20, 1), bool))
    keep = jax.nn.sigmoid(7.0) ** 20
    np.testing.assert_allclose(last, [[0.5 * keep + 1 - keep]], atol=1e-5)
