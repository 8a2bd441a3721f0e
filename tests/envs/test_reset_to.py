"""Episodes that begin with the agents in given states."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cooptions.envs.names import scenario_names
from cooptions.envs.overcooked import Overcooked
from cooptions.envs.scenarios import make_env
from cooptions.errors import ConfigError

KEY = jax.random.key(1)
NAMES = ("grid-5x5-2p", "grid-5x5-2p,types=12", "lbf-6x6-2p-1f", "overcooked-cramped_room", "overcooked-forced_coord")


@pytest.mark.parametrize("name", NAMES)
def test_reset_to_the_states_of_reset_equals_reset(name):
    env = make_env(name)
    state, timestep = env.reset(KEY)
    there = env.reset_to(np.asarray(env.agent_states(state)), KEY)
    for mine, theirs in zip(jax.tree.leaves((state, timestep)), jax.tree.leaves(there), strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize(
    ("name", "states"),
    [
        ("grid-5x5-2p", [[4, 0], [4, 0]]),
        ("lbf-6x6-2p-1f", [[5, 0], [0, 5]]),
        ("overcooked-cramped_room", [[1, 2, 3, 1], [3, 1, 0, 2]]),
        ("overcooked-forced_coord", [[2, 3, 1], [1, 0, 3]]),
    ],
)
def test_the_agents_are_in_the_given_states(name, states):
    env = make_env(name)
    state, timestep = env.reset_to(np.array(states, np.float32), KEY)
    np.testing.assert_array_equal(env.agent_states(state), states)
    after, _ = env.step(state, jnp.full(env.num_agents, env.noop), KEY)
    np.testing.assert_array_equal(np.asarray(env.agent_states(after))[:, :1], np.array(states)[:, :1])
    assert timestep.action_mask.shape == (env.num_agents, env.num_actions)


def test_moved_cooks_leave_no_copy_on_the_map():
    """The map has each cook once, and nothing at their former positions."""
    env = make_env("overcooked-cramped_room")
    assert isinstance(env, Overcooked)
    state, _ = env.reset_to(np.array([[1, 2, 3, 0], [3, 1, 0, 0]], np.float32), KEY)
    top = (state.inner.maze_map.shape[0] - env.jaxmarl.height) // 2
    cooks = np.argwhere(np.asarray(state.inner.maze_map)[..., 0] == 10) - top
    assert sorted(map(tuple, cooks[:, ::-1])) == [(1, 2), (3, 1)]


@pytest.mark.parametrize(
    ("name", "states", "message"),
    [
        ("grid-5x5-2p", [[5, 0], [0, 0]], "agent 1: x must be a whole number from 0 to 4, not 5"),
        ("grid-5x5-2p", [[0, 0.5], [0, 0]], "agent 1: y must be a whole number"),
        ("grid-5x5-2p", [[0, np.nan], [0, 0]], "agent 1: y must be a whole number"),
        ("grid-5x5-2p,map=door", [[0, 0], [0, 2]], "agent 2: there is a wall at x 0, y 2"),
        ("grid-5x5-2p,collisions=true", [[1, 1], [1, 1]], "agents 1 and 2 stand on one cell"),
        ("lbf-6x6-2p-1f", [[1, 1], [1, 1]], "agents 1 and 2 stand on one cell"),
        ("overcooked-cramped_room", [[0, 0, 0, 0], [3, 1, 0, 0]], "agent 1 cannot walk to x 0, y 0"),
        ("overcooked-cramped_room", [[1, 1, 4, 0], [3, 1, 0, 0]], "agent 1: orientation must be a whole number"),
    ],
)
def test_states_where_no_agent_can_be_are_refused(name, states, message):
    with pytest.raises(ConfigError, match=message):
        make_env(name).reset_to(np.array(states, np.float32), KEY)


def test_an_environment_without_reset_to_raises():
    env = make_env(next(name for name in scenario_names() if name.startswith("probe-")))
    with pytest.raises(ConfigError, match="cannot begin from given states of its agents: define `reset_to`"):
        env.reset_to(np.zeros((env.num_agents, len(env.features)), np.float32), KEY)


def test_no_agent_stands_on_an_apple():
    env = make_env("lbf-6x6-2p-1f")
    state, _ = env.reset(KEY)
    apple = np.asarray(state.apple_position)[0]
    with pytest.raises(ConfigError, match="agent 2 stands on an apple"):
        env.reset_to(np.array([[0, 0], apple], np.float32), KEY)
