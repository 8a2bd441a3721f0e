"""The only training loop: chunks of steps vmapped over seeds, and everything that happens between chunks."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Key

from cooptions.errors import ArtifactError, CooptionsError, Interrupted, require
from cooptions.training import chunks
from cooptions.training.checkpoints import Checkpoints
from cooptions.training.chunks import Evaluated, Judged, Pace
from cooptions.training.chunks import Metrics as Metrics
from cooptions.training.chunks import Stage as Stage
from cooptions.training.metrics import MetricsFile as MetricsFile
from cooptions.training.metrics import finite_so_far
from cooptions.training.programs import make_room_for_programs
from cooptions.training.progress import Progress
from cooptions.training.signals import StopSignals as StopSignals

State = TypeVar("State")


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
    log_steps: int,
    unit: int = 1,
    directory: Path | None = None,
    progress: Progress | None = None,
    checkpoint_seconds: float = 30.0,
    chunk_seconds: float = 2.0,
) -> Trained[State]:
    """Train all seeds for `num_steps`, resuming from a checkpoint if there is one.

    `data` leads with the seed axis. Step t of a seed uses only `fold_in(key, t)`, so the result does not depend on
    where chunks begin or how often the run was stopped; an `Evaluated` stage derives its own keys. A chunk has as many
    steps as take about `chunk_seconds`. Between chunks the loop saves a checkpoint in `directory/checkpoints/NAME` at
    most every `checkpoint_seconds`, shows progress, and handles signals. Every `log_steps` steps it appends the mean
    metrics to `directory/metrics/NAME.jsonl`, runs an evaluation if the stage has one, and warns of diverged seeds.
    Progress counts each step as `unit` steps, for example the number of environment steps in it.
    """
    require(num_steps >= 1, f"{name}: num_steps must be at least 1, not {num_steps}")
    require(log_steps >= 1, f"{name}: log_steps must be at least 1, not {log_steps}")
    progress = progress or Progress.silent()
    num_seeds = len(keys)
    make_room_for_programs()
    keys, data = seat_seeds((keys, data))
    with StopSignals(name) as stop, progress.stage(name, num_steps * unit) as show:
        with show.compiling(), stop.uncut():
            state = shard_seeds(chunks.init_seeds(stage, keys, data))
            means = shard_seeds(chunks.no_means(stage, state, data, keys))
        job = _Job(
            stage, data, keys, name, num_steps, log_steps, unit, progress, show, stop,
            MetricsFile(directory / "metrics" / f"{name}.jsonl" if directory else None),
            Checkpoints(directory / "checkpoints" / name) if directory else None,
            state, means, np.ones(num_seeds, bool), checkpoint_seconds, Pace(chunk_seconds), Pace(chunk_seconds),
        )  # fmt: skip
        job.restore()
        job.run()
    if not job.healthy.any():
        raise CooptionsError(f"{name}: every seed diverged; lower the learning rate or look at metrics/{name}.jsonl")
    return Trained(first_seeds(job.state, num_seeds), job.healthy)


@dataclass(eq=False)
class _Job(Generic[State]):
    """One call of `train` and its progress."""

    stage: Stage[State]
    data: Any
    keys: Key[Array, " seed"]
    name: str
    num_steps: int
    log_steps: int
    unit: int
    progress: Progress
    show: Any
    """The `StageProgress` that `progress.stage` returned."""
    stop: StopSignals
    metrics: MetricsFile
    checkpoints: Checkpoints | None
    state: State
    means: Metrics
    """The mean of each metric over the steps of the current row."""
    healthy: np.ndarray
    checkpoint_seconds: float
    pace: Pace
    evaluation_pace: Pace
    done: int = 0
    rows: int = 0
    """Complete rows of metrics, which have been logged."""
    saved_at: float = field(default_factory=time.monotonic)
    compiled: set[str] = field(default_factory=set)
    odd: set[int] = field(default_factory=set)
    """Seeds that are sound but had a metric that was not finite, of which the loop has warned."""

    @property
    def row_end(self) -> int:
        """The step at which the current row ends."""
        return self.end_of(self.rows)

    def end_of(self, row: int) -> int:
        return min((row + 1) * self.log_steps, self.num_steps)

    @property
    def num_seeds(self) -> int:
        """The number of seeds requested. `seat_seeds` may have padded the arrays to more."""
        return len(self.healthy)

    @property
    def kept(self) -> tuple[State, Metrics]:
        """The content of a checkpoint. It does not depend on the number of devices."""
        return first_seeds((self.state, self.means), self.num_seeds)

    def _sound_seeds(self, stage: Judged) -> np.ndarray:
        return np.array(chunks.sound_seeds(stage, self.state, self.data))[: self.num_seeds]

    def restore(self) -> None:
        """Resume from the newest checkpoint and drop the metrics that were logged after it."""
        warn = self.progress.warn
        found = self.checkpoints.restore(self.kept, warn) if self.checkpoints else None
        if found is not None:
            self._require_place(found.step, found.rows)
            self.done, self.rows = found.step, found.rows
            self.state, self.means = seat_seeds(found.state)
        elif self.metrics.holds_rows:
            warn(f"{self.name}: there are metrics but no checkpoint; this stage begins again")
        rows = self.metrics.resume([self.end_of(row) for row in range(self.rows)], warn)
        self.progress.tracker.begin(self.name, rows, self.unit)
        self.healthy = finite_so_far(rows, self.num_seeds)
        if isinstance(self.stage, Judged) and found is not None:
            self.healthy = self._sound_seeds(self.stage)
        self.show.advance(self.done * self.unit, {}, earlier=True)

    def _require_place(self, step: int, rows: int) -> None:
        """Raise `ArtifactError` for a checkpoint that training cannot have written, for example a renamed file."""
        possible = 0 <= rows <= -(-self.num_steps // self.log_steps)
        if not (possible and min(rows * self.log_steps, self.num_steps) <= step <= self.end_of(rows)):
            assert self.checkpoints is not None
            raise ArtifactError(
                f"{self.checkpoints.file(step)}: damaged: training has no step {step} after {rows} rows of metrics; "
                f"restore it, or delete {self.checkpoints.path} to train this stage from its beginning"
            )

    def run(self) -> None:
        while self.rows < -(-self.num_steps // self.log_steps):
            length = 0
            while self.done < self.row_end:
                length = self._chunk()
                if self.done < self.row_end:
                    self.show.advance(length * self.unit, {})
                if self.done < self.row_end or self.stop.requested:
                    self._pause()
            self._end_row(length)
            self._pause()

    def _chunk(self) -> int:
        """Run one chunk and return its length."""
        with self._compiling("chunk") as new:
            if new:
                self._run(0)
        length = self.pace.next(self.row_end - self.done)
        begun = time.monotonic()
        self._run(length)
        self.pace.took(length, time.monotonic() - begun)
        self.done += length
        return length

    def _run(self, length: int) -> None:
        place = np.int32(self.done), np.int32(length)
        chunk = chunks.run_chunk(self.stage, self.log_steps, self.state, self.means, self.data, self.keys, *place)
        self.state, self.means = jax.block_until_ready(chunk)

    def _end_row(self, length: int) -> None:
        """Evaluate if the stage is `Evaluated`, then log the row."""
        values = self.means
        if isinstance(self.stage, Evaluated):
            evaluation = self._evaluation(self.stage)
            self.state, values = chunks.end_interval(self.stage, self.state, self.data, evaluation, self.means)
        row = {key: np.array(value)[: self.num_seeds] for key, value in values.items()}
        self.rows += 1
        self.metrics.append(self.done, row)
        self.progress.tracker.log(self.done, row)
        self._judge(row)
        self.show.advance(length * self.unit, row)

    def _evaluation(self, stage: Evaluated[State]) -> Any:
        """Evaluate every seed. If it is stopped midway, the next run repeats the whole evaluation."""
        given = self.state, self.data, self.keys, np.int32(self.rows)
        with self._compiling("evaluation") as new:
            evaluation = chunks.begin_evaluation(stage, *given)
            if new:
                evaluation, _ = jax.block_until_ready(chunks.evaluate_on(stage, evaluation, *given, np.int32(0)))
        while True:
            begun, num = time.monotonic(), self.evaluation_pace.next(1_000_000)
            evaluation, over = chunks.evaluate_on(stage, evaluation, *given, np.int32(num))
            if over:
                return evaluation
            self.evaluation_pace.took(num, time.monotonic() - begun)
            if self.stop.requested:
                self._pause()

    @contextlib.contextmanager
    def _compiling(self, program: str) -> Iterator[bool]:
        """Show `compiling ...` around the first call of a program. Yields whether it is the first."""
        if program in self.compiled:
            yield False
            return
        with self.show.compiling(), self.stop.uncut():
            yield True
        self.compiled.add(program)

    def _pause(self) -> None:
        """Save a checkpoint if one is due, and raise `Interrupted` if a signal arrived."""
        now = time.monotonic()
        if self.checkpoints and (self.stop.requested or now - self.saved_at > self.checkpoint_seconds):
            self.metrics.flush()
            self.checkpoints.save(self.done, self.rows, self.kept)
            self.saved_at = time.monotonic()
            # A large replay is slow to save, so checkpoints take at most about a tenth of the time.
            self.checkpoint_seconds = max(self.checkpoint_seconds, 10 * (self.saved_at - now))
        if self.stop.requested:  # also after the last chunk: otherwise the next stage would begin
            at = f"step {self.done * self.unit} of {self.num_steps * self.unit}"
            raise Interrupted(f"{self.name}: stopped at {at}; run the same command to go on")

    def _judge(self, row: dict[str, np.ndarray]) -> None:
        """Warn of each seed that diverged, and of non-finite metrics of seeds whose state is sound."""
        sound = finite = np.all([np.isfinite(value) for value in row.values()], axis=0)
        if isinstance(self.stage, Judged):
            sound = self._sound_seeds(self.stage)
        for seed in np.flatnonzero(self.healthy & ~(sound & finite)).tolist():
            bad = next((key for key, value in row.items() if not np.isfinite(value[seed])), "what it learned")
            where = f"{self.name}: {self.progress.seed_name(seed)}"
            if not sound[seed]:
                step = self.done * self.unit
                self.progress.warn(f"{where} diverged by step {step} ({bad} is not finite); the others go on")
            elif seed not in self.odd:
                self.odd.add(seed)
                self.progress.warn(f"{where}: {bad} is not finite, but what was learned is: look at the environment")
        self.healthy &= sound


def seat_seeds(tree: Any) -> Any:
    """Shard the leading seed axis over all devices, padded with copies of the first seeds."""
    num_seeds = jax.tree.leaves(tree)[0].shape[0]
    num_devices = min(num_seeds, len(jax.devices()))
    num_left = -num_seeds % num_devices
    if num_left:
        seats = np.arange(num_seeds + num_left) % num_seeds
        tree = jax.tree.map(lambda leaf: leaf[seats], tree)
    return shard_seeds(tree)


def first_seeds(tree: Any, num_seeds: int) -> Any:
    """The tree without the padding of `seat_seeds`."""
    if jax.tree.leaves(tree)[0].shape[0] == num_seeds:
        return tree
    return jax.tree.map(lambda leaf: leaf[:num_seeds], tree)


def shard_seeds(tree: Any) -> Any:
    """Shard the leading seed axis over the largest number of devices that divides it."""
    num_seeds = jax.tree.leaves(tree)[0].shape[0]
    num_devices = max(num for num in range(1, len(jax.devices()) + 1) if num_seeds % num == 0)
    if num_devices == 1:
        return tree
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:num_devices]), ("seed",))
    return jax.device_put(tree, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("seed")))
