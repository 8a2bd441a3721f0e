"""Overcooked, compared with JaxMARL's own environment and with hand-made episodes."""

import subprocess
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxmarl.environments.overcooked import Overcooked as JaxMARLOvercooked
from jaxmarl.environments.overcooked import overcooked_layouts

from cooptions.envs import rollout
from cooptions.envs.base import check_env
from cooptions.envs.overcooked import Kitchen, Overcooked
from cooptions.errors import ConfigError

UP, DOWN, RIGHT, LEFT, STAY, INTERACT = range(6)

POT_AN_ONION = [LEFT, INTERACT, RIGHT, UP, INTERACT]
FETCH_A_PLATE = [LEFT, DOWN, DOWN, INTERACT, UP, RIGHT, UP]
TAKE_AND_DELIVER = [INTERACT, DOWN, RIGHT, DOWN, INTERACT]
ONE_DELIVERY = 3 * POT_AN_ONION + FETCH_A_PLATE + 15 * [STAY] + TAKE_AND_DELIVER
"""What the left cook of cramped_room does, the right one standing still: soups cook for 20 steps."""


@pytest.fixture(scope="module")
def delivery():
    """The states, features and time steps of one scripted delivery; compiled once for all tests."""
    env = Overcooked("cramped_room")

    def step(state, action):
        state, timestep = env.step(state, jnp.array([action, STAY]), jax.random.key(0))
        return state, (state, env.agent_states(state), timestep)

    episode = jax.jit(lambda key: jax.lax.scan(step, env.reset(key)[0], jnp.array(ONE_DELIVERY))[1])
    return jax.tree.map(np.asarray, episode(jax.random.key(0)))


def jaxmarl_env(layout):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return JaxMARLOvercooked(layout=overcooked_layouts[layout])


@pytest.mark.parametrize("layout", overcooked_layouts)
def test_declares_what_it_produces(layout):
    env = Overcooked(layout)
    check_env(env)
    _, timestep = jax.eval_shape(env.reset, jax.random.key(0))
    plan = overcooked_layouts[layout]
    assert timestep.observation.shape == (2, plan["height"], plan["width"], 26)
    assert timestep.observation.dtype == jnp.uint8


@pytest.mark.parametrize("layout", ["counter_circuit", "forced_coord"])
def test_dynamics_are_those_of_jaxmarl(layout):
    ours, theirs = Overcooked(layout), jaxmarl_env(layout)

    def step(carry, key):
        mine, other = carry
        action = jax.random.randint(key, (2,), 0, 6)
        mine, timestep = ours.step(mine, action, key)
        observations, other, rewards, dones, info = theirs.step_env(
            key, other, {"agent_0": action[0], "agent_1": action[1]}
        )
        shaped = info["shaped_reward"]["agent_0"] + info["shaped_reward"]["agent_1"]
        given = (mine.inner, timestep.observation, timestep.reward, timestep.shaped_reward, timestep.last)
        wanted = (
            other,
            jnp.stack([observations["agent_0"], observations["agent_1"]]),
            rewards["agent_1"],
            shaped,
            dones["__all__"],
        )
        equal = jax.tree.map(lambda a, b: jnp.array_equal(a, b), given, wanted)
        return (mine, other), (jnp.array(jax.tree.leaves(equal)), timestep, ours.agent_states(mine), mine.inner)

    def walk(key):
        start_key, key = jax.random.split(key)
        start = ours.reset(start_key)[0], theirs.reset(start_key)[1]
        return jax.lax.scan(step, start, jax.random.split(key, 402))[1]

    equal, timestep, features, inner = jax.jit(jax.vmap(walk))(jax.random.split(jax.random.key(0), 8))
    assert equal.all()
    assert timestep.shaped_reward.any()  # otherwise the comparison of rewards is vacuous
    assert (np.asarray(timestep.last).argmax(axis=1) == 399).all()
    assert (timestep.discount == 1).all()
    in_range(ours, np.asarray(features), np.asarray(inner.agent_pos))


def in_range(env, features, place):
    """Features are whole numbers below their sizes, and the coordinates are those of JaxMARL."""
    assert (features == features.round()).all()
    assert (features >= 0).all()
    assert (features < [feature.size for feature in env.features]).all()
    for column, feature in enumerate(env.features):
        if feature.kind == "coordinate":
            assert (features[..., column] == place[..., "xy".index(feature.name)]).all()


def test_a_delivery_by_hand(delivery):
    states, _, timesteps = delivery
    before = len(ONE_DELIVERY) - 1
    assert timesteps.reward.tolist() == [0.0] * before + [20.0]
    assert timesteps.score[:, 0].tolist() == [0.0] * before + [1.0]
    assert states.deliveries[-1] == 1
    values, counts = np.unique(timesteps.shaped_reward, return_counts=True)
    # Three onions potted and a plate taken, then the soup taken.
    assert dict(zip(values.tolist(), counts.tolist(), strict=True)) == {0: len(ONE_DELIVERY) - 5, 3: 4, 5: 1}


def test_features_along_a_delivery(delivery):
    _, features, _ = delivery
    assert features[-1, 0].tolist() == [3, 2, DOWN, 0]  # in front of the counter, with empty hands
    assert (features[:, 1, :2] == [3, 1]).all()
    held = features[:, 0, 3].astype(int)
    assert held[np.flatnonzero(np.diff(held, prepend=0))].tolist() == [1, 0, 1, 0, 1, 0, 2, 3, 0]


def test_shaped_rewards_fade(delivery):
    potted = jax.tree.map(lambda leaf: jnp.asarray(leaf[len(POT_AN_ONION) - 1]), delivery[2])
    assert (potted.reward, potted.shaped_reward) == (0, 3)
    env = Overcooked("cramped_room", shaping_horizon=100)
    seen = [float(rollout.training_reward(env, potted, jnp.int32(step))) for step in (0, 25, 100, 1000)]
    assert seen == pytest.approx([3.0, 2.25, 0.0, 0.0])
    assert rollout.training_reward(Overcooked("cramped_room", shaping_horizon=0), potted, jnp.int32(0)) == 0.0


@pytest.mark.parametrize("layout", overcooked_layouts)
def test_only_walled_layouts_drop_the_coordinate_that_separates(layout):
    names = [feature.name for feature in Overcooked(layout).features]
    walled = layout in ("forced_coord", "asymm_advantages")
    assert names == (["y"] if walled else ["x", "y"]) + ["orientation", "inventory"]


def test_time_limit_truncates_and_keeps_the_final_state():
    env = Overcooked("cramped_room", time_limit=3)

    def step(runners, key):
        outcome, runners = rollout.advance(env, runners, jnp.full((2, 2), env.noop), key=key)
        return runners, (outcome.timestep, outcome.state.inner.step, runners.state.inner.step)

    @jax.jit
    def walk(key):
        return jax.lax.scan(step, rollout.start(env, 2, key=key), jax.random.split(key, 4))[1]

    timestep, reached, onward = walk(jax.random.key(0))
    assert timestep.last[:, 0].tolist() == [False, False, True, False]
    assert timestep.discount.tolist() == [[1.0, 1.0]] * 4
    assert reached[:, 0].tolist() == [1, 2, 3, 1]
    assert onward[:, 0].tolist() == [1, 2, 0, 1]


def test_rewards_of_both_cooks_add_up():
    env = Overcooked("asymm_advantages")

    @jax.jit
    def deliver_together(key):
        state, _ = env.reset(key)
        inner = state.inner.replace(
            agent_pos=jnp.array([[3, 2], [7, 1]], jnp.uint32),  # each beside a counter for soups
            agent_dir=jnp.array([[0, -1], [1, 0]], jnp.int8),
            agent_dir_idx=jnp.array([UP, RIGHT], jnp.int32),
            agent_inv=jnp.array([9, 9], jnp.int32),  # a soup each
        )
        state = Kitchen(inner=inner, deliveries=state.deliveries)
        after, timestep = env.step(state, jnp.array([INTERACT, INTERACT]), key)
        return env.agent_states(state)[:, -1], timestep.reward, after.deliveries

    held, reward, deliveries = deliver_together(jax.random.key(0))
    assert (held.tolist(), reward, deliveries) == ([3, 3], 40.0, 2)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"layout": "forced_cord"}, "layout: there is no 'forced_cord'; try forced_coord"),
        ({"layout": "kitchen"}, "layout"),
        ({"time_limit": 0}, "time_limit"),
        ({"shaping_horizon": -1}, "shaping_horizon"),
    ],
)
def test_wrong_fields_are_named(fields, message):
    with pytest.raises(ConfigError, match=message):
        Overcooked(**fields)


def test_parses_a_scenario():
    env = Overcooked.parse("forced_coord", {"time_limit": "50"})
    assert env == Overcooked("forced_coord", time_limit=50)


def test_first_use_inside_a_trace_leaves_nothing_behind():
    env = Overcooked("coord_ring")  # JaxMARL's environment is built on first use

    def play(key):
        state, _ = env.reset(key)
        return env.step(state, jnp.array([STAY, STAY]), key)[1].reward, env.agent_states(state)

    jax.eval_shape(play, jax.random.key(0))
    jax.eval_shape(lambda key: play(key), jax.random.key(0))


def test_importing_prints_nothing():
    code = "import sys; before = sys.stdout, sys.stderr; import cooptions.envs.overcooked as o; "
    code += "assert before == (sys.stdout, sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
