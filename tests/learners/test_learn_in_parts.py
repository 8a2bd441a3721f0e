"""Learning and its evaluations are run in parts of any length, and stopped at any of them, without a trace."""

import json
import os
import signal
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float
from rich.console import Console

from cooptions.envs.probe import Matching
from cooptions.envs.wrapper import AbstractWrapper
from cooptions.errors import Interrupted
from cooptions.learners.learn import Learning, evaluate
from cooptions.learners.networks import NetworkConfig
from cooptions.learners.q_learning import QConfig, QLearner
from cooptions.training import chunks
from cooptions.training.loop import train
from cooptions.training.progress import Progress

KEYS = jax.random.split(jax.random.key(0), 2)
Q = QConfig(
    steps=800, num_envs=4, rollout=5, capacity=200, learning_starts=100, network=NetworkConfig(hidden=(8,)), batch=8
)


class Long(Matching):
    """Episodes of some length, so that an evaluation has several steps."""

    def step(self, state, action, key):
        state, timestep = super().step(state, action, key)
        last = state.time >= 5
        return state, replace(timestep, last=last, discount=1.0 - last)


class WithOptions(AbstractWrapper):
    """A task whose arrays stand for options of every seed, of which one's are no numbers."""

    weights: Float[Array, ""]
    env: Matching = eqx.field(static=True, default=Matching())

    def step(self, state, action, key):
        return self.env.step(state, action, key)


def _learn(path=None, env=None, *, chunk_seconds=60.0, progress=None):
    stage = Learning(QLearner(Q), 4, 6)
    return train(
        stage, Long() if env is None else env, KEYS, name="learning", num_steps=40, log_steps=10, directory=path,
        chunk_seconds=chunk_seconds, progress=progress, unit=20,
    ).state  # fmt: skip


def _same(a, b):
    pairs = zip(jax.tree.leaves((a.inner, a.scores)), jax.tree.leaves((b.inner, b.scores)), strict=True)
    return all(np.array_equal(np.asarray(x), np.asarray(y), equal_nan=True) for x, y in pairs)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole")
    return _learn(path), path


def test_updates_and_evaluations_one_step_at_a_time_come_out_the_same(whole, tmp_path):
    assert _same(_learn(tmp_path, chunk_seconds=0.0), whole[0])
    assert (tmp_path / "metrics/learning.jsonl").read_bytes() == (whole[1] / "metrics/learning.jsonl").read_bytes()


class Stopping(Progress):
    """Asks to stop when a program has run for so many times."""

    def __init__(self, monkeypatch, program, times):
        super().__init__(Console(quiet=True))
        run = getattr(chunks, program)

        def counted(*arguments):
            nonlocal times
            times -= 1
            if times == 0:
                os.kill(os.getpid(), signal.SIGTERM)
            return run(*arguments)

        monkeypatch.setattr(chunks, program, counted)


@pytest.mark.parametrize(("program", "step"), [("run_chunk", 300), ("evaluate_on", 400)])
def test_stopped_within_an_interval_or_an_evaluation_it_goes_on(whole, tmp_path, monkeypatch, program, step):
    times = {"run_chunk": 16, "evaluate_on": 9}[program]
    with monkeypatch.context() as patched, pytest.raises(Interrupted, match=f"stopped at step {step} of 800"):
        _learn(tmp_path, chunk_seconds=0.0, progress=Stopping(patched, program, times))
    rows = (tmp_path / "metrics/learning.jsonl").read_text().splitlines()
    assert [json.loads(row)["step"] for row in rows] == [10]
    assert _same(_learn(tmp_path), whole[0])
    assert (tmp_path / "metrics/learning.jsonl").read_bytes() == (whole[1] / "metrics/learning.jsonl").read_bytes()


def test_a_seed_whose_options_diverged_is_excluded_though_its_policy_is_finite():
    state = _learn(env=WithOptions(jnp.array([1.0, jnp.nan])))
    assert np.isfinite(state.scores[0]).all()
    assert np.isnan(state.scores[1]).all()


def test_an_evaluation_afresh_excludes_the_same_seeds():
    policy = QLearner(Q).policy(QLearner(Q).init(Matching(), key=KEYS[0]))
    env = WithOptions(jnp.float32(jnp.nan))
    assert np.isnan(evaluate(QLearner(Q), policy, env, 3, key=KEYS[0])).all()
    assert np.isfinite(evaluate(QLearner(Q), policy, Matching(), 3, key=KEYS[0])).all()
    lost = jax.tree.map(lambda leaf: leaf * jnp.nan, policy)
    assert np.isnan(evaluate(QLearner(Q), lost, Matching(), 3, key=KEYS[0])).all()
