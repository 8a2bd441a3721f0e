"""The division of a roll-out's environments into minibatches."""

import jax
from jaxtyping import Array, Int, PRNGKeyArray


def minibatches(num_envs: int, num_epochs: int, num_parts: int, *, key: PRNGKeyArray) -> Int[Array, "part env"]:
    """The environments of each minibatch. In each epoch, every environment is in one of `num_parts` random parts."""
    keys = jax.random.split(key, num_epochs)
    orders = jax.vmap(lambda key: jax.random.permutation(key, num_envs))(keys)
    return orders.reshape(num_epochs * num_parts, -1)
