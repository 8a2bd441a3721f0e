import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from rich.console import Console
from toy_stage import Regression, data

from cooptions.errors import ArtifactError, ConfigError, CooptionsError, Interrupted
from cooptions.training.loop import MetricsFile, shard_seeds, train
from cooptions.training.progress import Progress
from cooptions.training.tracking import NoTracker

KEYS = jax.random.split(jax.random.key(0), 3)


def _train(directory=None, *, num_steps=100, chunk_steps=10, stage=None, **options):
    stage = stage or Regression()
    return train(
        stage, data(3), KEYS, name="toy", num_steps=num_steps, chunk_steps=chunk_steps, directory=directory, **options
    )


def _same(a, b):
    leaves = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(np.array_equal(np.asarray(_plain(x)), np.asarray(_plain(y))) for x, y in leaves)


def _plain(leaf):
    return jax.random.key_data(leaf) if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf


def test_every_seed_learns_its_own_answer():
    trained = _train(num_steps=600, chunk_steps=100)
    assert np.asarray(trained.state.weights).mean(1) == pytest.approx([0, 1, 2], abs=0.3)
    assert trained.healthy.all()


def test_chunks_leave_no_trace():
    assert _same(_train(chunk_steps=100).state, _train(chunk_steps=7).state)


def test_metrics_are_means_over_each_chunk(tmp_path):
    _train(tmp_path, chunk_steps=1, num_steps=6)
    fine = MetricsFile(tmp_path / "metrics/toy.jsonl").rows()
    _train(tmp_path / "b", chunk_steps=4, num_steps=6)
    coarse = MetricsFile(tmp_path / "b/metrics/toy.jsonl").rows()
    assert [row["step"] for row in coarse] == [4, 6]
    assert coarse[0]["loss"] == pytest.approx(np.mean([row["loss"] for row in fine[:4]], axis=0), rel=1e-6)


class StopAfter(Progress):
    """Sends a signal to this process after some chunks."""

    def __init__(self, number, chunks):
        super().__init__(Console(quiet=True))
        self.number, self.chunks, self.warnings = number, chunks, []

    def stage(self, *arguments):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def warn(self, message):
        self.warnings.append(message)

    def advance(self, steps, metrics):
        self.chunks -= 1
        if self.chunks == 0:
            os.kill(os.getpid(), self.number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_stops_cleanly_and_the_run_goes_on(tmp_path, number):
    before = signal.getsignal(number)
    with pytest.raises(Interrupted, match="stopped at step 30 of 100"):
        _train(tmp_path, progress=StopAfter(number, 3))
    resumed = _train(tmp_path)
    assert _same(resumed.state, _train().state)
    assert [row["step"] for row in MetricsFile(tmp_path / "metrics/toy.jsonl").rows()] == list(range(10, 101, 10))
    assert signal.getsignal(number) is before


def test_a_stop_in_the_last_chunk_is_heard(tmp_path):
    """What comes after training must not begin; the same command then only restores."""
    with pytest.raises(Interrupted, match="stopped at step 100 of 100"):
        _train(tmp_path, progress=StopAfter(signal.SIGINT, 10))
    watch = StopAfter(signal.SIGINT, -1)
    assert _same(_train(tmp_path, progress=watch).state, _train().state)
    assert watch.chunks == -1, "no chunk is trained again"


def test_a_tracker_is_shown_what_the_metrics_file_holds(tmp_path):
    class Shown(NoTracker):
        def begin(self, stage, rows, unit):
            self.steps = [row["step"] for row in rows]

        def log(self, step, metrics):
            assert metrics["loss"].shape == (3,)
            self.steps.append(step)

    progress = StopAfter(signal.SIGINT, 3)
    progress.tracker = Shown()
    with pytest.raises(Interrupted):
        _train(tmp_path, progress=progress)
    assert progress.tracker.steps == [10, 20, 30]
    again = Progress.silent()
    again.tracker = Shown()
    _train(tmp_path, progress=again)
    assert again.tracker.steps == list(range(10, 101, 10))


def test_damaged_checkpoint_is_refused_by_name_and_the_one_before_works(tmp_path):
    with pytest.raises(Interrupted):
        _train(tmp_path, progress=StopAfter(signal.SIGINT, 3), checkpoint_seconds=0.0)
    folder = tmp_path / "checkpoints/toy"
    victim = max((p for p in (folder / "30").rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 4
    victim.write_bytes(content)
    with pytest.raises(ArtifactError, match="delete 30.json"):
        _train(tmp_path)
    (folder / "30.json").unlink()
    assert _same(_train(tmp_path).state, _train().state)
    # The row of step 30 was logged before the older checkpoint was taken up again: it must not stand there twice.
    assert [row["step"] for row in MetricsFile(tmp_path / "metrics/toy.jsonl").rows()] == list(range(10, 101, 10))


def test_diverged_seed_is_reported_and_the_others_are_untouched():
    watch = StopAfter(signal.SIGINT, -1)
    trained = _train(stage=Regression(diverge_from=1.5), progress=watch)
    assert trained.healthy.tolist() == [True, True, False]
    assert watch.warnings == ["toy: seed 3 of 3 diverged by step 40 (loss is not finite); the others go on"]
    healthy = jax.tree.map(lambda leaf: leaf[:2], trained.state)
    assert _same(healthy, jax.tree.map(lambda leaf: leaf[:2], _train().state))


def test_divergence_before_a_stop_is_remembered(tmp_path):
    with pytest.raises(Interrupted):
        _train(tmp_path, stage=Regression(diverge_from=1.5), progress=StopAfter(signal.SIGINT, 5))
    trained = _train(tmp_path, stage=Regression(diverge_from=1.5))
    assert trained.healthy.tolist() == [True, True, False]


def test_all_seeds_diverged_is_an_error():
    with pytest.raises(CooptionsError, match="every seed diverged"):
        _train(stage=Regression(diverge_from=-1.0))


@pytest.mark.parametrize("field", ["num_steps", "chunk_steps"])
def test_steps_must_be_positive(field):
    with pytest.raises(ConfigError, match=field):
        _train(**{field: 0})


def test_seeds_are_spread_over_devices():
    assert len(jax.devices()) == 4, "conftest.py forces four host devices"
    keys = jax.random.split(jax.random.key(0), 8)
    spread = train(Regression(), data(8), keys, name="toy", num_steps=50, chunk_steps=25).state
    assert len(spread.weights.sharding.device_set) == 4
    one = jax.tree.map(lambda leaf: leaf, shard_seeds((keys[:1], data(1))))
    assert len(one[1].sharding.device_set) == 1
    half = [train(Regression(), data(8)[i : i + 2], keys[i : i + 2], name="toy", num_steps=50, chunk_steps=25)
            for i in range(0, 8, 2)]  # fmt: skip
    alone = np.concatenate([trained.state.weights for trained in half])
    assert np.asarray(spread.weights) == pytest.approx(alone, abs=1e-5)


def test_sharded_run_resumes(tmp_path):
    keys = jax.random.split(jax.random.key(0), 4)
    arguments = (Regression(), data(4), keys)
    with pytest.raises(Interrupted):
        train(*arguments, name="toy", num_steps=60, chunk_steps=10, directory=tmp_path,
              progress=StopAfter(signal.SIGINT, 3))  # fmt: skip
    resumed = train(*arguments, name="toy", num_steps=60, chunk_steps=10, directory=tmp_path)
    assert len(resumed.state.weights.sharding.device_set) == 4
    assert _same(resumed.state, train(*arguments, name="toy", num_steps=60, chunk_steps=10).state)


def _launch(folder, checkpoint_seconds):
    environment = {**os.environ, "XLA_FLAGS": ""}
    script = Path(__file__).parent / "toy_stage.py"
    return subprocess.Popen([sys.executable, str(script), str(folder), str(checkpoint_seconds)], env=environment)


def _losses(folder):
    return [json.loads(line) for line in (folder / "metrics/toy.jsonl").read_text().splitlines()]


def test_killed_five_times_ends_bit_identical(tmp_path):
    """SIGKILL at five random moments of the run proper; parameters, optimiser, buffer, keys and metrics agree."""
    assert _launch(tmp_path / "whole", 1e9).wait() == 0
    rng = random.Random(0)
    kills = 0
    while kills < 5:
        before = (tmp_path / "killed/metrics/toy.jsonl").stat().st_mtime if kills else 0.0
        process = _launch(tmp_path / "killed", 0)
        metrics = tmp_path / "killed/metrics/toy.jsonl"
        while process.poll() is None and (not metrics.exists() or metrics.stat().st_mtime <= before):
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.25))
        assert process.poll() is None, "the run ended before it was killed five times: make it longer"
        process.kill()
        process.wait()
        kills += 1
    assert _launch(tmp_path / "killed", 0).wait() == 0
    assert (tmp_path / "killed/result.bin").read_bytes() == (tmp_path / "whole/result.bin").read_bytes()
    assert _losses(tmp_path / "killed") == _losses(tmp_path / "whole")
