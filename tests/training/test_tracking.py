import struct
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from tensorboardX.proto.event_pb2 import Event  # pyright: ignore[reportAttributeAccessIssue]

from cooptions.errors import ConfigError
from cooptions.training.tracking import TRACKERS, open_tracker

ROWS = [
    {"step": 1, "loss": [4.0, 2.0], "evaluated return": [0.0, 1.0]},
    {"step": 2, "loss": [3.0, 1.0], "evaluated return": [0.5, 1.5]},
]
UNIT = 100


def _metrics(loss):
    return {"loss": np.array(loss)}


def _events(folder):
    """The events that TensorBoard shows for a folder. A session that starts at a step discards later events."""
    events = []
    for path in sorted(folder.glob("events*")):
        content = path.read_bytes()
        while content:
            (length,) = struct.unpack("<Q", content[:8])
            event = Event.FromString(content[12 : 12 + length])
            if event.HasField("session_log"):
                events = [earlier for earlier in events if earlier.step < event.step]
            events.append(event)
            content = content[16 + length :]
    return events


def _scalars(folder, tag):
    """The values of one series, [(step, value)], in the order they were written."""
    found = [(event.step, value) for event in _events(folder) for value in event.summary.value]
    return [(step, value.simple_value) for step, value in found if value.tag == tag]


def test_tensorboard_has_every_seed_and_their_mean(tmp_path):
    with open_tracker("tensorboard", tmp_path, {}) as tracker:
        tracker.begin("learning", [], UNIT)
        tracker.log(1, _metrics([4.0, 2.0]))
        tracker.log(2, _metrics([3.0, 1.0]))
    folder = tmp_path / "tensorboard/learning"
    assert _scalars(folder / "seed_0", "learning/loss") == [(100, 4.0), (200, 3.0)]
    assert _scalars(folder / "seed_1", "learning/loss") == [(100, 2.0), (200, 1.0)]
    assert _scalars(folder / "mean", "learning/loss") == [(100, 3.0), (200, 2.0)]
    assert len([path for path in folder.rglob("*") if path.is_file()]) == 3


def test_tensorboard_after_a_stop_shows_every_step_once(tmp_path):
    """One row was logged after the checkpoint, another never reached the disk. The metrics file is authoritative."""
    with open_tracker("tensorboard", tmp_path, {}) as tracker:
        tracker.begin("learning", [], UNIT)
        tracker.log(1, _metrics([4.0, 2.0]))
        tracker.log(3, _metrics([9.0, 9.0]))
    with open_tracker("tensorboard", tmp_path, {}) as tracker:
        tracker.begin("learning", ROWS, UNIT)
        tracker.log(3, _metrics([2.0, 0.0]))
    folder = tmp_path / "tensorboard/learning/seed_0"
    assert _scalars(folder, "learning/loss") == [(100, 4.0), (200, 3.0), (300, 2.0)]
    assert _scalars(folder, "learning/evaluated_return") == [(100, 0.0), (200, 0.5)]


def test_tensorboard_keeps_other_stages(tmp_path):
    for stage in ("options", "learning"):
        with open_tracker("tensorboard", tmp_path, {}) as tracker:
            tracker.begin(stage, ROWS, 1)
    assert _scalars(tmp_path / "tensorboard/options/mean", "options/loss") == [(1, 3.0), (2, 2.0)]
    assert _scalars(tmp_path / "tensorboard/learning/mean", "learning/loss") == [(1, 3.0), (2, 2.0)]


def test_a_diverged_seed_ends_and_the_mean_is_of_the_others(tmp_path):
    with open_tracker("tensorboard", tmp_path, {}) as tracker:
        tracker.begin("learning", [], 1)
        tracker.log(1, _metrics([4.0, np.nan, 2.0]))
        tracker.log(2, _metrics([np.inf, np.nan, np.nan]))
    folder = tmp_path / "tensorboard/learning"
    assert _scalars(folder / "mean", "learning/loss") == [(1, 3.0)]
    assert _scalars(folder / "seed_0", "learning/loss") == [(1, 4.0)]
    assert _scalars(folder / "seed_1", "learning/loss") == []


class WandbService(ModuleType):
    """A fake of the wandb service, which identifies runs by id and accepts only later steps."""

    class Error(Exception):
        pass

    class Settings(SimpleNamespace):
        pass

    def __init__(self, *, logged_in=True):
        super().__init__("wandb")
        self.logged_in, self.runs, self.opened = logged_in, {}, []

    def init(self, **arguments):
        if not self.logged_in:
            raise self.Error("no API key")
        history = self.runs.setdefault(arguments["id"], {})

        def log(values, step):
            assert not history or step > max(history), "wandb drops steps that are not later"
            history[step] = values

        run = SimpleNamespace(
            step=max(history, default=-1) + 1, log=log, finish=lambda: self.opened.remove(run), arguments=arguments
        )
        self.opened.append(run)
        return run


@pytest.fixture
def wandb(monkeypatch):
    service = WandbService()
    monkeypatch.setitem(sys.modules, "wandb", service)
    return service


def test_wandb_has_every_seed_and_their_mean(tmp_path, wandb):
    with open_tracker("wandb", tmp_path / "run", {"seeds": 2}) as tracker:
        tracker.begin("learning", [], UNIT)
        tracker.log(1, {"loss": np.array([4.0, 2.0]), "evaluated return": np.array([np.nan, 1.0])})
        arguments = wandb.opened[0].arguments
    (history,) = wandb.runs.values()
    assert history == {
        100: {
            "mean/loss": 3.0,
            "mean/evaluated_return": 1.0,
            "seed_0/loss": 4.0,
            "seed_1/loss": 2.0,
            "seed_1/evaluated_return": 1.0,
        }
    }
    assert arguments["config"] == {"seeds": 2}
    assert arguments["name"] == "run learning"
    assert wandb.opened == []


def test_wandb_after_a_stop_continues_the_same_run(tmp_path, wandb):
    """The service received row 3, which was trained again, but not row 4, which the metrics file has."""
    with open_tracker("wandb", tmp_path, {}) as tracker:
        tracker.begin("learning", ROWS, UNIT)
        tracker.log(3, _metrics([2.0, 0.0]))
    with open_tracker("wandb", tmp_path, {}) as tracker:
        tracker.begin("learning", ROWS, UNIT)
        for step in (3, 4):
            tracker.log(step, _metrics([2.0, 0.0]))
    (history,) = wandb.runs.values()
    assert list(history) == [100, 200, 300, 400]


def test_a_new_wandb_run_gets_the_whole_history(tmp_path, wandb):
    for _ in range(2):
        wandb.runs.clear()
        with open_tracker("wandb", tmp_path, {}) as tracker:
            tracker.begin("learning", ROWS, UNIT)
        (history,) = wandb.runs.values()
        assert list(history) == [100, 200]


def test_wandb_keeps_stages_and_run_directories_apart(tmp_path, wandb):
    for name in ("a", "b"):
        with open_tracker("wandb", tmp_path / name, {}) as tracker:
            for stage in ("options", "learning"):
                tracker.begin(stage, ROWS, 1)
    assert len(wandb.runs) == 4
    assert wandb.opened == []


def test_wandb_without_an_account_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", WandbService(logged_in=False))
    with (
        open_tracker("wandb", tmp_path, {}) as tracker,
        pytest.raises(ConfigError, match="no API key; run `wandb login`, or set WANDB_MODE=offline"),
    ):
        tracker.begin("learning", [], 1)


@pytest.mark.parametrize(("name", "package"), [("tensorboard", "tensorboardX"), ("wandb", "wandb")])
def test_a_missing_package_says_what_to_install(tmp_path, monkeypatch, name, package):
    monkeypatch.setitem(sys.modules, package, None)
    with (
        pytest.raises(ConfigError, match=rf"{package} is not installed; pip install 'cooptions\[track\]'"),
        open_tracker(name, tmp_path, {}),
    ):
        pass


def test_tracker_is_closed_when_training_fails(tmp_path, wandb):
    def fail():
        with open_tracker("wandb", tmp_path, {}) as tracker:
            tracker.begin("learning", ROWS, 1)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert wandb.opened == []


@pytest.mark.parametrize("name", TRACKERS)
def test_every_tracker_accepts_a_whole_run(tmp_path, wandb, name):
    with open_tracker(name, tmp_path, {}) as tracker:
        tracker.begin("options", [], 1)
        tracker.log(1, _metrics([1.0]))
        tracker.begin("learning", ROWS, UNIT)
        tracker.log(3, _metrics([1.0, 2.0]))
