"""Every named environment of another library: its declarations are true, and the whole pipeline runs on it."""

import dataclasses
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from jumanji.environments.routing.cleaner.constants import CLEAN
from PIL import Image

import cooptions as co
from cooptions.envs.names import ENVIRONMENTS, families
from cooptions.envs.rollout import advance, start, uniform_action
from cooptions.envs.scenarios import make_env
from cooptions.errors import ConfigError
from cooptions.learners.networks import NetworkConfig
from cooptions.options.train import recipe
from cooptions.plots.frames import floor, frames

ADAPTED = [name for name, entry in ENVIRONMENTS.entries.items() if ".adapted." in entry.module]
SMALL = {
    "cleaner": "cleaner-5x5-2p,time_limit=12",
    "connector": "connector-5x5-2p,time_limit=12",
    "mpe-simple_reference": "mpe-simple_reference,time_limit=12",
    "mpe-simple_spread": "mpe-simple_spread-2p,time_limit=12",
    "overcooked_v2": "overcooked_v2-cramped_room,time_limit=12",
    "rware": "rware-tiny-2p,column_height=2,time_limit=12",
    "smax": "smax-3m,time_limit=12",
}

TIME, ENVS = 30, 4


def places_of(state, agent_states):
    """The grid's values at the agents' cells, if the wrapped state has a grid, to detect swapped rows and columns."""
    return state[tuple(agent_states.astype(int)[..., :2].T)]


FACTS = {
    "cleaner": lambda state, seen: places_of(state.grid, seen) == CLEAN,
    "connector": lambda state, seen: places_of(state.grid, seen) == np.array([2, 5]),
    "mpe-simple_reference": lambda state, seen: np.isclose(seen, np.clip(state.p_pos[:2], -3, 3)),
    "mpe-simple_spread": lambda state, seen: np.isclose(seen, np.clip(state.p_pos[:2], -3, 3)),
    "overcooked_v2": lambda state, seen: places_of(state.grid[..., 0].T, seen) == 0,
    "rware": lambda state, seen: places_of(state.grid[1], seen) > 0,
    "smax": lambda state, seen: (seen[:, 2] > 0) == state.state.unit_alive[:3],
}
"""What the wrapped state says of the agents' states."""


def test_every_one_is_tested():
    assert sorted(SMALL) == sorted(FACTS) == sorted(ADAPTED)


QUICK = "connector", "cleaner", "mpe-simple_spread"
"""Families that compile in a few seconds. The others take up to 15 seconds each."""


@pytest.fixture(
    scope="module",
    params=[pytest.param(family, marks=[] if family in QUICK else pytest.mark.slow) for family in ADAPTED],
)
def played(request):
    """Random play of a small scenario: the family, its environment, the states and time steps of a few episodes."""
    env = make_env(SMALL[request.param])

    def step(runners, key):
        action = uniform_action(runners.timestep.action_mask, key=key)
        outcome, onward = advance(env, runners, action, key=key)
        return onward, (outcome.state, jax.vmap(env.agent_states)(outcome.state), outcome.timestep)

    @jax.jit
    def play(key):
        return jax.lax.scan(step, start(env, ENVS, key=key), jax.random.split(key, TIME))[1]

    return request.param, env, *jax.device_get(play(jax.random.key(0)))


def test_agents_states_are_in_range_and_those_of_the_wrapped_state(played):
    family, env, states, agent_states, _ = played
    for index, feature in enumerate(env.features):
        values = agent_states[..., index]
        assert feature.low <= values.min() <= values.max() <= feature.high
        assert not feature.discrete or (values == np.round(values)).all()
    for time, runner in np.ndindex(TIME, ENVS):
        inner = jax.tree.map(lambda leaf, at=(time, runner): leaf[at], states.inner)
        assert np.all(FACTS[family](inner, agent_states[time, runner])), f"step {time}, environment {runner}"


def test_the_noop_is_always_available(played):
    _, env, _, _, timestep = played
    assert timestep.action_mask[..., env.noop].all()
    assert len(set(env.action_names)) == env.num_actions


def test_episodes_end_at_the_time_limit_which_is_not_the_tasks_end(played):
    _, env, _, _, timestep = played
    ends = [np.flatnonzero(timestep.last[:, runner]) for runner in range(ENVS)]
    lengths = [np.diff(times, prepend=-1) for times in ends]
    assert max(map(max, lengths)) == env.time_limit
    limited = np.concatenate([timestep.discount[times, runner] for runner, times in enumerate(ends)])
    at_limit = np.concatenate(lengths) == env.time_limit
    assert (limited[at_limit] == 1).mean() > 0.5, "the task may happen to end there, too"
    assert np.isfinite(timestep.reward).all()
    assert np.isfinite(timestep.score).all()


def test_every_environment_is_drawn(played):
    _, env, states, agent_states, _ = played
    images = frames(env, jax.tree.map(lambda leaf: leaf[:8, 0], states))
    moved = np.abs(np.diff(agent_states[:8, 0, :, :2], axis=0)).max(axis=(1, 2)) > 0.2
    changed = (images[1:] != images[:-1]).any(axis=(1, 2, 3))
    assert changed[moved].all()
    ground = floor(env)
    assert ground is not None
    assert len({env.features[axis].name for axis in (ground.row, ground.column)}) == 2


GUIDE = (Path(__file__).parents[3] / "docs" / "guides" / "environments.md").read_text().splitlines()


def test_the_guide_lists_features_scores_and_fields(played):
    family, env, *_ = played
    form = families()[family].form or family
    row = next(line for line in GUIDE if line.startswith(f"| `{form}`"))
    for name in (*(feature.name for feature in env.features), *env.score_names):
        assert f"`{name}`" in row
    fields = next(line for line in GUIDE if line.startswith("| ") and f"`{family}`" in line and "=" in line)
    for field in dataclasses.fields(env):
        if f"<{field.name}>" not in families()[family].pattern:
            assert f"`{field.name}={field.default}`" in fields


@pytest.mark.slow
@pytest.mark.parametrize("family", ADAPTED)
def test_the_whole_pipeline_runs(family, tmp_path):
    """Walk, discover, train options, learn with them, and draw both."""
    env, key = make_env(SMALL[family]), jax.random.key(0)
    network = NetworkConfig(hidden=(8, 8), channels=(4,), kernels=(3,))
    walk = co.walk(env, transitions=400, num_envs=20, key=key)
    found = co.discover(walk, co.Hit(steps=10, hidden=(8,), batch=16), co.Nystrom(1, num_landmarks=10), key=key)
    small = recipe("ours", env)
    learner = replace(small.learner, steps=320, num_envs=4, batch=4, capacity=400, learning_starts=40, network=network)
    options = co.train_options(env, found, replace(small, num_starts=8, max_steps=4, learner=learner), key=key)
    rollout = options.play(env, "+e1", key=key, gif=tmp_path / "option.gif")
    assert len(rollout.agent_states) == int(rollout.length) + 1
    task = co.MacroEnv(env, options)
    ippo = co.ippo(steps=160, num_envs=4, rollout=10, epochs=1, minibatches=1, network=network)
    team = co.learn(task, ippo, key=key, evaluations=1, episodes=2)
    assert np.isfinite(team.scores[0].values).all()
    team.play(gif=tmp_path / "team.gif")
    for name in ("option", "team"):
        with Image.open(tmp_path / f"{name}.gif") as image:
            assert image.n_frames >= 1


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [name for family in ADAPTED for name in families()[family].scenarios])
def test_every_listed_scenario_can_be_walked(scenario):
    env = make_env(scenario)
    walk = co.walk(env, transitions=2_000, num_envs=20, key=jax.random.key(0))
    assert walk.states.shape[2:] == (env.num_agents, len(env.features))


def test_two_of_one_name_are_equal_and_fields_are_checked():
    made = make_env(SMALL["mpe-simple_spread"])
    again = type(made)(2, 12)
    assert again == made
    assert hash(again) == hash(made)
    with pytest.raises(ConfigError, match="num_agents must be at least 2, not 1"):
        type(made)(1)
