import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console
from safetensors.numpy import load_file
from toy_stage import Regression, data

from cooptions.errors import ArtifactError, ConfigError, CooptionsError, Interrupted
from cooptions.training import loop
from cooptions.training.checkpoints import Checkpoints
from cooptions.training.loop import MetricsFile, shard_seeds, train
from cooptions.training.progress import Progress
from cooptions.training.tracking import NoTracker

KEYS = jax.random.split(jax.random.key(0), 3)


def _train(directory=None, *, num_steps=100, log_steps=10, stage=None, **options):
    stage = stage or Regression()
    return train(
        stage, data(3), KEYS, name="toy", num_steps=num_steps, log_steps=log_steps, directory=directory, **options
    )


def _same(a, b):
    leaves = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(np.array_equal(np.asarray(_plain(x)), np.asarray(_plain(y))) for x, y in leaves)


def _plain(leaf):
    return jax.random.key_data(leaf) if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf


def test_every_seed_learns_its_own_target():
    trained = _train(num_steps=600, log_steps=100)
    assert np.asarray(trained.state.weights).mean(1) == pytest.approx([0, 1, 2], abs=0.3)
    assert trained.healthy.all()


def test_results_do_not_depend_on_chunks(tmp_path):
    """Neither the state nor the metrics depend on where chunks begin."""
    whole = _train(tmp_path / "a", chunk_seconds=60.0)
    by_one = _train(tmp_path / "b", chunk_seconds=0.0)
    assert _same(whole.state, by_one.state)
    files = [(tmp_path / name / "metrics/toy.jsonl").read_bytes() for name in "ab"]
    assert files[0] == files[1]


def test_metrics_are_means_over_each_row(tmp_path):
    _train(tmp_path, log_steps=1, num_steps=6)
    fine = MetricsFile(tmp_path / "metrics/toy.jsonl").rows()
    _train(tmp_path / "b", log_steps=4, num_steps=6)
    coarse = MetricsFile(tmp_path / "b/metrics/toy.jsonl").rows()
    assert [row["step"] for row in coarse] == [4, 6]
    assert coarse[0]["loss"] == pytest.approx(np.mean([row["loss"] for row in fine[:4]], axis=0), rel=1e-6)


class StopAfter(Progress):
    """Sends a signal to this process after some rows of metrics."""

    def __init__(self, number, chunks):
        super().__init__(Console(quiet=True))
        self.number, self.rows, self.warnings = number, chunks, []

    def stage(self, *arguments):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def warn(self, message):
        self.warnings.append(message)

    def compiling(self):
        return self

    def advance(self, steps, metrics, *, earlier=False):
        self.rows -= bool(metrics)
        if metrics and self.rows == 0:
            os.kill(os.getpid(), self.number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_cleanly_and_the_run_resumes(tmp_path, number):
    before = signal.getsignal(number)
    with pytest.raises(Interrupted, match="stopped at step 30 of 100"):
        _train(tmp_path, progress=StopAfter(number, 3))
    resumed = _train(tmp_path)
    assert _same(resumed.state, _train().state)
    assert [row["step"] for row in MetricsFile(tmp_path / "metrics/toy.jsonl").rows()] == list(range(10, 101, 10))
    assert signal.getsignal(number) is before


def test_a_signal_in_the_last_chunk_is_handled(tmp_path):
    """The next stage must not begin. The same command then only restores."""
    with pytest.raises(Interrupted, match="stopped at step 100 of 100"):
        _train(tmp_path, progress=StopAfter(signal.SIGINT, 10))
    watch = StopAfter(signal.SIGINT, -1)
    assert _same(_train(tmp_path, progress=watch).state, _train().state)
    assert watch.rows == -1, "no chunk is trained again"


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


def _flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


DAMAGES = {
    "flip": _flip,
    "truncate": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "empty": lambda path: path.write_bytes(b""),
    "delete": lambda path: path.unlink(),
}


def _stopped(tmp_path):
    """A stopped run with checkpoints at steps 20 and 30."""
    with pytest.raises(Interrupted):
        _train(tmp_path, progress=StopAfter(signal.SIGINT, 3), checkpoint_seconds=0.0, chunk_seconds=60.0)
    assert Checkpoints(tmp_path / "checkpoints/toy").steps()[-1] == 30
    assert len(Checkpoints(tmp_path / "checkpoints/toy").steps()) == 2


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_skipped_with_a_warning(tmp_path, damage):
    _stopped(tmp_path)
    DAMAGES[damage](tmp_path / "checkpoints/toy/30.safetensors")
    watch = StopAfter(signal.SIGINT, -1)
    assert _same(_train(tmp_path, progress=watch).state, _train().state)
    if damage != "delete":
        assert len(watch.warnings) == 1
        assert re.search(r"30.safetensors.*; the checkpoint before it, of step \d+, is used", watch.warnings[0])
    # The row of step 30 was logged before the older checkpoint was restored. It must not occur twice.
    assert [row["step"] for row in MetricsFile(tmp_path / "metrics/toy.jsonl").rows()] == list(range(10, 101, 10))


def test_a_checkpoint_of_a_step_that_training_does_not_have_is_refused(tmp_path):
    """Its file was renamed. Resuming from it would silently skip steps."""
    _stopped(tmp_path)
    folder = tmp_path / "checkpoints/toy"
    (folder / "30.safetensors").rename(folder / "60.safetensors")
    with pytest.raises(ArtifactError, match=r"60.safetensors: damaged: training has no step 60 after 3 rows"):
        _train(tmp_path)


def test_without_a_whole_checkpoint_training_says_what_to_do(tmp_path):
    _stopped(tmp_path)
    for path in (tmp_path / "checkpoints/toy").iterdir():
        _flip(path)
    with pytest.raises(ArtifactError, match=r"no checkpoint is left.*delete .*checkpoints/toy"):
        _train(tmp_path)
    for path in (tmp_path / "checkpoints/toy").iterdir():
        path.unlink()
    watch = StopAfter(signal.SIGINT, -1)
    assert _same(_train(tmp_path, progress=watch).state, _train().state)
    assert watch.warnings == ["toy: there are metrics but no checkpoint; this stage begins again"]


def test_a_checkpoint_of_other_code_is_refused(tmp_path):
    _stopped(tmp_path)
    for path in (tmp_path / "checkpoints/toy").iterdir():
        path.unlink()
    Checkpoints(tmp_path / "checkpoints/toy").save(30, 3, {"other": jnp.zeros(3)})
    with pytest.raises(ArtifactError, match="another version of the code"):
        _train(tmp_path)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_metrics_are_refused_by_file_and_line(tmp_path, damage):
    _stopped(tmp_path)
    DAMAGES[damage](tmp_path / "metrics/toy.jsonl")
    with pytest.raises(
        ArtifactError, match=r"metrics/toy.jsonl: line \d.*restore it, or delete it and .*checkpoints/toy"
    ):
        _train(tmp_path)


def test_a_row_cut_off_by_a_crash_is_dropped_with_a_warning(tmp_path):
    _stopped(tmp_path)
    with open(tmp_path / "metrics/toy.jsonl", "a") as file:
        file.write('{"step": 40, "lo')
    watch = StopAfter(signal.SIGINT, -1)
    assert _same(_train(tmp_path, progress=watch).state, _train().state)
    assert len(watch.warnings) == 1
    assert "toy.jsonl: line 4 or one after it is cut off or damaged; it is made again" in watch.warnings[0]


def test_diverged_seed_is_reported_and_the_others_are_untouched():
    watch = StopAfter(signal.SIGINT, -1)
    trained = _train(stage=Regression(diverge_from=1.5), progress=watch)
    assert trained.healthy.tolist() == [True, True, False]
    assert watch.warnings == ["toy: seed 2 diverged by step 40 (loss is not finite); the others go on"]
    healthy = jax.tree.map(lambda leaf: leaf[:2], trained.state)
    assert _same(healthy, jax.tree.map(lambda leaf: leaf[:2], _train().state))


def test_a_diverged_seed_is_named_by_its_number():
    watch = StopAfter(signal.SIGINT, -1)
    watch.seeds = range(7, 10)
    _train(stage=Regression(diverge_from=1.5), progress=watch)
    assert watch.warnings == ["toy: seed 9 diverged by step 40 (loss is not finite); the others go on"]


def test_divergence_before_a_stop_is_remembered(tmp_path):
    with pytest.raises(Interrupted):
        _train(tmp_path, stage=Regression(diverge_from=1.5), progress=StopAfter(signal.SIGINT, 5))
    trained = _train(tmp_path, stage=Regression(diverge_from=1.5))
    assert trained.healthy.tolist() == [True, True, False]


def test_all_seeds_diverged_is_an_error():
    with pytest.raises(CooptionsError, match="every seed diverged"):
        _train(stage=Regression(diverge_from=-1.0))


@pytest.mark.parametrize("field", ["num_steps", "log_steps"])
def test_steps_must_be_positive(field):
    with pytest.raises(ConfigError, match=field):
        _train(**{field: 0})


def test_seeds_are_sharded_over_devices():
    assert len(jax.devices()) == 4, "conftest.py forces four host devices"
    keys = jax.random.split(jax.random.key(0), 8)
    spread = train(Regression(), data(8), keys, name="toy", num_steps=50, log_steps=25).state
    assert len(spread.weights.sharding.device_set) == 4
    one = jax.tree.map(lambda leaf: leaf, shard_seeds((keys[:1], data(1))))
    assert len(one[1].sharding.device_set) == 1
    half = [train(Regression(), data(8)[i : i + 2], keys[i : i + 2], name="toy", num_steps=50, log_steps=25)
            for i in range(0, 8, 2)]  # fmt: skip
    alone = np.concatenate([trained.state.weights for trained in half])
    assert np.asarray(spread.weights) == pytest.approx(alone, abs=1e-5)


@pytest.mark.parametrize(("num_seeds", "num_devices"), [(1, 1), (3, 3), (4, 4), (5, 4), (10, 4)])
def test_any_number_of_seeds_uses_all_devices(num_seeds, num_devices, monkeypatch):
    used = []

    def watch(stage, log_steps, state, *rest):
        used.append(len(state.weights.sharding.device_set))
        return run_chunk(stage, log_steps, state, *rest)

    run_chunk = loop.chunks.run_chunk
    monkeypatch.setattr(loop.chunks, "run_chunk", watch)
    keys = jax.random.split(jax.random.key(0), num_seeds)
    trained = train(Regression(), data(num_seeds), keys, name="toy", num_steps=50, log_steps=25)
    assert set(used) == {num_devices}
    assert trained.state.weights.shape == (num_seeds, 3)
    assert trained.healthy.shape == (num_seeds,)
    last = train(Regression(), data(num_seeds)[-1:], keys[-1:], name="toy", num_steps=50, log_steps=25).state
    assert np.asarray(trained.state.weights[-1]) == pytest.approx(np.asarray(last.weights[0]), abs=1e-5)


def test_padding_of_seeds_does_not_change_results(tmp_path):
    keys = jax.random.split(jax.random.key(0), 5)
    arguments = (Regression(diverge_from=3.5), data(5), keys)
    with pytest.raises(Interrupted):
        train(*arguments, name="toy", num_steps=60, log_steps=10, directory=tmp_path,
              progress=StopAfter(signal.SIGINT, 3))  # fmt: skip
    (checkpoint,) = {path.stem: path for path in (tmp_path / "checkpoints/toy").glob("*.safetensors")}.values()
    assert {array.shape[0] for array in load_file(checkpoint).values()} == {5}
    resumed = train(*arguments, name="toy", num_steps=60, log_steps=10, directory=tmp_path)
    whole = train(*arguments, name="toy", num_steps=60, log_steps=10, directory=tmp_path / "whole")
    assert _same(resumed.state, whole.state)
    assert resumed.healthy.tolist() == [True] * 4 + [False]
    rows = [MetricsFile(folder / "metrics/toy.jsonl").rows() for folder in (tmp_path, tmp_path / "whole")]
    assert [len(row["loss"]) for row in rows[0]] == [5] * 6
    assert str(rows[0]) == str(rows[1])  # NaN does not equal itself


def test_sharded_run_resumes(tmp_path):
    keys = jax.random.split(jax.random.key(0), 4)
    arguments = (Regression(), data(4), keys)
    with pytest.raises(Interrupted):
        train(*arguments, name="toy", num_steps=60, log_steps=10, directory=tmp_path,
              progress=StopAfter(signal.SIGINT, 3))  # fmt: skip
    resumed = train(*arguments, name="toy", num_steps=60, log_steps=10, directory=tmp_path)
    assert len(resumed.state.weights.sharding.device_set) == 4
    assert _same(resumed.state, train(*arguments, name="toy", num_steps=60, log_steps=10).state)


def _launch(folder, checkpoint_seconds):
    environment = {**os.environ, "XLA_FLAGS": ""}
    script = Path(__file__).parent / "toy_stage.py"
    return subprocess.Popen([sys.executable, str(script), str(folder), str(checkpoint_seconds)], env=environment)


def _losses(folder):
    return [json.loads(line) for line in (folder / "metrics/toy.jsonl").read_text().splitlines()]


def test_killed_three_times_ends_bit_identical(tmp_path):
    """SIGKILL at three random times of training. Parameters, optimiser, buffer, keys and metrics agree."""
    assert _launch(tmp_path / "whole", 1e9).wait() == 0
    rng = random.Random(0)
    kills = 0
    while kills < 3:
        before = (tmp_path / "killed/metrics/toy.jsonl").stat().st_mtime if kills else 0.0
        process = _launch(tmp_path / "killed", 0)
        metrics = tmp_path / "killed/metrics/toy.jsonl"
        while process.poll() is None and (not metrics.exists() or metrics.stat().st_mtime <= before):
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.25))
        assert process.poll() is None, "the run ended before it was killed three times: make it longer"
        process.kill()
        process.wait()
        kills += 1
    assert _launch(tmp_path / "killed", 0).wait() == 0
    assert (tmp_path / "killed/result.bin").read_bytes() == (tmp_path / "whole/result.bin").read_bytes()
    assert _losses(tmp_path / "killed") == _losses(tmp_path / "whole")
