"""Exported environments in JaxMARL's own wrappers, which its baseline scripts use."""

import importlib.util
import sys
import urllib.request
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cooptions.envs.adapters.to_jaxmarl import ToJaxMARL
from cooptions.envs.grid import Grid
from cooptions.envs.rollout import uniform_action
from cooptions.envs.scenarios import make_env
from cooptions.options.handmade import handmade_options
from cooptions.options.macro import MacroEnv

if importlib.util.find_spec("six") is None:  # an undeclared dependency of gymnax 1.0.1, which JaxMARL's wrappers import
    for name in ("six", "six.moves", "six.moves.urllib"):
        sys.modules[name] = ModuleType(name)
    sys.modules["six.moves.urllib.request"] = urllib.request

from jaxmarl.wrappers.baselines import CTRolloutManager, LogWrapper

NUM_ENVS, NUM_STEPS, TIME_LIMIT = 8, 100, 30


@pytest.fixture(scope="module")
def env():
    inner = make_env(f"lbf-5x5-2p-1f,time_limit={TIME_LIMIT},coop=none")
    return MacroEnv(inner, handmade_options(inner, max_steps=4))


@pytest.fixture(scope="module")
def walk(env):
    """A random walk of many environments in JaxMARL's manager: masks, actions and step results, [time, env]."""
    manager = CTRolloutManager(LogWrapper(ToJaxMARL(env)), batch_size=NUM_ENVS)

    def step(state, key):
        available = manager.get_valid_actions(state.env_state)
        table = jnp.stack([available[agent] for agent in manager.agents], axis=1)
        action = uniform_action(table, key=key)
        agree = (action[:, :1] >= 6) & jax.random.bernoulli(key, shape=(NUM_ENVS, 1))  # otherwise they rarely would
        action = jnp.where(agree, action[:, :1], action)
        actions = {agent: action[:, i] for i, agent in enumerate(manager.agents)}
        observations, state, rewards, dones, info = manager.batch_step(key, state, actions)
        return state, (table, action, observations, rewards, dones, info)

    @jax.jit
    def walk(key):
        _, state = manager.batch_reset(key)
        return jax.lax.scan(step, state, jax.random.split(key, NUM_STEPS))[1]

    return jax.tree.map(np.asarray, walk(jax.random.PRNGKey(0)))


def test_spaces(env):
    exported = ToJaxMARL(env)
    assert exported.agents == ["agent_0", "agent_1"]
    assert exported.action_space("agent_1").n == exported.action_space().n == 6 + 4
    assert exported.observation_space("agent_1").shape == (12,)
    assert exported.agent_classes == {"type_0": ["agent_0", "agent_1"]}


def test_the_manager_is_given_the_masks_of_the_environment(walk):
    available, *_, info = walk
    option = info["option"][..., 0]
    busy = option[:-1] >= 0
    only = np.arange(10) == 6 + option[:-1][..., None]
    for agent in range(2):
        assert (available[1:, :, agent][busy] == only[busy]).all()
        assert available[1:, :, agent, 6:][~busy].all()
    assert 0.2 < busy.mean() < 0.8
    assert not available[..., :6].all()


def test_info_has_the_options(walk):
    _, action, _, _, dones, info = walk
    assert {value.shape for value in info.values()} == {(NUM_STEPS, NUM_ENVS, 2)}
    together = (action[..., 0] == action[..., 1]) & (action[..., 0] >= 6)
    assert (info["votes"][together] == 2).all()
    alone = (action >= 6) & ~together[..., None]
    assert (info["votes"][alone] == 1).all()
    assert (info["votes"][action < 6] == 0).all()
    going = info["option"][..., 0] >= 0
    assert (info["option"][going] == action[going] - 6).all()
    assert (info["age"] == 0)[~going].all()
    assert set(info["age"][going].ravel()) == {1, 2, 3}
    assert not going[dones["__all__"]].any()


def test_episodes_start_again_and_are_counted(walk):
    *_, dones, info = walk
    last = dones["__all__"]
    assert (last == dones["agent_0"]).all()
    assert (last == dones["agent_1"]).all()
    assert last.sum() >= NUM_ENVS * (NUM_STEPS // TIME_LIMIT)
    assert info["returned_episode_lengths"][last].max() == TIME_LIMIT
    # JaxMARL does not report what ended an episode; `discount` does.
    eaten = info["percent_eaten"][..., 0] == 100
    assert (info["discount"][..., 0] == ~eaten).all()
    np.testing.assert_allclose(
        info["returned_episode_returns"][last][:, 0], info["percent_eaten"][last][:, 0] / 100, atol=1e-5
    )


def test_the_reward_is_the_teams(walk):
    *_, rewards, _, _ = walk
    assert rewards["agent_0"].sum() > 0
    assert (rewards["agent_0"] == rewards["agent_1"]).all()
    assert (rewards["__all__"] == rewards["agent_0"]).all()


def test_agents_get_the_environments_observations():
    grid = Grid(5, 5, 2)
    env = MacroEnv(grid, handmade_options(grid))
    exported = ToJaxMARL(env)

    @jax.jit
    def step(key):
        _, exported_state = exported.reset(key)
        actions = {"agent_0": jnp.int32(7), "agent_1": jnp.array([7])}  # ippo_rnn leaves an additional axis
        observations, exported_state, _, _, info = exported.step_env(key, exported_state, actions)
        state, _ = env.reset(key)
        _, timestep = env.step(state, jnp.array([7, 7]), key)
        return observations, exported.get_avail_actions(exported_state), info, timestep

    observations, available, info, timestep = step(jax.random.key(3))
    assert (jnp.stack(list(observations.values())) == timestep.observation).all()
    assert (jnp.stack(list(available.values())) == timestep.action_mask).all()
    assert info["option"].tolist() == timestep.macro.active.tolist()


def test_environments_without_options_have_no_option_entries():
    exported = ToJaxMARL(make_env("overcooked-cramped_room,shaping_horizon=9"))
    _, state = jax.eval_shape(exported.reset, jax.random.key(0))
    actions = dict.fromkeys(exported.agents, jax.ShapeDtypeStruct((), jnp.int32))
    observations, _, _, _, info = jax.eval_shape(exported.step_env, jax.random.key(0), state, actions)
    assert observations["agent_0"].shape == exported.observation_space().shape
    assert "option" not in info
    assert set(info["shaped_reward"]) == set(exported.agents)
