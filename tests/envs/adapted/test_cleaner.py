"""Our additions to Jumanji's Cleaner: an action that stands still, observations per agent, and the time limit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jumanji.environments.routing.cleaner.types import State

from cooptions.envs.adapted.cleaner import STAY, Cleaner
from cooptions.envs.adapters.base import Wrapped

UP, RIGHT, DOWN, LEFT = range(4)
DIRT, CLEAN, WALL = range(3)
GRID = [[1, 0, 0], [0, 2, 0], [0, 0, 0]]


@pytest.fixture(scope="module")
def cleaner():
    env = Cleaner(grid_size=3, num_agents=2, time_limit=2)
    return env, jax.jit(env.step)


def place(env, grid, agents, steps=0):
    """A state like one of `reset`."""
    grid, agents = jnp.array(grid, jnp.int8), jnp.array(agents, jnp.int32)
    mask = env.env.env._compute_action_mask(grid, agents)
    inner = State(
        grid=grid, agents_locations=agents, action_mask=mask, step_count=jnp.int32(steps), key=jax.random.key(0)
    )
    return Wrapped(inner=inner, total=jnp.float32(0.0))


def test_an_agent_can_stand_still_while_the_other_moves(cleaner):
    env, step = cleaner
    state, timestep = step(place(env, GRID, [[0, 0], [0, 0]]), jnp.array([STAY, RIGHT]), jax.random.key(0))
    assert env.agent_states(state).tolist() == [[0, 0], [0, 1]]
    assert timestep.reward == 0.5
    assert not timestep.last
    assert timestep.action_mask.tolist() == [[False, True, True, False, True], [False, True, False, True, True]]


@pytest.mark.parametrize(
    ("grid", "steps", "last", "discount"),
    [
        (GRID, 0, False, 1.0),
        (GRID, 1, True, 1.0),  # the time limit
        ([[1, 0, 1], [1, 2, 1], [1, 1, 1]], 0, True, 0.0),  # the last cell
        ([[1, 0, 1], [1, 2, 1], [1, 1, 1]], 1, True, 0.0),  # both
    ],
)
def test_a_time_limit_is_not_the_end_of_the_task(cleaner, grid, steps, last, discount):
    env, step = cleaner
    _, timestep = step(place(env, grid, [[0, 0], [0, 0]], steps), jnp.array([STAY, RIGHT]), jax.random.key(0))
    assert (bool(timestep.last), float(timestep.discount)) == (last, discount)
    assert timestep.score[0] == pytest.approx(100 * (25 if grid == GRID else 100) / 100)


def test_an_agent_sees_itself_apart_from_the_others(cleaner):
    env, step = cleaner
    _, timestep = step(place(env, GRID, [[0, 0], [2, 0]]), jnp.array([RIGHT, STAY]), jax.random.key(0))
    walls, dirt, own, others = np.moveaxis(timestep.observation, -1, 0)
    assert np.argwhere(walls[0]).tolist() == [[1, 1]]
    assert dirt[0].sum() == 5
    assert np.argwhere(own).tolist() == [[0, 0, 1], [1, 2, 0]]
    assert (others == own[::-1]).all()
