"""A reproduction of next to nothing: three methods, a task of a few hundred steps, one or two seeds."""

import contextlib
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from made_up import keys_to_numbers

from cooptions.campaigns import estimates, execute, figures, groups
from cooptions.campaigns.figures import ScoreFigure, plot_all
from cooptions.campaigns.rows import Row
from cooptions.discovery.laplacian.nystrom import Nystrom
from cooptions.discovery.representations.hit import Hit
from cooptions.discovery.representations.mask import Mask
from cooptions.discovery.walks import WalkConfig
from cooptions.envs.base import AbstractEnv
from cooptions.envs.wrapper import AbstractWrapper
from cooptions.files import write_bytes
from cooptions.learners.networks import NetworkConfig
from cooptions.learners.q_learning import QConfig
from cooptions.options.train import OURS
from cooptions.runs import presets
from cooptions.runs.config import Config, LearningConfig

LEARNER = QConfig(
    steps=800,
    num_envs=4,
    batch=4,
    capacity=400,
    learning_starts=80,
    network=NetworkConfig(hidden=(8,), shared=True),
)
LONG = replace(LEARNER, steps=100_000)
"""As a preset of a scenario would have it; the preset `tiny` shortens it."""
OPTIONS = replace(
    OURS,
    learner=replace(OURS.learner, steps=320, num_envs=4, batch=4, capacity=400, learning_starts=80),
    num_starts=8,
    max_steps=4,
)
TINY = Config(
    scenario="grid-4x4-2p,time_limit=10",
    walk=WalkConfig(transitions=2000, num_envs=10),
    laplacian=Nystrom(num_eigenfunctions=1, num_landmarks=10),
    options=OPTIONS,
    learning=LearningConfig("iql", LEARNER, evaluations=2, episodes=3),
)
METHODS = {
    "hit": {"representation": Hit(steps=100, batch=32, hidden=(8,)), "laplacian": TINY.laplacian},
    "kron": {"representation": Mask(steps=100), "laplacian": TINY.laplacian},
}
FIGURES = {
    "plain": ScoreFigure("without options", (Row("tiny", "iql"),), plot_all, seeds=2),
    "with-options": ScoreFigure("with options", (Row("tiny", "iql+hit"), Row("tiny", "iql+kron")), plot_all, seeds=1),
}


@pytest.fixture(scope="module")
def tiny():
    with registered():
        yield


@contextlib.contextmanager
def registered():
    """The registries, with a preset and methods that take next to no time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(presets.PRESETS, "tiny", TINY)
        patch.setitem(presets.LEARNERS, "iql", (LONG, LONG))
        for name, parts in METHODS.items():
            patch.setitem(presets.METHODS, name, presets.always(**parts))
        for name, figure in FIGURES.items():
            patch.setitem(figures.REPRODUCTIONS, name, figure)
        yield


class FakeEnv(AbstractWrapper[Any]):
    """Stands for an environment with options: one number for each seed."""

    env: AbstractEnv = eqx.field(static=True)
    marks: Array

    def step(self, state, action, key):
        raise NotImplementedError


@pytest.fixture
def fake(monkeypatch):
    """Discovery and learning that take no time; `fake.calls` has the seeds of every call to learn."""
    fakes = SimpleNamespace(calls=[], prepared=[], fail=lambda config: None, stop=lambda: None)

    def task_env(config, run, progress):
        fakes.fail(config)
        fakes.prepared.append((config.learning.name, config.seed))
        return FakeEnv(config.env, jnp.arange(config.seeds)) if config.learning.macro else config.env

    def learn(config, envs, keys, *, directory, progress):
        fakes.calls.append(np.asarray(jax.random.key_data(keys))[:, -1].tolist())
        fakes.stop()
        marks = keys_to_numbers(keys)
        write_bytes(directory / "metrics" / "learning.jsonl", f'{{"step": 1, "mark": {marks.tolist()}}}\n'.encode())
        scores = np.broadcast_to(marks[:, None, None, None], (len(marks), config.evaluations, config.episodes, 1))
        return {"w": jnp.asarray(marks)}, jnp.asarray(scores)

    monkeypatch.setattr(execute, "task_env", task_env)
    monkeypatch.setattr(groups, "learn", learn)
    monkeypatch.setattr(estimates, "group_bytes", lambda group: group.num_seeds)
    monkeypatch.setattr(figures, "write_canvas", _write_names)
    return fakes


def _write_names(canvas, stem, kinds):
    """A picture that takes no time: what its legend says."""
    path = stem.with_name(f"{stem.name}.{kinds[0]}")
    write_bytes(path, " ".join(text.get_text() for text in canvas.legends[0].get_texts()).encode())
    return [path]
