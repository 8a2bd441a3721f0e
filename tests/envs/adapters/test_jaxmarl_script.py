"""The command that runs JaxMARL's scripts on our tasks, with an invented script, and its report."""

import json
import sys

import jax
import jaxmarl
import pytest

from benchmarks.jaxmarl_script import Recorder, find_task, run
from benchmarks.random_play import random_returns, report
from cooptions.envs.grid import Grid
from cooptions.errors import ConfigError

SCRIPT = """
import sys
import jax
import jax.numpy as jnp
import wandb
from jaxmarl import make

assert __name__ == "__main__"
wandb.init(mode="offline")
env = make("cooptions")
shape = env.observation_space("agent_0").shape
observations, state = env.reset(jax.random.key(0))
assert shape == observations["agent_0"].shape == (shape[0],)
assert jnp.zeros((2, shape)).shape == (2, shape[0])  # as the scripts for Hanabi write it
assert sorted(env.get_legal_moves(state)) == ["agent_0", "agent_1"]
assert make("MPE_simple_spread_v3").num_agents == 3
for step in range(20):
    wandb.log({"returns": jnp.array([step, step + 1.0]), "loss": {"total": 1.0}, "arguments": len(sys.argv)})
wandb.finish()
"""


def test_a_script_is_given_the_task_and_its_log_is_kept(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    before = jaxmarl.make, sys.argv, sys.modules.get("wandb")
    recorder = run(Grid(3, 3, 2), tmp_path / "script.py", ["LR=1"], tmp_path / "log.jsonl")
    assert recorder.returns() == [step + 0.5 for step in range(20)]
    logged = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert logged[3] == {"returns": 3.5, "arguments": 2.0}
    assert (jaxmarl.make, sys.argv, sys.modules.get("wandb")) == before


def test_errors_are_one_line(tmp_path):
    with pytest.raises(ConfigError, match=r"missing.py is missing; clone"):
        run(Grid(3, 3, 2), tmp_path / "missing.py", [], tmp_path / "log.jsonl")
    with pytest.raises(ConfigError, match="logged no returns"):
        Recorder(tmp_path / "log.jsonl").returns()
    with pytest.raises(ConfigError, match="is a Random, not an AbstractEnv"):
        find_task("random:Random")


def test_a_task_is_a_scenario_or_an_attribute():
    assert find_task("grid-15x15-3p") == find_task("cooptions.envs.grid:Grid") == Grid()


def test_random_play_has_its_expected_return():
    """Two agents on two cells: from any start, they are together after a step with probability one half."""
    env = Grid(1, 2, 2, task="meet", time_limit=1)
    assert random_returns(env, 4096, jax.random.key(0)).mean() == pytest.approx(0.5, abs=0.03)


def test_the_report_has_the_ends_of_training():
    told = report(
        Grid(1, 2, 2, task="meet", time_limit=1), [float(each) for each in range(40)], 2.4, ("no-such-package",)
    )
    assert (told["first_tenth"], told["last_tenth"], told["seconds"]) == (1.5, 37.5, 2)
    assert set(told["versions"]) <= {"cooptions", "jax"}
