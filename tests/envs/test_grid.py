import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cooptions.discovery.oracles import grid_cells, grid_transitions
from cooptions.envs.grid import MOVES, Grid, State
from cooptions.envs.rollout import advance, start, uniform_action
from cooptions.envs.scenarios import make_env
from cooptions.errors import ConfigError


@pytest.mark.parametrize("scenario", ["grid-4x5-2p", "grid-5x5-2p,map=door"])
def test_random_play_has_the_oracles_transition_matrix(scenario):
    env = make_env(scenario)
    cells = grid_cells(env.free)
    expected = grid_transitions(env.free)
    for row, cell in enumerate(cells):
        mask = env.action_mask(State(jnp.array([cell, cells[0]]), jnp.int32(0)))[0]
        probability = np.zeros(len(cells))
        for action in np.flatnonzero(mask):
            before = State(jnp.array([cell, cells[0]]), jnp.int32(0))
            state, _ = env.step(before, jnp.array([action, 0]), jax.random.key(0))
            target = np.asarray(state.position[0])
            probability[(cells == target).all(1).nonzero()[0]] += 1 / mask.sum()
        assert probability == pytest.approx(expected[row])


def _play(env, num_envs=64, steps=60):
    def step(runners, key):
        outcome, onward = advance(env, runners, uniform_action(runners.timestep.action_mask, key=key), key=key)
        return onward, outcome.state.position

    runners = start(env, num_envs, key=jax.random.key(0))
    return np.asarray(jax.lax.scan(step, runners, jax.random.split(jax.random.key(1), steps))[1])


@pytest.mark.parametrize("collisions", [True, False])
def test_collisions(collisions):
    position = _play(Grid(4, 4, 3, collisions=collisions))
    met = (position[:, :, 0] == position[:, :, 1]).all(-1).any()
    assert met != collisions


def test_meeting_pays_once_and_ends():
    env = make_env("grid-5x5-3p,task=meet")
    near = State(jnp.array([[2, 2], [2, 2], [2, 3]]), jnp.int32(0))
    for action, met in (([0, 0, 3], True), ([0, 0, 0], False), ([1, 1, 3], False)):
        _, timestep = env.step(near, jnp.array(action), jax.random.key(0))
        assert (timestep.reward, timestep.discount, bool(timestep.last)) == (met, 1 - met, met)
        assert timestep.score.tolist() == [100.0 * met]
    assert make_env("grid-5x5-3p").score_names == ()


A, B, C, D = (1, 1), (1, 3), (4, 0), (4, 4)


@pytest.mark.parametrize(
    ("task", "cells", "met"),
    [
        ("meet-pairs", [A, A], True),
        ("meet-pairs", [A, B, A, B], True),
        ("meet-pairs", [B, A, A, B], True),
        ("meet-pairs", [A, A, A, A], False),
        ("meet-pairs", [A, A, A, B], False),
        ("meet-pairs", [A, A, B, C], False),
        ("meet-pairs", [A, B, C, A, B, C], True),
        ("meet-pairs", [A, A, A, B, B, B], False),
        ("meet-pairs", [A, B, C, D, D, C, B, A], True),
        ("meet-pairs", [A, B, C, C, C, C, B, A], False),
        ("meet-groups", [A, B, A, B], True),
        ("meet-groups", [A, B, B, A, A, B], True),
        ("meet-groups", [A, B, C, A, B, C], False),
        ("meet-groups", [A, A, A, A, B, B], False),
        ("meet-groups", [A, B, B, A, A, B, A, B], True),
        ("meet-groups", [A] * 8, False),
        ("meet", [A] * 8, True),
        ("meet", [A, A, B, B], False),
    ],
)
def test_groups_meet_when_each_agent_has_just_enough_company(task, cells, met):
    env = Grid(5, 5, len(cells), task=task)
    begun = State(jnp.array(cells), jnp.int32(0))
    _, timestep = env.step(begun, jnp.zeros(len(cells), int), jax.random.key(0))
    assert (timestep.reward, timestep.discount, bool(timestep.last)) == (met, 1 - met, met)
    assert timestep.score.tolist() == [100.0 * met]


def test_each_step_costs():
    """The empty grid of the paper's options: alone, no collisions, 400 steps, 0.01 a step."""
    env = make_env("grid-15x15-4p,time_limit=400,step_cost=0.01")
    assert (env.time_limit, env.collisions) == (400, False)
    _, timestep = env.step(State(jnp.zeros((4, 2), jnp.int32), jnp.int32(0)), jnp.zeros(4, int), jax.random.key(0))
    assert (float(timestep.reward), float(timestep.discount), bool(timestep.last)) == (pytest.approx(-0.01), 1.0, False)
    meeting = make_env("grid-5x5-2p,task=meet,step_cost=0.25")
    _, timestep = meeting.step(State(jnp.zeros((2, 2), jnp.int32), jnp.int32(0)), jnp.zeros(2, int), jax.random.key(0))
    assert float(timestep.reward) == 0.75


def test_agents_that_would_meet_stay():
    env = Grid(1, 5, 2, collisions=True)
    state, _ = env.step(State(jnp.array([[0, 1], [0, 3]]), jnp.int32(0)), jnp.array([4, 3]), jax.random.key(0))
    assert state.position.tolist() == [[0, 1], [0, 3]]


def test_type_1_never_moves_along_y_and_has_no_y():
    env = make_env("grid-10x10-2p,types=12")
    position = _play(env, steps=40)
    assert (position[:, :, 0, 1] == position[:1, :, 0, 1]).all()
    assert (position[:, :, 1, 1] != position[:1, :, 1, 1]).any()
    assert env.agent_features.tolist() == [[True, False], [True, True]]
    assert env.agent_types == (0, 1)
    states = env.agent_states(State(jnp.array([[3, 4], [5, 6]]), jnp.int32(0)))
    assert states.tolist() == [[3, 0], [5, 6]]


def test_padded_feature_is_not_observed():
    env = make_env("grid-10x10-2p,types=12")
    near, far = (env.observe(State(jnp.array([[3, y], [5, 6]]), jnp.int32(0))) for y in (4, 9))
    assert jnp.array_equal(near, far)


def test_what_an_agent_lacks_it_sees_of_its_teammates():
    """An agent without y can tell whether the others have the same one."""
    env = make_env("grid-9x9-3p,types=122")
    apart, level = (env.observe(State(jnp.array([[3, 4], [5, 6], [7, y]]), jnp.int32(0))) for y in (2, 6))
    assert apart[0].tolist() == pytest.approx([-0.25, 0.0, 2 / 8, 6 / 8, 4 / 8, 2 / 8])
    assert level[0].tolist() == pytest.approx([-0.25, 0.0, 2 / 8, 6 / 8, 4 / 8, 6 / 8])
    assert apart[1].tolist() == pytest.approx([0.25, 0.5, -2 / 8, 0.0, 2 / 8, -4 / 8])


def test_text_map(tmp_path):
    path = tmp_path / "map.txt"
    path.write_text("..#\n...\n")
    env = Grid(2, 3, 2, map=str(path))
    assert env.free.tolist() == [[True, True, False], [True, True, True]]
    position = _play(env)
    assert not ((position == [0, 2]).all(-1)).any()
    with pytest.raises(ConfigError, match=r"map\.txt has 2 rows of length \[3\], expected 3 of 3"):
        Grid(3, 3, 2, map=str(path))
    with pytest.raises(ConfigError, match="is not a file"):
        Grid(3, 3, 2, map=str(tmp_path / "none.txt"))


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"num_agents": 1}, "num_agents"),
        ({"num_agents": 9}, "num_agents"),
        ({"types": "13"}, "types"),
        ({"step_cost": -0.01}, "step_cost must be 0 or more, not -0.01"),
        ({"step_cost": float("nan")}, "step_cost must be 0 or more, not nan"),
        ({"task": "dance"}, "task must be empty or one of meet, meet-pairs, meet-groups, not 'dance'"),
        ({"task": "meet-pairs"}, "task meet-pairs is not for 3 agents"),
        ({"task": "meet-groups"}, "task meet-groups is not for 3 agents"),
        ({"task": "meet-groups", "num_agents": 2}, "task meet-groups is not for 2 agents"),
        ({"task": "meet", "collisions": True}, "task: who is to meet"),
    ],
)
def test_bad_fields_are_named(fields, named):
    with pytest.raises(ConfigError, match=named):
        Grid(**fields)


def test_moves_start_with_standing_still():
    assert MOVES[Grid().noop].tolist() == [0, 0]


@pytest.mark.parametrize("scenario", ["grid-30000x30000-2p", "grid-3x3-2p,map=/dev/zero"])
def test_what_is_too_large_is_refused_before_anything_is_made(scenario):
    with pytest.raises(ConfigError, match="at most 1000000 cells|is not a file"):
        make_env(scenario)


def test_a_map_file_that_is_too_large_is_refused(tmp_path):
    (tmp_path / "map.txt").write_bytes(b"." * (2_000_001))
    with pytest.raises(ConfigError, match="has 2000001 bytes; a map has at most 2000000"):
        Grid(3, 3, 2, map=str(tmp_path / "map.txt"))
