"""The only training loop: chunks of `lax.scan`, seeds side by side, and everything that happens between chunks."""

import json
import math
import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PRNGKeyArray

from cooptions.errors import CooptionsError, Interrupted, require
from cooptions.files import write_bytes
from cooptions.training.checkpoints import Checkpoints
from cooptions.training.progress import Progress

State = TypeVar("State")
Metrics = dict[str, Array]


@runtime_checkable
class Stage(Protocol[State]):
    """What can be trained. Both functions are for one seed: the loop vmaps them."""

    def init(self, data: Any, *, key: PRNGKeyArray) -> State: ...

    def step(self, state: State, data: Any, *, key: PRNGKeyArray) -> tuple[State, Metrics]: ...


class Trained(eqx.Module, Generic[State]):
    """The final state of every seed, and which seeds stayed finite."""

    state: State
    healthy: np.ndarray


def train(
    stage: Stage[State],
    data: Any,
    keys: Key[Array, " seed"],
    *,
    name: str,
    num_steps: int,
    chunk_steps: int,
    unit: int = 1,
    directory: Path | None = None,
    progress: Progress | None = None,
    checkpoint_seconds: float = 30.0,
) -> Trained[State]:
    """Train all seeds for `num_steps`, in chunks of `chunk_steps`, going on from a checkpoint where there is one.

    `data` leads with the seed axis. Step t of a seed uses `fold_in(key, t)` and nothing else, so that where the
    chunks begin, and how often the run was stopped, leaves no trace in the result. Between chunks it logs to
    `directory/metrics/NAME.jsonl`, checkpoints to `directory/checkpoints/NAME` at most every
    `checkpoint_seconds`, shows progress, notices seeds whose metrics are no longer finite, and obeys signals.
    `unit` is what progress counts a step as, such as the environment steps in it.
    """
    require(num_steps >= 1, f"{name}: num_steps must be at least 1, not {num_steps}")
    require(chunk_steps >= 1, f"{name}: chunk_steps must be at least 1, not {chunk_steps}")
    progress = progress or Progress.silent()
    keys, data = shard_seeds((keys, data))
    state = shard_seeds(jax.jit(jax.vmap(lambda key, data: stage.init(data, key=key)))(keys, data))
    checkpoints = Checkpoints(directory / "checkpoints" / name) if directory else None
    metrics = MetricsFile(directory / "metrics" / f"{name}.jsonl" if directory else None)
    done, state = checkpoints.restore(state) if checkpoints else (0, state)
    metrics.keep_until(done)
    progress.tracker.begin(name, metrics.rows(), unit)
    healthy = metrics.finite_so_far(len(keys))
    saved_at = time.monotonic()
    with StopSignals() as stop, progress.stage(name, num_steps * unit, done * unit) as show:
        while done < num_steps:
            length = min(chunk_steps, num_steps - done)
            state, values = run_chunk(stage, length, state, data, keys, jnp.int32(done))
            done += length
            row = {key: np.asarray(value) for key, value in values.items()}
            metrics.append(done, row)
            progress.tracker.log(done, row)
            healthy &= _report_divergence(name, done, row, healthy, progress.warn)
            show.advance(length * unit, row)
            now = time.monotonic()
            if checkpoints and (stop.requested or now - saved_at > checkpoint_seconds):
                checkpoints.save(done, state)
                saved_at = time.monotonic()
                checkpoint_seconds = max(checkpoint_seconds, 10 * (saved_at - now))  # a large replay takes a while
            if stop.requested:  # after the last chunk, too: else what comes next would begin
                raise Interrupted(f"{name}: stopped at step {done} of {num_steps}; run the same command to go on")
    if not healthy.any():
        raise CooptionsError(f"{name}: every seed diverged; lower the learning rate or look at metrics/{name}.jsonl")
    return Trained(state, healthy)


@partial(jax.jit, static_argnums=(0, 1), donate_argnums=2)
def run_chunk(
    stage: Stage[State], length: int, state: State, data: Any, keys: Key[Array, " seed"], begun: Array
) -> tuple[State, Metrics]:
    """Advance every seed by `length` steps; metrics are means over the chunk, one number a seed."""

    def one_seed(state: State, data: Any, key: PRNGKeyArray) -> tuple[State, Metrics]:
        def body(state: State, step: Array) -> tuple[State, Metrics]:
            return stage.step(state, data, key=jax.random.fold_in(key, step))

        state, metrics = jax.lax.scan(body, state, begun + jnp.arange(length))
        return state, jax.tree.map(lambda value: value.mean(axis=0), metrics)

    return jax.vmap(one_seed)(state, data, keys)


def shard_seeds(tree: Any) -> Any:
    """Spread the leading seed axis over as many devices as divide it."""
    num_seeds = jax.tree.leaves(tree)[0].shape[0]
    num_devices = math.gcd(num_seeds, len(jax.devices()))
    if num_devices == 1:
        return tree
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:num_devices]), ("seed",))
    return jax.device_put(tree, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("seed")))


class MetricsFile:
    """One JSON object a chunk: the step it ended at and each metric as a list over seeds."""

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def rows(self) -> list[dict[str, Any]]:
        if self.path is None or not self.path.exists():
            return []
        lines = self.path.read_text().split("\n")
        return [json.loads(line) for line in lines[:-1]]  # what follows the last newline is empty or cut off

    def keep_until(self, step: int) -> None:
        """Forget what was logged after the checkpoint that training goes on from."""
        if self.path is not None:
            kept = [row for row in self.rows() if row["step"] <= step]
            write_bytes(self.path, "".join(f"{json.dumps(row)}\n" for row in kept).encode())

    def append(self, step: int, metrics: dict[str, np.ndarray]) -> None:
        if self.path is not None:
            row = {"step": step, **{key: value.tolist() for key, value in metrics.items()}}
            with open(self.path, "a") as file:
                file.write(json.dumps(row) + "\n")

    def finite_so_far(self, num_seeds: int) -> np.ndarray:
        """Which seeds have only finite values in the file."""
        finite = np.ones(num_seeds, bool)
        for row in self.rows():
            for key, values in row.items():
                finite &= np.isfinite(values) if key != "step" else True
        return finite


def _report_divergence(
    name: str, step: int, metrics: dict[str, np.ndarray], healthy: np.ndarray, warn: Callable[[str], None]
) -> np.ndarray:
    """Which seeds have finite metrics, with a warning for each that lost them in this chunk."""
    finite = np.all([np.isfinite(value) for value in metrics.values()], axis=0)
    for seed in np.flatnonzero(healthy & ~finite):
        bad = next(key for key, value in metrics.items() if not np.isfinite(value[seed]))
        place = f"seed {seed + 1} of {len(finite)}"  # the loop knows no seed by its own number
        warn(f"{name}: {place} diverged by step {step} ({bad} is not finite); the others go on")
    return finite


class StopSignals:
    """Turns SIGINT and SIGTERM into a request to stop after the current chunk; a second one stops at once."""

    def __init__(self) -> None:
        self.requested = False

    def __enter__(self) -> "StopSignals":
        self._previous = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._request)
        return self

    def _request(self, number: int, frame: Any) -> None:
        if self.requested:
            os._exit(128 + number)
        self.requested = True

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
