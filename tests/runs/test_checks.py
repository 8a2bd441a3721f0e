"""Runs that do not fit into memory are refused with one line, before anything is made or compiled."""

import re
from dataclasses import replace

import pytest

from cooptions.discovery.laplacian.allo import Allo
from cooptions.discovery.laplacian.nystrom import Nystrom
from cooptions.discovery.representations.hit import Hit
from cooptions.discovery.walks import WalkConfig
from cooptions.errors import ConfigError
from cooptions.options.train import OURS
from cooptions.runs.checks import require_possible
from cooptions.runs.config import Config
from cooptions.runs.presets import preset
from cooptions.runs.run import Run
from cooptions.training import chunks, memory

SMALL = Config("grid-5x5-2p", walk=WalkConfig(transitions=2000, num_envs=20), laplacian=Nystrom(2))
CASES = {
    "representation.batch, walk.transitions": {"representation": Hit(batch=10**6)},
    "representation.hidden, walk.transitions": {"representation": Hit(hidden=(10_000, 10_000))},
    "laplacian.batch_size, walk.transitions": {"laplacian": Allo(2, batch_size=10**6)},
    "laplacian.num_landmarks, walk.transitions": {"laplacian": Nystrom(2, num_landmarks=20_000)},
    "options.learner.batch, options.learner.capacity, laplacian": {
        "options": replace(OURS, learner=replace(OURS.learner, batch=200_000, capacity=10**7, steps=10**9))
    },
    "options.num_starts, laplacian": {"options": replace(OURS, num_starts=10**8)},
    "walk.transitions or seeds": {"walk": WalkConfig(transitions=10**11)},
}
"""What is named, and a configuration in which it is too large."""


@pytest.mark.parametrize(("named", "fields"), CASES.items(), ids=CASES)
def test_runs_that_do_not_fit_are_refused_with_what_to_make_smaller(named, fields, tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "host_bytes", lambda: 10**9)
    monkeypatch.setattr(chunks, "init_seeds", None)  # nothing is compiled
    with pytest.raises(ConfigError) as refused, Run.open(replace(SMALL, **fields), tmp_path / "run", "options"):
        pass
    told = str(refused.value)
    assert re.match(rf"(\w+): needs [\d,.]+ GB, the (device|machine) has 1\.0 GB; make {named}", told), told
    assert "\n" not in told
    assert not (tmp_path / "run").exists()


def test_finished_stages_need_no_memory(monkeypatch):
    monkeypatch.setattr(memory, "host_bytes", lambda: 10**9)
    require_possible(replace(SMALL, representation=Hit(batch=10**6)), {"spectrum"}, None)


@pytest.mark.parametrize("name", ["quick", "meet"])
def test_presets_fit(name, monkeypatch):
    monkeypatch.setattr(memory, "host_bytes", lambda: 10**9)
    require_possible(preset(name), {"walk", "representation", "spectrum", "options"}, None)
