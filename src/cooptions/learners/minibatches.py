"""Which environments of a rollout are learned from together."""

import jax
from jaxtyping import Array, Int, PRNGKeyArray


def minibatches(num_envs: int, num_epochs: int, num_parts: int, *, key: PRNGKeyArray) -> Int[Array, "part env"]:
    """In each epoch, every environment is in one of as many parts, drawn anew."""
    keys = jax.random.split(key, num_epochs)
    orders = jax.vmap(lambda key: jax.random.permutation(key, num_envs))(keys)
    return orders.reshape(num_epochs * num_parts, -1)
