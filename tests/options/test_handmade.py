"""Options written by hand: they do what their names say, and end by themselves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cooptions.envs.grid import Grid, State
from cooptions.envs.rollout import start
from cooptions.envs.scenarios import make_env
from cooptions.errors import ConfigError
from cooptions.options.execution import follow_all, spreads
from cooptions.options.handmade import GOALS, handmade_options

NAMES = tuple(GOALS)


def rollouts(env, num=64, **settings):
    """Every option from random starts: how far apart the team is at the beginning and at the end, how it ended."""
    options = handmade_options(env, **settings)
    begun = jax.jit(lambda key: start(env, num, key=key))(jax.random.key(0))
    execution = follow_all(env, options, begun, key=jax.random.key(1))
    apart = spreads(env.features, env.agent_features, execution.agent_states)
    ended = {name: np.asarray(execution.terminated)[i].mean() for i, name in enumerate(NAMES)}
    return {name: (apart[i, :, 0], apart[i, :, -1]) for i, name in enumerate(NAMES)}, ended


def test_on_an_open_grid_they_do_it_exactly():
    apart, ended = rollouts(Grid(7, 7, 3, types="122"))  # the first agent has no y
    (start_x, start_y), (end_x, end_y) = (side.T for side in apart["same x"])
    assert (end_x == 0).all()
    assert (end_y == start_y).all()
    (start_x, start_y), (end_x, end_y) = (side.T for side in apart["same y"])
    assert (end_y == 0).all()
    assert (end_x == start_x).all()
    assert (apart["gather"][1] == 0).all()
    assert (apart["spread"][1] == 6).all()
    assert set(ended.values()) == {1.0}


@pytest.mark.slow
def test_where_agents_and_apples_are_in_the_way_they_do_their_best():
    apart, ended = rollouts(make_env("lbf-8x8-2p-2f"))
    assert apart["same x"][1][:, 0].mean() < 0.2 * apart["same x"][0][:, 0].mean()
    assert apart["gather"][1].sum(axis=1).mean() < 0.3 * apart["gather"][0].sum(axis=1).mean()
    assert apart["spread"][1].sum(axis=1).min() >= 10
    assert min(ended.values()) > 0.95


def actions(env, places):
    """What the options want of agents that stand at `places`."""

    @jax.jit
    def choose(options, places):
        state, timestep = env.step(State(places, jnp.int32(0)), jnp.zeros(len(places), int), jax.random.key(0))
        return options.actions(env.agent_states(state), timestep.observation, timestep.action_mask)

    return dict(zip(NAMES, choose(handmade_options(env), jnp.array(places)).tolist(), strict=True))


def test_moves():
    still, up, down, left, right, end = range(6)
    wanted = actions(Grid(5, 5, 3), [[0, 0], [2, 4], [4, 1]])
    assert wanted["same x"] == [down, end, up]
    assert wanted["same y"] == [right, left, end]
    assert wanted["gather"] == [down, left, up]
    assert wanted["spread"] == [end, down, up]
    # The middle of both is (1, 1): the second waits until the first has passed.
    assert actions(Grid(5, 5, 2, collisions=True), [[1, 2], [2, 1]])["gather"] == [left, still]


@pytest.mark.parametrize(
    ("scenario", "names", "message"),
    [
        ("grid-5x5-2p", ("gather", "hide"), "names: unknown hide; there are same x, same y, gather, spread"),
        ("probe-constant", NAMES, "env: Constant needs the coordinates x and y"),
        ("overcooked-cramped_room", NAMES, "env: the first actions of Overcooked must be to stand still"),
    ],
)
def test_only_for_agents_on_a_grid(scenario, names, message):
    with pytest.raises(ConfigError, match=message):
        handmade_options(make_env(scenario), names)


def test_names_choose_the_options():
    options = handmade_options(Grid(5, 5, 2), ("gather",), max_steps=7, epsilon=0.1)
    assert [option.name for option in options.options] == ["gather"]
    assert (options.max_steps, options.epsilon) == (7, 0.1)
    assert options.thresholds.tolist() == [2]
