"""An environment of some of the agents of another."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cooptions as co
from cooptions.envs.base import check_env
from cooptions.envs.grid import Grid
from cooptions.envs.rollout import start
from cooptions.envs.subteam import SubteamEnv, agents_in_words, env_for
from cooptions.envs.team import Team, subteams
from cooptions.errors import ConfigError
from cooptions.options.handmade import handmade_options
from cooptions.options.macro import MacroEnv
from cooptions.plots import frames

GRID = Grid(6, 6, 4)


@pytest.mark.parametrize("scenario", ["grid-6x6-4p", "lbf-8x8-4p-2f", "grid-6x6-4p,task=meet-pairs,step_cost=0.5"])
def test_members_are_shown_their_own_part_of_the_whole(scenario):
    env = co.make_env(scenario)
    pairs = SubteamEnv(env, 2)
    check_env(pairs)
    state, timestep = jax.jit(pairs.reset)(jax.random.key(3))
    for _ in range(3):
        members = state.members
        np.testing.assert_array_equal(pairs.agent_states(state), env.agent_states(state.inner)[members])
        np.testing.assert_array_equal(timestep.action_mask, state.action_mask[members])
        np.testing.assert_array_equal(timestep.observation, env.observe(state.inner)[members])
        state, timestep = jax.jit(pairs.step)(state, jnp.zeros(2, int), jax.random.key(4))
        np.testing.assert_array_equal(state.members, members)
    assert float(timestep.reward) == -getattr(env, "step_cost", 0.0)


def test_members_do_as_told_and_the_others_play_at_random():
    pairs = SubteamEnv(GRID, 2)
    begun = start(pairs, 4000, key=jax.random.key(0))
    stay = jnp.zeros((4000, 2), int)
    after, _ = jax.vmap(pairs.step)(begun.state, stay, jax.random.split(jax.random.key(1), 4000))
    members = np.asarray(begun.state.members)
    moved = (np.asarray(after.inner.position) != np.asarray(begun.state.inner.position)).any(-1)
    is_member = (members[:, :, None] == np.arange(4)).any(1)
    assert not moved[is_member].any()
    inside = ((begun.state.inner.position > 0) & (begun.state.inner.position < 5)).all(-1) & ~is_member
    assert moved[np.asarray(inside)].mean() == pytest.approx(0.8, abs=0.02)  # of five moves one stands still
    step = after.inner.position - begun.state.inner.position
    assert np.asarray(step)[np.asarray(inside)].mean(axis=0) == pytest.approx([0, 0], abs=0.03)


def test_every_subteam_is_drawn_equally_often():
    drawn = np.asarray(jax.vmap(SubteamEnv(GRID, 2).draw)(jax.random.split(jax.random.key(0), 6000)))
    kinds, counts = np.unique(drawn, axis=0, return_counts=True)
    assert kinds.tolist() == [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    assert counts == pytest.approx(1000, rel=0.12)


def test_agents_that_are_named_stand_for_their_types():
    env = Grid(6, 6, 4, types="1212")
    assert SubteamEnv(env, (0, 1)).places.tolist() == [[0, 1], [0, 3], [2, 3]]
    assert SubteamEnv(env, (1, 3)).agent_features.tolist() == [[True, True]] * 2
    assert SubteamEnv(env, (0, 3)) == SubteamEnv(env, (2, 3))
    assert SubteamEnv(GRID, (1, 3)) == SubteamEnv(GRID, 2)
    assert SubteamEnv(env, (0, 1)).agent_types == (0, 1)


@pytest.mark.parametrize(
    ("types", "members", "told"),
    [
        ("", 1, "members must be at least 2, not 1"),
        ("", 5, "members must be at most 4, not 5"),
        ("", (0,), "members must be two or more different agents in the order of the team"),
        ("", (1, 1), "members must be two or more different agents in the order of the team"),
        ("", (2, 0), "members must be two or more different agents in the order of the team"),
        ("", (0, 4), "members must be at most 3, not 4"),
        ("1222", 2, r"2 of them may be \(0, 1\) of types 0, 1 or \(1, 2\) of types 1, 1: say which"),
    ],
)
def test_members_that_there_are_none_of_are_refused(types, members, told):
    with pytest.raises(ConfigError, match=told):
        SubteamEnv(Grid(6, 6, 4, types=types), members)


def test_an_environment_with_options_is_refused():
    with pytest.raises(ConfigError, match="members: take them of an environment without options"):
        SubteamEnv(MacroEnv(GRID, handmade_options(GRID)), 2)


def test_it_begins_with_the_members_where_one_wants_them():
    env = co.make_env("lbf-5x5-3p-1f")  # nobody shares a cell: the other agent has to make room
    pairs = SubteamEnv(env, 2)
    for seed in range(8):
        wanted = np.array([[0.0, 0.0], [0.0, 1.0]], np.float32)
        try:
            state, timestep = pairs.reset_to(wanted, jax.random.key(seed))
        except ConfigError:
            pytest.fail("the others were not drawn again")
        np.testing.assert_array_equal(pairs.agent_states(state), wanted)
        assert timestep.observation.shape[0] == 2
    with pytest.raises(ConfigError, match="x must be a whole number from 0 to 4"):
        pairs.reset_to(np.array([[0.0, 0.0], [9.0, 1.0]], np.float32), jax.random.key(0))


def test_it_is_drawn_with_everybody():
    pairs = SubteamEnv(GRID, 2)
    begun = start(pairs, 3, key=jax.random.key(0)).state
    np.testing.assert_array_equal(frames(pairs, begun), frames(GRID, begun.inner))


def test_the_environment_of_a_team_is_found():
    mixed = Grid(6, 6, 3, types="122")
    assert env_for(GRID, Team.of(GRID)) is GRID
    assert env_for(GRID, Team.of(Grid(6, 6, 2))) == SubteamEnv(GRID, 2)
    assert env_for(GRID, Team.of(GRID).part(3)) == SubteamEnv(GRID, 3)
    assert env_for(mixed, Team.of(mixed).part((1, 2))) == SubteamEnv(mixed, (1, 2))
    assert env_for(mixed, Team.of(mixed, (0,)).part((0, 2))).num_agents == 2
    assert env_for(GRID, Team.of(mixed)) is GRID, "three agents of two types are no part of it"
    assert agents_in_words(GRID) == "4 agents"
    assert agents_in_words(SubteamEnv(GRID, 2)) == "2 of 4 agents"


def test_a_part_of_a_team_keeps_the_types_of_the_whole():
    whole = Team.of(Grid(6, 6, 4, types="1222"))
    part = whole.part((1, 3))
    assert (part.agent_types, part.num_types, part.num_agents) == ((1, 1), 2, 2)
    assert part.type_has_feature.tolist() == [[True, False], [True, True]]
    assert part.places.tolist() == [[1, 2], [1, 3], [2, 3]]
    assert part.whole == whole
    assert whole.part((0, 1, 2, 3)) is whole
    assert whole.places.tolist() == [[0, 1, 2, 3]]
    assert subteams((0, 0, 0), 2).tolist() == [[0, 1], [0, 2], [1, 2]]
