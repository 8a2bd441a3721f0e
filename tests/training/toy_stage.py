"""A small stage with the state of a real one: parameters, optimiser, replay buffer, keys, counters."""

import sys
import time
from dataclasses import dataclass
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array

from cooptions.training.loop import train
from cooptions.training.tracking import NoTracker


class State(eqx.Module):
    weights: Array
    optimiser: optax.OptState
    buffer: Array
    position: Array
    key: Array


@dataclass(frozen=True)
class Regression:
    """Fits the data's mean from a replay buffer of noisy samples."""

    diverge_from: float = float("inf")
    """Data above this make the loss NaN from step 30 on."""

    def init(self, data, *, key):
        weights = jax.random.normal(key, (3,))
        return State(weights, optax.adam(0.05).init(weights), jnp.zeros((50, 3)), jnp.int32(0), key)

    def step(self, state, data, *, key):
        look = data + jax.random.normal(key, (3,))
        buffer = state.buffer.at[state.position % 50].set(look)
        loss, gradient = jax.value_and_grad(lambda w: jnp.mean((w - buffer) ** 2))(state.weights)
        loss = jnp.where((data.max() > self.diverge_from) & (state.position >= 30), jnp.nan, loss)
        updates, optimiser = optax.adam(0.05).update(gradient, state.optimiser)
        weights = optax.apply_updates(state.weights, updates)
        key = jax.random.fold_in(state.key, 1)
        return State(weights, optimiser, buffer, state.position + 1, key), {"loss": loss}


def data(num_seeds):
    return jnp.arange(num_seeds, dtype=jnp.float32)[:, None] + jnp.zeros((num_seeds, 3))


class Slow:
    """Lengthens the time between chunks, so that a kill can occur anywhere."""

    tracker = NoTracker()

    def stage(self, *arguments):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def warn(self, message):
        pass

    def compiling(self):
        return self

    def advance(self, steps, metrics, *, earlier=False):
        time.sleep(0.02)


if __name__ == "__main__":
    folder, seconds = Path(sys.argv[1]), float(sys.argv[2])
    keys = jax.random.split(jax.random.key(0), 2)
    trained = train(
        Regression(), data(2), keys, name="toy", num_steps=800, log_steps=10, directory=folder,
        progress=Slow(), checkpoint_seconds=seconds,
    )  # fmt: skip
    leaves = jax.tree.leaves(eqx.tree_at(lambda s: s.key, trained.state, replace_fn=jax.random.key_data))
    content = b"".join(jax.device_get(leaf).tobytes() for leaf in leaves)
    (folder / "result.bin").write_bytes(content)
