"""Exported environments in PettingZoo's own tests, and compared with the originals."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo.test import parallel_api_test, parallel_seed_test

import cooptions as co
from cooptions.envs.adapters import to_pettingzoo as adapter
from cooptions.envs.adapters.to_jaxmarl import ToJaxMARL
from cooptions.envs.adapters.to_pettingzoo import ToPettingZoo
from cooptions.envs.grid import Grid
from cooptions.envs.scenarios import make_env
from cooptions.errors import ConfigError
from cooptions.options.handmade import handmade_options
from cooptions.options.macro import MacroEnv
from cooptions.options.smdp import SmdpEnv
from cooptions.plots import frames
from cooptions.plots.exported import picture

MEETING = Grid(4, 4, 2, task="meet", time_limit=20)
GATHER = 5 + 2


def around(env):
    return MacroEnv(env, handmade_options(env, max_steps=4))


TASKS = {
    "grid": lambda: MEETING,
    "foraging": lambda: make_env("lbf-5x5-2p-1f,time_limit=20"),
    "macro": lambda: around(MEETING),
    "overcooked": lambda: make_env("overcooked-cramped_room,time_limit=20,shaping_horizon=9"),
}


@pytest.fixture(scope="module", params=TASKS)
def env(request):
    return TASKS[request.param]()


@pytest.fixture(scope="module")
def task():
    return around(MEETING)


def drawn(exported, infos):
    """An available action of every agent."""
    return {agent: exported.action_space(agent).sample(infos[agent]["action_mask"]) for agent in exported.agents}


@pytest.mark.parametrize("masks", ["infos", "observations"])
def test_pettingzoos_api_test_passes(env, masks):
    parallel_api_test(co.to_pettingzoo(env, masks=masks), num_cycles=50)


def test_pettingzoos_seed_test_passes(env):
    parallel_seed_test(lambda: co.to_pettingzoo(env), num_cycles=50)


def test_observations_are_in_their_spaces(env):
    exported = co.to_pettingzoo(env)
    observations, infos = exported.reset(seed=1)
    for number, agent in enumerate(exported.agents):
        exported.action_space(agent).seed(number)
    for _ in range(3):
        if not exported.agents:
            observations, infos = exported.reset()
        for agent in exported.agents:
            space = exported.observation_space(agent)
            assert observations[agent].dtype == space.dtype
            assert space.contains(observations[agent])
            assert exported.action_space(agent) == spaces.Discrete(env.num_actions)
            assert infos[agent]["action_mask"].dtype == np.int8
        observations, *_, infos = exported.step(drawn(exported, infos))
        observations["agent_0"][:] = 0  # learners may write to their observations
        assert observations["agent_1"].flags.writeable


def test_steps_are_those_of_the_environment(task):
    """Both agents vote for "gather" and follow it to its end."""
    exported = co.to_pettingzoo(task)
    observations, infos = exported.reset(seed=7)
    key, reset_key = jax.random.split(jax.random.key(7))
    state, timestep = jax.jit(task.reset)(reset_key)
    step = jax.jit(task.step)
    options = []
    while exported.agents:
        np.testing.assert_array_equal(np.stack(list(observations.values())), timestep.observation)
        masks = [infos[agent]["action_mask"] for agent in exported.possible_agents]
        np.testing.assert_array_equal(np.stack(masks), timestep.action_mask)
        key, step_key = jax.random.split(key)
        state, timestep = step(state, jnp.full(2, GATHER), step_key)
        observations, rewards, terminations, _, infos = exported.step(dict.fromkeys(exported.agents, GATHER))
        assert set(rewards.values()) == {float(timestep.reward)}
        assert set(terminations.values()) == {bool(timestep.last)}
        options.append(infos["agent_1"]["option"])
        assert infos["agent_1"] | {"age": int(timestep.macro.age[1]), "votes": 2} == infos["agent_1"]
    assert 2 in options
    assert infos["agent_0"]["percent_met"] == 100


def test_every_step_has_a_key_of_its_own():
    """With options that act at random, each step's key determines where agents go."""
    env = Grid(9, 9, 2, time_limit=20)
    task = MacroEnv(env, handmade_options(env, max_steps=20, epsilon=0.9))
    exported = co.to_pettingzoo(task)
    exported.reset(seed=0)
    key, reset_key = jax.random.split(jax.random.key(0))
    state, _ = task.reset(reset_key)
    step = jax.jit(task.step)
    for _ in range(10):
        key, step_key = jax.random.split(key)
        state, timestep = step(state, jnp.full(2, GATHER), step_key)
        observations, *_ = exported.step(dict.fromkeys(exported.agents, GATHER))
        np.testing.assert_array_equal(np.stack(list(observations.values())), timestep.observation)


def test_info_has_the_entries_of_jaxmarls_export(env):
    exported, theirs = co.to_pettingzoo(env), ToJaxMARL(env)
    _, infos = exported.reset(seed=3)
    state = jax.eval_shape(theirs.reset, jax.random.key(0))[1]
    actions = dict.fromkeys(theirs.agents, jax.ShapeDtypeStruct((), jnp.int32))
    *_, info = jax.eval_shape(theirs.step_env, jax.random.key(0), state, actions)
    assert set(infos["agent_0"]) == {*info, "action_mask"}


def test_task_ends_are_terminations_and_time_limits_truncations():
    exported = co.to_pettingzoo(Grid(1, 2, 2, task="meet", time_limit=3))
    ends = set()
    for seed in range(8):
        _, infos = exported.reset(seed=seed)
        steps, together = 0, (infos["agent_0"]["action_mask"] == infos["agent_1"]["action_mask"]).all()
        while exported.agents:
            _, rewards, terminations, truncations, infos = exported.step(dict.fromkeys(exported.agents, 0))
            steps += 1
        assert set(terminations.values()) == {bool(together)}
        assert set(truncations.values()) == {not together}
        assert steps == (1 if together else 3)
        assert rewards["agent_1"] == together
        ends.add(bool(together))
    assert ends == {True, False}


def test_a_seed_decides_all_later_episodes():
    env = Grid(4, 4, 2)

    def episodes(seed):
        exported = co.to_pettingzoo(env)
        begun = [exported.reset(seed=seed), exported.reset(), exported.reset()]
        return np.array([np.concatenate(list(observations.values())) for observations, _ in begun])

    np.testing.assert_array_equal(episodes(5), episodes(5))
    assert (episodes(5) != episodes(2**32 - 1)).any()
    assert (episodes(None) != episodes(None)).any()
    assert (np.diff(episodes(5), axis=0) != 0).any(axis=1).all()


def test_environments_of_the_same_task_share_their_programs():
    exported = [co.to_pettingzoo(around(Grid(3, 5, 2))) for _ in range(2)]
    before = adapter._go_on._cache_size()
    for each in exported:
        each.reset(seed=0)
        each.step({"agent_0": 0, "agent_1": 0})
        each.step({"agent_0": np.int64(1), "agent_1": np.array(0)})
    assert adapter._go_on._cache_size() == before + 1


def test_pictures_are_those_of_the_environment_inside(task):
    env = task.env
    exported = co.to_pettingzoo(task, render_mode="rgb_array")
    exported.reset(seed=0)
    image = exported.render()
    assert image.dtype == np.uint8
    state, _ = env.reset(jax.random.split(jax.random.key(0))[1])
    np.testing.assert_array_equal(image, frames(env, jax.tree.map(lambda leaf: leaf[None], state))[0])
    whole = SmdpEnv(task, 0.9)
    np.testing.assert_array_equal(picture(whole, exported._state), image)


def test_masks_are_in_observations_on_request(task):
    exported = co.to_pettingzoo(task, masks="observations")
    observations, infos = exported.reset(seed=0)
    assert exported.observation_space("agent_0").contains(observations["agent_0"])
    assert observations["agent_0"]["action_mask"].shape == (task.num_actions,)
    assert "action_mask" not in infos["agent_0"]


def test_wrong_calls_are_refused_in_one_line(task):
    exported = co.to_pettingzoo(task)
    for call, message in [
        (lambda: exported.step({"agent_0": 0, "agent_1": 0}), "no episode is under way; call reset first"),
        (lambda: exported.reset(seed=-1), "seed must be at least 0"),
        (lambda: exported.reset(seed=0) and exported.step({"agent_0": 0}), "one for each of agent_0, agent_1"),
        (lambda: exported.step({"agent_0": 0, "agent_1": 9}), "agent_1 must choose from 0 to 8, not 9"),
        (lambda: exported.render(), 'give render_mode="rgb_array"'),
        (lambda: co.to_pettingzoo(task, render_mode="human"), "render_mode must be"),
        (lambda: co.to_pettingzoo(task, masks="info"), "masks must be one of infos, observations"),
        (lambda: co.to_pettingzoo(task, render_mode="rgb_array").render(), "nothing to show yet"),
        (lambda: ToPettingZoo(task, "rgb_array"), "a render_mode needs a function that draws"),
    ]:
        with pytest.raises(ConfigError, match=message):
            call()


def test_a_missing_package_is_named_with_what_to_install(task, monkeypatch):
    monkeypatch.delitem(sys.modules, adapter.__name__)
    monkeypatch.setitem(sys.modules, "pettingzoo", None)
    with pytest.raises(ConfigError, match=r"pettingzoo is not installed; pip install 'cooptions\[pettingzoo\]'"):
        co.to_pettingzoo(task)
