"""Networks, written for one element: callers vmap."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray


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
