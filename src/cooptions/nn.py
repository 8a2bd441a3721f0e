"""Networks, written for any batch in front: callers vmap over members with weights of their own."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray


def _orthogonal(key: PRNGKeyArray, num_in: int, num_out: int, scale: float) -> Float[Array, "in out"]:
    """A random orthogonal matrix; of many members, one after the other.

    Side by side, the QR decompositions of two layers can wait for each other forever on two CPU cores (jaxlib 0.10.2).
    """
    draw = jax.nn.initializers.orthogonal(scale)
    return jax.custom_batching.sequential_vmap(lambda key: draw(key, (num_in, num_out)))(key)


class MLP(eqx.Module):
    """Linear layers with an activation between them. Weights start orthogonal, biases at 0."""

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
            x = self.activation(x @ weight + bias)
        return x @ self.weights[-1] + self.biases[-1]


class Convolution(eqx.Module):
    """A convolution of stride 1 that keeps the size, as products of whole rows of a picture with a banded matrix.

    Members with weights of their own (seeds, options, agents) would make a grouped convolution, which is slow. Patches
    of single cells times weights make a batched product, but a narrow one, with much copying; for the small pictures of
    grid worlds, rows are faster although they multiply by many zeros (`benchmarks/convolution.py`).
    """

    weight: Float[Array, "row column in out"]
    bias: Float[Array, " out"]

    def __init__(self, kernel: int, num_in: int, num_out: int, *, key: PRNGKeyArray) -> None:
        weight = _orthogonal(key, kernel * kernel * num_in, num_out, 2.0**0.5)
        self.weight = weight.reshape(kernel, kernel, num_in, num_out)
        self.bias = jnp.zeros(num_out)

    def __call__(self, x: Float[Array, "*batch height width in"]) -> Float[Array, "*batch height width out"]:
        kernel, _, num_in, num_out = self.weight.shape
        *batch, height, width, _ = x.shape
        above, below = (kernel - 1) // 2, kernel // 2
        rows = x.reshape(*batch, height, width * num_in)
        rows = jnp.pad(rows, [(0, 0)] * len(batch) + [(above, below), (0, 0)])
        nearby = jnp.concatenate([rows[..., row : row + height, :] for row in range(kernel)], axis=-1)
        banded = jnp.einsum("kab,rkio->raibo", _band(kernel, width), self.weight)
        product = nearby @ banded.reshape(kernel * width * num_in, width * num_out)
        return product.reshape(*batch, height, width, num_out) + self.bias


def _band(kernel: int, width: int) -> Float[np.ndarray, "column width width"]:
    """Which cell a of a row is column k of the kernel laid over cell b."""
    shift = np.arange(kernel) - (kernel - 1) // 2
    from_cell, to_cell = np.arange(width)[:, None], np.arange(width)
    return (from_cell == to_cell + shift[:, None, None]).astype(np.float32)


class GRU(eqx.Module):
    """A gated recurrent unit over a sequence, which forgets where a new episode begins."""

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
        inputs = x @ self.input_weight + self.input_bias  # all steps at once: only the rest is sequential
        outputs = _recur(self.weight, self.bias, hidden, inputs, first)
        return outputs[-1], outputs


def _gates(
    weight: Float[Array, "hidden gates"],
    bias: Float[Array, " hidden"],
    before: Float[Array, "*batch hidden"],
    inputs: Float[Array, "*batch gates"],
) -> tuple[Array, Array, Array, Array]:
    """Reset, update and new content, and the part of the latter that comes from the hidden state."""
    reset_x, update_x, new_x = jnp.split(inputs, 3, axis=-1)
    reset_h, update_h, new_h = jnp.split(before @ weight, 3, axis=-1)
    reset, update, kept = jax.nn.sigmoid(reset_x + reset_h), jax.nn.sigmoid(update_x + update_h), new_h + bias
    return reset, update, jnp.tanh(new_x + reset * kept), kept


def _unroll(length: int) -> int:
    """Steps written out in a loop: on a GPU, where beginning each costs more than its arithmetic, up to 32."""
    return min(length, 32) if jax.default_backend() == "gpu" else 1


@jax.custom_vjp
def _recur(
    weight: Float[Array, "hidden gates"],
    bias: Float[Array, " hidden"],
    hidden: Float[Array, "*batch hidden"],
    inputs: Float[Array, "time *batch gates"],
    first: Bool[Array, "time *batch"],
) -> Float[Array, "time *batch hidden"]:
    """The hidden state after each step."""

    def step(hidden: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
        x_t, first_t = step
        hidden = jnp.where(first_t[..., None], 0.0, hidden)
        _, update, new, _ = _gates(weight, bias, hidden, x_t)
        hidden = (1 - update) * new + update * hidden
        return hidden, hidden

    return jax.lax.scan(step, hidden, (inputs, first), unroll=_unroll(inputs.shape[0]))[1]


def _recur_forward(weight: Array, bias: Array, hidden: Array, inputs: Array, first: Array) -> tuple[Array, Any]:
    outputs = _recur(weight, bias, hidden, inputs, first)
    before = jnp.where(first[..., None], 0.0, jnp.concatenate([hidden[None], outputs[:-1]]))
    return outputs, (weight, bias, before, inputs, first)


def _recur_backward(kept: Any, gradient: Array) -> tuple[Array, Array, Array, Array, None]:
    """The gradient by hand: all gates at once from the states that were kept, so that little is left for the steps.

    Steps backwards only gather `total`, the gradient of each hidden state; everything else is a multiple of it, and
    the weights' part one product instead of a sum over steps.
    """
    weight, bias, before, inputs, first = kept
    reset, update, new, new_h = _gates(weight, bias, before, inputs)
    of_new = (1 - update) * (1 - new**2)
    slopes = [of_new * new_h * reset * (1 - reset), (before - new) * update * (1 - update), of_new * reset]
    slope = jnp.concatenate(slopes, axis=-1)

    def step(following: Array, step: tuple[Array, Array, Array, Array]) -> tuple[Array, Array]:
        gradient_t, slope_t, update_t, first_t = step
        total = gradient_t + following
        of_before = total * update_t + (jnp.concatenate([total] * 3, axis=-1) * slope_t) @ weight.T
        return jnp.where(first_t[..., None], 0.0, of_before), total

    unroll = _unroll(inputs.shape[0])
    steps = (gradient, slope, update, first)
    of_hidden, total = jax.lax.scan(step, jnp.zeros_like(before[0]), steps, reverse=True, unroll=unroll)
    of_gates = jnp.concatenate([total] * 3, axis=-1) * slope
    of_inputs = jnp.concatenate([of_gates[..., : -total.shape[-1]], total * of_new], axis=-1)
    of_weight = jnp.tensordot(before, of_gates, axes=[list(range(before.ndim - 1))] * 2)
    of_bias = of_gates[..., -total.shape[-1] :].sum(axis=tuple(range(total.ndim - 1)))
    return of_weight, of_bias, of_hidden, of_inputs, None


_recur.defvjp(_recur_forward, _recur_backward)
