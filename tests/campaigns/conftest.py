"""Tiny campaigns for tests: a 4 x 4 grid, a few hundred steps, one or two seeds."""

import contextlib
from types import SimpleNamespace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from made_up import TINY, keys_to_numbers

from cooptions.campaigns import figures, groups, work
from cooptions.cli.main import main
from cooptions.envs.base import AbstractEnv
from cooptions.envs.wrapper import AbstractWrapper
from cooptions.files import write_bytes
from cooptions.training.metrics import line_of


class FakeEnv(AbstractWrapper[Any]):
    """A fake environment with options: one number per seed."""

    env: AbstractEnv = eqx.field(static=True)
    marks: Array

    def step(self, state, action, key):
        raise NotImplementedError


@pytest.fixture
def fake(monkeypatch):
    """Discovery and learning that take no time; `fake.calls` has the seeds of every call to learn, `fake.named` what
    they are called."""
    fakes = SimpleNamespace(calls=[], named=[], prepared=[], fail=lambda config: None, stop=lambda: None)

    def task(run):
        config = run.config
        fakes.fail(config)
        fakes.prepared.append((config.learning.name, config.seed))
        return FakeEnv(config.env, jnp.arange(config.seeds)) if config.learning.macro else config.env

    def learn(config, envs, keys, *, directory, progress):
        fakes.calls.append(np.asarray(jax.random.key_data(keys))[:, -1].tolist())
        fakes.named.append([progress.seed_name(index) for index in range(len(keys))])
        fakes.stop()
        marks = keys_to_numbers(keys)
        write_bytes(directory / "metrics" / "learning.jsonl", line_of({"step": 1, "mark": marks.tolist()}))
        shape = len(marks), config.evaluations, config.episodes, len(envs.score_names) + 1
        scores = np.broadcast_to(marks[:, None, None, None], shape)
        return {"w": jnp.asarray(marks)}, jnp.asarray(scores)

    monkeypatch.setattr(work.Run, "task", property(task))
    monkeypatch.setattr(groups, "learn_seeds", learn)
    monkeypatch.setattr(figures, "write_canvas", _write_names)
    return fakes


def _write_names(canvas, stem, kinds):
    """Write the names in the legend instead of a picture, which is fast."""
    path = stem.with_name(f"{stem.name}.{kinds[0]}")
    write_bytes(path, " ".join(text.get_text() for text in canvas.legends[0].get_texts()).encode())
    return [path]


@pytest.fixture
def campaign(tmp_path, monkeypatch):
    """Run the command on the tiny campaign in a temporary folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(TINY)

    def run(*arguments, code=0):
        with pytest.raises(SystemExit) if code else contextlib.nullcontext() as stopped:
            main(["campaign", "tiny.yaml", *arguments])
        assert code == 0 or stopped.value.code == code

    return run
