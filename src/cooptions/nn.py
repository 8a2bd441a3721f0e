"""Networks, written for any batch in front: callers vmap over members with weights of their own."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray


class MLP(eqx.Module):
    """Linear layers with an activation between them. Weights start orthogonal, biases at 0."""

    weights: list[Float[Array, "_ _"]]
    biases: list[Float[Array, " _"]]
    activation: Callable = eqx.field(static=True)

    def __init__(
        self, sizes: Sequence[int], *, key: PRNGKeyArray, activation: Callable = jax.nn.relu, scale: float = 2.0**0.5
    ) -> None:
        keys = jax.random.split(key, len(sizes) - 1)
        orthogonal = jax.nn.initializers.orthogonal(scale)
        self.weights = [orthogonal(k, (a, b)) for k, a, b in zip(keys, sizes[:-1], sizes[1:], strict=True)]
        self.biases = [jnp.zeros(size) for size in sizes[1:]]
        self.activation = activation

    def __call__(self, x: Float[Array, "*batch _"]) -> Float[Array, "*batch _"]:
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = self.activation(x @ weight + bias)
        return x @ self.weights[-1] + self.biases[-1]


class Convolution(eqx.Module):
    """A convolution of stride 1 that keeps the size, as a product of patches and weights.

    Members with weights of their own (seeds, options, agents) would make a grouped convolution, which is slow; this
    makes a batched product.
    """

    weight: Float[Array, "patch out"]
    bias: Float[Array, " out"]
    kernel: int = eqx.field(static=True)

    def __init__(self, kernel: int, num_in: int, num_out: int, *, key: PRNGKeyArray) -> None:
        self.weight = jax.nn.initializers.orthogonal(2.0**0.5)(key, (kernel * kernel * num_in, num_out))
        self.bias = jnp.zeros(num_out)
        self.kernel = kernel

    def __call__(self, x: Float[Array, "*batch height width in"]) -> Float[Array, "*batch height width out"]:
        height, width = x.shape[-3:-1]
        before, after = (self.kernel - 1) // 2, self.kernel // 2
        x = jnp.pad(x, [(0, 0)] * (x.ndim - 3) + [(before, after)] * 2 + [(0, 0)])
        shifts = [(row, column) for row in range(self.kernel) for column in range(self.kernel)]
        patches = [x[..., row : row + height, column : column + width, :] for row, column in shifts]
        return jnp.concatenate(patches, axis=-1) @ self.weight + self.bias


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
        orthogonal = jax.nn.initializers.orthogonal()
        self.weight = jnp.concatenate([orthogonal(k, (num_hidden, num_hidden)) for k in jax.random.split(key, 3)], 1)
        self.bias = jnp.zeros(num_hidden)

    def __call__(
        self,
        hidden: Float[Array, "*batch hidden"],
        x: Float[Array, "time *batch in"],
        first: Bool[Array, "time *batch"],
    ) -> tuple[Float[Array, "*batch hidden"], Float[Array, "time *batch hidden"]]:
        """The hidden state after the sequence, and after each of its steps."""
        inputs = x @ self.input_weight + self.input_bias  # all steps at once: only the rest is sequential

        def step(hidden: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
            x_t, first_t = step
            hidden = jnp.where(first_t[..., None], 0.0, hidden)
            reset_x, update_x, new_x = jnp.split(x_t, 3, axis=-1)
            reset_h, update_h, new_h = jnp.split(hidden @ self.weight, 3, axis=-1)
            update = jax.nn.sigmoid(update_x + update_h)
            new = jnp.tanh(new_x + jax.nn.sigmoid(reset_x + reset_h) * (new_h + self.bias))
            hidden = (1 - update) * new + update * hidden
            return hidden, hidden

        return jax.lax.scan(step, hidden, (inputs, first))
