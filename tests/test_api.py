"""The public API: the lines of the README with tiny budgets, and their results."""

import subprocess
import sys
from dataclasses import replace

import jax
import numpy as np
import pytest
from PIL import Image

import cooptions as co
from cooptions.errors import ArtifactError, ConfigError
from cooptions.options.train import OURS
from cooptions.runs.directory import RunDirectory, provenance

K1, K2, K3, K4 = jax.random.split(jax.random.key(0), 4)
QUICK = co.Hit(steps=20, hidden=(8,), batch=16)
TRAINING = replace(OURS, num_starts=16, max_steps=5, learner=replace(OURS.learner, steps=640, num_envs=8, batch=8))
LITTLE = {"steps": 640, "num_envs": 4, "rollout": 10, "minibatches": 2}


@pytest.fixture(scope="module")
def env():
    return co.make_env("lbf-5x5-2p-1f")


@pytest.fixture(scope="module")
def walk(env):
    return co.walk(env, transitions=2_000, key=K1)


@pytest.fixture(scope="module")
def found(walk):
    return co.discover(walk, QUICK, co.Nystrom(2, num_landmarks=20), key=K2)


@pytest.fixture(scope="module")
def options(env, found):
    return co.train_options(env, found, TRAINING, key=K3)


@pytest.fixture(scope="module")
def task(env, options):
    return co.MacroEnv(env, options)


@pytest.fixture(scope="module")
def teams(env, task):
    return {
        "mappo": co.learn(env, co.mappo(**LITTLE), key=K4, evaluations=2, episodes=3),
        "mappo+hit": co.learn(task, co.mappo(**LITTLE), key=K4, evaluations=2, episodes=3),
    }


def test_a_walk_has_the_requested_size_and_its_environment(walk):
    assert walk.states.shape == (20, 100, 2, 2)
    assert [feature.name for feature in walk.team.features] == ["x", "y"]


def test_discovered_is_a_function_of_the_agents_states(env, found):
    state, _ = env.reset(K1)
    values = found(env.agent_states(state))
    assert values.shape == (2,)
    np.testing.assert_allclose(found.at(env.agent_states(state)[None])[0], values, rtol=1e-5)
    assert found.eigenvalues.shape == (2,)
    assert found.z_names == ("x", "y")


def test_discovered_is_saved_and_loaded(found, tmp_path):
    found.save(tmp_path / "found.safetensors")
    again = co.Discovered.load(tmp_path / "found.safetensors")
    states = np.array([[0, 1], [3, 2]])
    np.testing.assert_array_equal(again(states), found(states))
    assert again.discovery == found.discovery


def test_the_same_keys_as_a_run_give_the_same_bits(tmp_path):
    """`co.walk` with the key of seed 0 is the walk of `--seed 0`."""
    from cooptions.cli.main import main

    main(["walk", "grid-3x3-2p", "--walk.transitions", "200", "--walk.num-envs", "10", "--out", str(tmp_path)])
    walk = co.walk(co.make_env("grid-3x3-2p"), transitions=200, num_envs=10, key=jax.random.key(0))
    np.testing.assert_array_equal(RunDirectory(tmp_path).load("walk")["states"][0], walk.states)


def test_options_are_played_saved_and_loaded(env, options, tmp_path):
    assert [option.name for option in options.options] == ["+e1", "-e1", "+e2", "-e2"]
    rollout = options.play(env, "+e1", key=K1, gif=tmp_path / "gather.gif")
    assert len(rollout.agent_states) == int(rollout.length) + 1
    with Image.open(tmp_path / "gather.gif") as image:
        assert image.n_frames >= 1
    options.save(tmp_path / "set", env)
    again = co.load_options(tmp_path / "set", env)
    for mine, theirs in zip(jax.tree.leaves(options), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert "+e1" in (tmp_path / "set" / "README.md").read_text()
    with pytest.raises(ConfigError, match="option: unknown"):
        options.play(env, "+e9")


@pytest.mark.slow
def test_options_for_some_of_the_agents(tmp_path):
    """The same calls, and an environment of a larger team."""
    env = co.make_env("lbf-6x6-3p-1f")
    walk = co.walk(env, transitions=2_000, key=K1)
    found = co.discover(walk, QUICK, co.Nystrom(1, num_landmarks=20), members=2, key=K2)
    options = co.train_options(env, found, TRAINING, key=K3)
    assert options.options[0].members == (True, True)
    rollout = options.play(env, "+e1", key=K1, gif=tmp_path / "pair.gif")
    assert rollout.agent_states.shape[1:] == (2, 2)
    assert rollout.states.inner.position.shape[1:] == (3, 2), "the others are in the picture"
    options.save(tmp_path / "set", env)
    assert "2 of 3 agents" in (tmp_path / "set" / "README.md").read_text()
    again = [co.load_options(tmp_path / "set", each) for each in (env, co.SubteamEnv(env, 2))]
    for mine, one, other in zip(*map(jax.tree.leaves, (options, *again)), strict=True):
        np.testing.assert_array_equal(mine, one)
        np.testing.assert_array_equal(mine, other)


def test_a_task_with_trained_options_can_be_jitted_and_vmapped(task):
    state, timestep = jax.jit(task.reset)(K1)
    assert timestep.action_mask.shape == (2, 10)
    state, timestep = jax.jit(task.step)(state, jax.numpy.zeros(2, int), K2)
    states, _ = jax.jit(jax.vmap(task.reset))(jax.random.split(K3, 3))
    assert states.active.shape == (3, 2)


def test_a_team_is_played_saved_and_loaded(task, teams, tmp_path):
    team = teams["mappo+hit"]
    episode = team.play(gif=tmp_path / "team.gif")
    assert len(episode.rewards) == len(episode.options) == len(episode.rollout.actions)
    with Image.open(tmp_path / "team.gif") as image:
        assert image.n_frames >= 1
    team.save(tmp_path / "team")
    again = co.load_team(tmp_path / "team", task)
    np.testing.assert_array_equal(again.play().rewards, team.play().rewards)
    np.testing.assert_array_equal(again.scores[0].values, team.scores[0].values)
    assert co.load_team(tmp_path / "team", task.env).env.options.options == task.options.options
    assert team.made_by["command"] == provenance()["command"]
    with pytest.raises(ArtifactError, match="made for another environment"):
        co.load_team(tmp_path / "team", co.make_env("lbf-6x6-2p-1f"))


def test_options_and_teams_are_shared_on_a_hub(hub, env, task, options, teams):
    options.push("hf://someone/options", env)
    again = co.load_options("hf://someone/options", env)
    for mine, theirs in zip(jax.tree.leaves(options), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    teams["mappo+hit"].push("hf://someone/team")
    team = co.load_team("hf://someone/team", env)
    np.testing.assert_array_equal(team.play().rewards, teams["mappo+hit"].play().rewards)


def test_teams_are_compared(teams, tmp_path):
    comparison = co.compare({"mappo": teams["mappo"], "mappo+hit": [teams["mappo+hit"], teams["mappo+hit"]]})
    assert [row.method for row in comparison.rows] == ["mappo", "mappo+hit"]
    assert [row.num_seeds for row in comparison.rows] == [1, 2]
    assert "| mappo+hit |" in str(comparison)
    assert [path.suffix for path in comparison.save(tmp_path / "curves")] == [".png", ".pdf"]
    with pytest.raises(ConfigError, match="metric: mappo has no 'apples'"):
        co.compare({"mappo": teams["mappo"]}, metric="apples")


def test_wrong_fields_of_a_learner_are_named(env):
    with pytest.raises(ConfigError, match="mappo: no field 'step'; did you mean steps"):
        co.learn(env, co.mappo(step=3), key=K1)
    with pytest.raises(ConfigError, match="evaluations must be between 1 and the 16 updates"):
        co.learn(env, co.mappo(**LITTLE), evaluations=17, key=K1)


@pytest.mark.parametrize("name", co.__all__)
def test_every_public_name_exists_and_has_a_docstring(name):
    assert getattr(co, name).__doc__


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, cooptions; print({'jax', 'numpy', 'equinox'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "set()"
