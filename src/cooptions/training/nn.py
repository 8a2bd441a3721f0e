"""Networks for inputs with any leading batch axes. Callers vmap over members that have their own weights.

Layers compute in the precision of their inputs. Weights are stored in float32 and rounded for half-precision inputs.
"""

import itertools
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from cooptions.training.recurrence import recur


def _orthogonal(key: PRNGKeyArray, num_in: int, num_out: int, scale: float) -> Float[Array, "in out"]:
    """A random orthogonal matrix. Under `vmap`, the members are drawn one after the other.

    Batched QR decompositions of two layers can deadlock on two CPU cores (jaxlib 0.10.2).
    """
    draw = jax.nn.initializers.orthogonal(scale)
    return jax.custom_batching.sequential_vmap(lambda key: draw(key, (num_in, num_out)))(key)


def _add(bias: Float[Array, " out"], product: Float[Array, "*batch out"]) -> Float[Array, "*batch out"]:
    """Add a bias in float32, so that the bias's gradients are summed in float32 too."""
    return (product.astype(jnp.float32) + bias).astype(product.dtype)


def normalised_relu(x: Float[Array, "*batch unit"]) -> Float[Array, "*batch unit"]:
    """The ReLU of a layer's units, standardised over the layer. Mean and variance are computed in float32."""
    wide = x.astype(jnp.float32)
    centred = wide - wide.mean(axis=-1, keepdims=True)
    return jax.nn.relu(centred * jax.lax.rsqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-6)).astype(x.dtype)


class MLP(eqx.Module):
    """Linear layers with an activation between them. Weights are initialised orthogonal, biases 0."""

    weights: list[Float[Array, "_ _"]]
    biases: list[Float[Array, " _"]]
    activation: Callable = eqx.field(static=True)

    def __init__(
        self, sizes: Sequence[int], *, key: PRNGKeyArray, activation: Callable = jax.nn.relu, scale: float = 2.0**0.5
    ) -> None:
        keys = jax.random.split(key, len(sizes) - 1)
        self.weights = [_orthogonal(k, a, b, scale) for k, a, b in zip(keys, sizes[:-1], sizes[1:], strict=True)]
        self.biases = [jnp.zeros(size) for size in sizes[1:]]
        self.activation = activation

    def __call__(self, x: Float[Array, "*batch _"]) -> Float[Array, "*batch _"]:
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = self.activation(_add(bias, x @ weight.astype(x.dtype)))
        return _add(self.biases[-1], x @ self.weights[-1].astype(x.dtype))


FEW = 4
"""From this number of pictures per member on, `Convolution` multiplies rows; below it, patches."""


class Convolution(eqx.Module):
    """A convolution with stride 1 and same padding, computed as matrix products (`benchmarks/convolution.py`).

    Members with their own weights (seeds, options, agents) would need a grouped convolution, which is slow. If a member
    has many pictures, their rows are multiplied with a banded matrix. Much of that matrix is zero, but the product is
    faster than copying a patch for every cell. If a member has a single picture, for example when every environment
    executes a different option, the banded matrix would be much larger than the picture, and patches are faster.
    """

    weight: Float[Array, "row column in out"]
    bias: Float[Array, " out"]

    def __init__(self, kernel: int, num_in: int, num_out: int, *, key: PRNGKeyArray) -> None:
        weight = _orthogonal(key, kernel * kernel * num_in, num_out, 2.0**0.5)
        self.weight = weight.reshape(kernel, kernel, num_in, num_out)
        self.bias = jnp.zeros(num_out)

    def __call__(self, x: Float[Array, "*batch height width in"]) -> Float[Array, "*batch height width out"]:
        times = patches_times if np.prod(x.shape[:-3]) < FEW else rows_times
        return _add(self.bias, times(x, self.weight.astype(x.dtype)))


def patches_times(
    x: Float[Array, "*batch height width in"], weight: Float[Array, "row column in out"]
) -> Float[Array, "*batch height width out"]:
    """The convolution as one product of every cell's patch with the kernel."""
    kernel, _, num_in, num_out = weight.shape
    height, width = x.shape[-3:-1]
    around = ((kernel - 1) // 2, kernel // 2)
    x = jnp.pad(x, [(0, 0)] * (x.ndim - 3) + [around, around, (0, 0)])
    offsets = itertools.product(range(kernel), repeat=2)
    patches = [x[..., row : row + height, column : column + width, :] for row, column in offsets]
    return jnp.concatenate(patches, axis=-1) @ weight.reshape(kernel * kernel * num_in, num_out)


def rows_times(
    x: Float[Array, "*batch height width in"], weight: Float[Array, "row column in out"]
) -> Float[Array, "*batch height width out"]:
    """The convolution as one product of every row's neighbourhood with a banded matrix."""
    kernel, _, num_in, num_out = weight.shape
    *batch, height, width, _ = x.shape
    rows = x.reshape(*batch, height, width * num_in)
    rows = jnp.pad(rows, [(0, 0)] * len(batch) + [((kernel - 1) // 2, kernel // 2), (0, 0)])
    nearby = jnp.concatenate([rows[..., row : row + height, :] for row in range(kernel)], axis=-1)
    product = nearby @ _banded(weight, width).reshape(kernel * width * num_in, width * num_out)
    return product.reshape(*batch, height, width, num_out)


def _banded(weight: Float[Array, "row column in out"], width: int) -> Float[Array, "row from in to out"]:
    """The weights from every cell of an input row to every cell of an output row: the kernel shifted to each cell."""
    kernel = weight.shape[1]
    left = (kernel - 1) // 2
    around = (width - 1 - left, width - kernel + left, 0)  # negative values crop a kernel wider than the picture
    reach = jax.lax.pad(weight, jnp.zeros((), weight.dtype), [(0, 0, 0), around, (0, 0, 0), (0, 0, 0)])
    return jnp.stack([reach[:, width - 1 - cell : 2 * width - 1 - cell] for cell in range(width)], axis=3)


class GRU(eqx.Module):
    """A gated recurrent unit over a sequence. Its hidden state is reset to 0 where an episode begins.

    The hidden state is float32 for inputs of any precision, so that small changes are not rounded away.
    """

    input_weight: Float[Array, "in gates"]
    input_bias: Float[Array, " gates"]
    weight: Float[Array, "hidden gates"]
    bias: Float[Array, " hidden"]

    def __init__(self, num_in: int, num_hidden: int, *, key: PRNGKeyArray) -> None:
        input_key, key = jax.random.split(key)
        self.input_weight = jax.nn.initializers.lecun_normal()(input_key, (num_in, 3 * num_hidden))
        self.input_bias = jnp.zeros(3 * num_hidden)
        gates = [_orthogonal(k, num_hidden, num_hidden, 1.0) for k in jax.random.split(key, 3)]
        self.weight = jnp.concatenate(gates, axis=1)
        self.bias = jnp.zeros(num_hidden)

    def __call__(
        self,
        hidden: Float[Array, "*batch hidden"],
        x: Float[Array, "time *batch in"],
        first: Bool[Array, "time *batch"],
    ) -> tuple[Float[Array, "*batch hidden"], Float[Array, "time *batch hidden"]]:
        """The hidden state after the sequence, and after each of its steps."""
        inputs = x @ self.input_weight.astype(x.dtype)  # for all steps at once; only the rest is sequential
        biases = jnp.concatenate([self.input_bias.reshape(3, -1), self.bias[None]])
        outputs = recur(self.weight, biases, hidden, inputs, first)
        return outputs[-1], outputs
