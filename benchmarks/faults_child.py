"""A small training run that `benchmarks.faults` kills, stops and gives too little disk space.

python -m benchmarks.faults_child DIRECTORY WORK
"""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, PRNGKeyArray
from rich.console import Console

from cooptions.errors import CooptionsError, Interrupted
from cooptions.runs.directory import open_run
from cooptions.training.loop import train
from cooptions.training.progress import Progress, StageProgress
from cooptions.training.signals import obey_signals

STEPS, ROW, SEEDS = 400, 20, 2


class State(eqx.Module):
    """Parameters, an optimiser state, a replay buffer and a key, like a real stage."""

    weights: Array
    optimiser: optax.OptState
    buffer: Array
    key: Array


@dataclass(frozen=True)
class Fit:
    """Fits a mean from a buffer of noisy samples."""

    work: int = 0
    """The number of matrix products per step, to make steps slower."""

    def init(self, data: Array, *, key: PRNGKeyArray) -> State:
        weights = jax.random.normal(key, (64,))
        return State(weights, optax.adam(0.05).init(weights), jnp.zeros((50, 64)), key)

    def step(self, state: State, data: Array, *, key: PRNGKeyArray) -> tuple[State, dict[str, Array]]:
        place = jax.random.randint(key, (), 0, 50)
        buffer = state.buffer.at[place].set(data + jax.random.normal(key, (64,)))
        loss, gradient = jax.value_and_grad(lambda weights: jnp.mean((weights - buffer) ** 2))(state.weights)
        heat = jax.lax.fori_loop(0, self.work, lambda _, x: jnp.tanh(x @ x), jnp.eye(64))
        updates, optimiser = optax.adam(0.05).update(gradient + 0.0 * heat[0], state.optimiser)
        return State(
            optax.apply_updates(state.weights, updates), optimiser, buffer, jax.random.fold_in(state.key, 1)
        ), {"loss": loss}


class Telling(Progress):
    """Collects warnings, and sends SIGINT after `stop_at` rows of metrics."""

    def __init__(self, tell: Callable[[str], None], stop_at: int = 0) -> None:
        super().__init__(Console(quiet=True))
        self.tell, self.left = tell, stop_at

    def warn(self, message: str) -> None:
        self.tell(message)

    @contextlib.contextmanager
    def stage(self, name: str, num_steps: int, done: int = 0) -> Iterator[StageProgress]:
        with super().stage(name, num_steps, done) as show:
            advance = show.advance

            def count(steps: int, metrics: dict, *, earlier: bool = False) -> None:
                advance(steps, metrics, earlier=earlier)
                self.left -= bool(metrics)
                if metrics and self.left == 0:
                    os.kill(os.getpid(), signal.SIGINT)

            show.advance = count
            yield show


def make(path: Path, tell: Callable[[str], None], *, work: int = 0, stop_at: int = 0) -> None:
    """Train or resume training in a run directory, with a checkpoint after every row."""
    keys = jax.random.split(jax.random.key(0), SEEDS)
    data = jnp.zeros((SEEDS, 64)) + jnp.arange(SEEDS)[:, None]
    with open_run(path, {"fit": {"work": work}}, tell) as run:
        run.stage(
            "fit",
            lambda: train(
                Fit(work), data, keys, name="fit", num_steps=STEPS, log_steps=ROW, directory=path,
                progress=Telling(tell, stop_at), checkpoint_seconds=0.0, chunk_seconds=0.05,
            ).state.weights,
            lambda arrays: arrays,
        )  # fmt: skip


if __name__ == "__main__":
    try:
        with obey_signals():
            print("begun", flush=True)
            make(Path(sys.argv[1]), print, work=int(sys.argv[2]))
    except Interrupted as stopped:
        print(stopped, file=sys.stderr)
        raise SystemExit(130) from None
    except CooptionsError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
