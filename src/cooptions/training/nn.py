"""Networks, written for any batch in front: callers vmap over members with weights of their own.

Layers compute as precisely as their inputs are: weights are kept in float32, and rounded for inputs of half precision.
"""

import itertools
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


def _add(bias: Float[Array, " out"], product: Float[Array, "*batch out"]) -> Float[Array, "*batch out"]:
    """In float32, and so are the bias's many gradients when they are summed."""
    return (product.astype(jnp.float32) + bias).astype(product.dtype)


def normalised_relu(x: Float[Array, "*batch unit"]) -> Float[Array, "*batch unit"]:
    """Of all units of a layer, those above their mean, in units of their standard deviation, which float32 tells."""
    wide = x.astype(jnp.float32)
    centred = wide - wide.mean(axis=-1, keepdims=True)
    return jax.nn.relu(centred * jax.lax.rsqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-6)).astype(x.dtype)


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
            x = self.activation(_add(bias, x @ weight.astype(x.dtype)))
        return _add(self.biases[-1], x @ self.weights[-1].astype(x.dtype))


FEW = 4
"""Pictures of one member up to which patches are multiplied, not rows."""


class Convolution(eqx.Module):
    """A convolution of stride 1 that keeps the size, as matrix products (`benchmarks/convolution.py`).

    Members with weights of their own (seeds, options, agents) would make a grouped convolution, which is slow. A member
    with many pictures multiplies whole rows of them with a banded matrix: much of that is zeros, and yet it is faster
    than patches of single cells, with all their copying. For a single picture, as where every environment executes an
    option of its own, the banded matrix would be much larger than the picture, and patches are faster.
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
    kernel, _, num_in, num_out = weight.shape
    *batch, height, width, _ = x.shape
    rows = x.reshape(*batch, height, width * num_in)
    rows = jnp.pad(rows, [(0, 0)] * len(batch) + [((kernel - 1) // 2, kernel // 2), (0, 0)])
    nearby = jnp.concatenate([rows[..., row : row + height, :] for row in range(kernel)], axis=-1)
    product = nearby @ _banded(weight, width).reshape(kernel * width * num_in, width * num_out)
    return product.reshape(*batch, height, width, num_out)


def _banded(weight: Float[Array, "row column in out"], width: int) -> Float[Array, "row from in to out"]:
    """The weights from every cell of a row to every cell of the row below it: the kernel laid over each in turn."""
    kernel = weight.shape[1]
    left = (kernel - 1) // 2
    around = (width - 1 - left, width - kernel + left, 0)  # negative, it crops a kernel wider than the picture
    reach = jax.lax.pad(weight, jnp.zeros((), weight.dtype), [(0, 0, 0), around, (0, 0, 0), (0, 0, 0)])
    return jnp.stack([reach[:, width - 1 - cell : 2 * width - 1 - cell] for cell in range(width)], axis=3)


class GRU(eqx.Module):
    """A gated recurrent unit over a sequence, which forgets where a new episode begins.

    Its hidden state is float32 whatever the precision of its inputs: small changes must be able to add up.
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
        # All steps at once: only the rest is sequential.
        inputs = _add(self.input_bias, x @ self.input_weight.astype(x.dtype))
        outputs = _recur(self.weight, self.bias, hidden, inputs, first)
        return outputs[-1], outputs


class _Gates(eqx.Module):
    """What one step of the unit computes, and its gradient needs: kept as precisely as the inputs are."""

    before: Float[Array, "*batch hidden"]
    """The hidden state before it, forgotten where an episode begins."""
    reset: Float[Array, "*batch hidden"]
    update: Float[Array, "*batch hidden"]
    new: Float[Array, "*batch hidden"]
    kept: Float[Array, "*batch hidden"]
    """The part of the new content that comes from the hidden state."""

    @property
    def after(self) -> Float[Array, "*batch hidden"]:
        return (1 - self.update) * self.new + self.update * self.before


def _gates(
    weight: Float[Array, "hidden gates"],
    bias: Float[Array, " hidden"],
    hidden: Float[Array, "*batch hidden"],
    inputs: Float[Array, "*batch gates"],
    first: Bool[Array, "*batch"],
) -> _Gates:
    before = jnp.where(first[..., None], 0.0, hidden)
    product = before.astype(inputs.dtype) @ weight.astype(inputs.dtype)
    reset_x, update_x, new_x = jnp.split(inputs.astype(jnp.float32), 3, axis=-1)
    reset_h, update_h, new_h = jnp.split(product.astype(jnp.float32), 3, axis=-1)
    reset, update, kept = jax.nn.sigmoid(reset_x + reset_h), jax.nn.sigmoid(update_x + update_h), new_h + bias
    return _Gates(before, reset, update, jnp.tanh(new_x + reset * kept), kept)


def _scan(step: Callable, carry: Array, inputs: Any, *, reverse: bool = False) -> tuple[Array, Any]:
    """`lax.scan`; on a GPU, where beginning a step costs more than its arithmetic, short ones are written out.

    Written out, seeds stay in front of time: `lax.scan` would put time first, and copy everything for that.
    """
    length = jax.tree.leaves(inputs)[0].shape[0]
    if jax.default_backend() != "gpu" or length > 32:
        return jax.lax.scan(step, carry, inputs, reverse=reverse)
    outputs = {}
    for time in reversed(range(length)) if reverse else range(length):
        carry, outputs[time] = step(carry, jax.tree.map(lambda leaf, time=time: leaf[time], inputs))
    return carry, jax.tree.map(lambda *each: jnp.stack(each), *(outputs[time] for time in range(length)))


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
        after = _gates(weight, bias, hidden, *step).after
        return after, after

    return _scan(step, hidden, (inputs, first))[1]


def _recur_forward(weight: Array, bias: Array, hidden: Array, inputs: Array, first: Array) -> tuple[Array, Any]:
    def step(hidden: Array, step: tuple[Array, Array]) -> tuple[Array, tuple[Array, _Gates]]:
        gates = _gates(weight, bias, hidden, *step)
        return gates.after, (gates.after, jax.tree.map(lambda gate: gate.astype(inputs.dtype), gates))

    _, (outputs, gates) = _scan(step, hidden, (inputs, first))
    return outputs, (weight, gates, first)


def _recur_backward(kept: Any, gradient: Array) -> tuple[Array, Array, Array, Array, None]:
    """The gradient by hand: steps backwards find that of every gate, and the weights' is then one product of all."""
    weight, gates, first = kept
    precision = gates.new.dtype
    weight = weight.astype(precision)

    def step(following: Array, step: tuple[Array, _Gates, Array]) -> tuple[Array, tuple[Array, Array]]:
        gradient, gates, first = step
        gates = jax.tree.map(lambda gate: gate.astype(jnp.float32), gates)
        total = gradient + following
        of_new = total * (1 - gates.update) * (1 - gates.new**2)
        of_update = total * (gates.before - gates.new) * gates.update * (1 - gates.update)
        of_reset = of_new * gates.kept * gates.reset * (1 - gates.reset)
        of_gates = jnp.concatenate([of_reset, of_update, of_new * gates.reset], axis=-1).astype(precision)
        of_before = total * gates.update + (of_gates @ weight.T).astype(jnp.float32)
        return jnp.where(first[..., None], 0.0, of_before), (of_gates, of_new.astype(precision))

    begin = jnp.zeros_like(gradient[0])
    of_hidden, (of_gates, of_new) = _scan(step, begin, (gradient, gates, first), reverse=True)
    size, rows = begin.shape[-1], list(range(gradient.ndim - 1))
    of_weight = jnp.tensordot(gates.before, of_gates, axes=[rows, rows], preferred_element_type=jnp.float32)
    of_bias = of_gates[..., -size:].astype(jnp.float32).sum(axis=tuple(rows))
    of_inputs = jnp.concatenate([of_gates[..., :-size], of_new], axis=-1)
    return of_weight, of_bias, of_hidden, of_inputs, None


_recur.defvjp(_recur_forward, _recur_backward)
