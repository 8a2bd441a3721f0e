"""A replay buffer: a ring of the newest ticks of every environment."""

from typing import Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

Ticks = TypeVar("Ticks")


class Replay(eqx.Module, Generic[Ticks]):
    """The newest ticks of every environment. Each leaf of `ticks` has leading axes [capacity, env].

    Ticks of an environment are stored in order. The state after a tick is that of the next tick, and is stored once.
    """

    ticks: Ticks
    count: Int[Array, ""]
    """Ticks written so far for each environment."""

    @property
    def capacity(self) -> int:
        return jax.tree.leaves(self.ticks)[0].shape[0]


def empty(example: Ticks, capacity: int) -> Replay[Ticks]:
    """An empty buffer for ticks with the shapes of `example`, which has a leading axis [env]."""
    zeros = jax.tree.map(lambda leaf: jnp.zeros((capacity, *leaf.shape), leaf.dtype), example)
    return Replay(zeros, jnp.int32(0))


def add(replay: Replay[Ticks], ticks: Ticks) -> Replay[Ticks]:
    """Overwrite the oldest ticks with a roll-out [time, env]. The capacity must be a multiple of its length."""
    length = jax.tree.leaves(ticks)[0].shape[0]
    at = replay.count % replay.capacity
    written = jax.tree.map(
        lambda old, new: jax.lax.dynamic_update_slice_in_dim(old, new.astype(old.dtype), at, axis=0),
        replay.ticks,
        ticks,
    )
    return Replay(written, replay.count + length)


def sample(
    replay: Replay[Ticks], num: int, length: int, stride: int, *, key: PRNGKeyArray
) -> tuple[Ticks, Int[Array, " sample"], Int[Array, " sample"]]:
    """Draw `num` sequences [time, sample] of `length` ticks that begin at multiples of `stride`.

    Also returns the index in the ring at which each begins, and its environment.
    """
    time_key, env_key = jax.random.split(key)
    held = jnp.minimum(replay.count, replay.capacity)
    num_starts = jnp.maximum((held - length) // stride + 1, 1)
    nth = jax.random.randint(time_key, (num,), 0, num_starts)
    begins = (replay.count - held + nth * stride) % replay.capacity
    env = jax.random.randint(env_key, (num,), 0, jax.tree.leaves(replay.ticks)[0].shape[1])
    time = (begins + jnp.arange(length)[:, None]) % replay.capacity
    return jax.tree.map(lambda leaf: leaf[time, env], replay.ticks), begins, env
