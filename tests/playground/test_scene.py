"""What a scene answers is what discovery, options and teams say."""

import itertools

import jax
import numpy as np
import pytest
from playground_scenes import untrained_options, with_team

from cooptions.envs.names import scenario_names
from cooptions.envs.scenarios import make_env
from cooptions.errors import ConfigError
from cooptions.playground.board import Board
from cooptions.playground.scene import Scene

STATES = np.array([[0, 1], [5, 2]], np.float32)
PROBE = next(name for name in scenario_names() if name.startswith("probe-"))
COOKS = np.array([[1, 1, 0, 0], [3, 2, 1, 3]], np.float32)


def test_maps_are_the_eigenfunctions_where_an_agent_would_stand(grid_scene):
    found = grid_scene.lens.found
    maps = np.array(grid_scene.look(STATES, 1)["maps"], np.float32)
    assert maps.shape == (2, 6, 6)
    assert maps.std() > 0.1
    joint = np.array([[[0, 1], [row, column]] for row in range(6) for column in range(6)], np.float32)
    np.testing.assert_allclose(maps.reshape(2, -1).T, found.at(joint), rtol=1e-3, atol=1e-4)


def test_values_distances_and_the_fermat_state_are_those_of_discovery(grid_scene):
    found, answer = grid_scene.lens.found, grid_scene.look(STATES, 0)
    np.testing.assert_allclose(answer["values"], found(STATES), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(answer["z"], found.encode(STATES), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(answer["fermat"], found.fermat_state(STATES))
    assert answer["spreads"] == [5.0, 1.0]


def test_counters_of_a_kitchen_have_no_values(kitchen_scene):
    maps = np.array(kitchen_scene.look(COOKS, 0)["maps"], np.float64)
    np.testing.assert_array_equal(np.isnan(maps[0]), kitchen_scene.board.floor.walls)
    joint = COOKS.copy()
    joint[0, :2] = 2, 2  # x is the column, y the row
    np.testing.assert_allclose(maps[:, 2, 2], kitchen_scene.lens.found(joint), rtol=1e-3, atol=1e-4)


def test_further_features_matter_where_discovery_was_shown_them(kitchen_scene):
    described = kitchen_scene.describe()
    names = [feature["names"] for feature in described["features"]]
    assert names[2:] == [("up", "down", "right", "left"), ("empty", "onion", "plate", "dish")]
    assert described["floor"].startswith("data:image/png;base64,")


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ([[0, 6], [0, 0]], "agent 1: y must be a whole number from 0 to 5, not 6"),
        ([[0, 0.5], [0, 0]], "agent 1: y must be a whole number"),
    ],
)
def test_states_off_the_board_are_refused(grid_scene, states, message):
    with pytest.raises(ConfigError, match=message):
        grid_scene.look(np.array(states, np.float32), 0)


def test_a_cook_cannot_stand_on_a_counter(kitchen_scene):
    with pytest.raises(ConfigError, match="agent 1: row 0, column 0 is no floor"):
        kitchen_scene.look(np.array([[0, 0, 0, 0], [3, 2, 0, 0]], np.float32), 0)


def test_an_option_is_played_from_where_the_team_stands(grid_scene):
    track = grid_scene.play(STATES, 0, 7)
    steps = track["steps"]
    assert steps[0]["states"] == STATES.tolist()
    for before, after in itertools.pairwise(steps):
        moved = np.abs(np.array(before["states"]) - after["states"]).sum(axis=1)
        for action, vote, distance in zip(before["actions"], before["votes"], moved, strict=True):
            assert distance <= (0 if vote or action == "stay" else 1)
    np.testing.assert_allclose(
        [step["values"] for step in steps],
        grid_scene.lens.found.at(np.array([step["states"] for step in steps], np.float32)),
        rtol=1e-3,
        atol=1e-4,
    )
    assert (track["ended"] == "the team") == all(steps[-1]["votes"])


@pytest.mark.slow
def test_kitchens_are_drawn_once_for_each_that_differs(kitchen_scene):
    track = kitchen_scene.play(COOKS, 1, 3)
    shown = track["scenery"]
    assert len(shown["picture"]) == len(track["steps"])
    assert len(shown["pictures"]) == len(set(shown["picture"]))


def test_the_episode_of_a_team_is_told_step_by_step(library):
    scene = library.scene(0)
    episode = scene.episode(1)
    steps = episode["steps"]
    assert len(steps) <= 21
    assert set(steps[0]) == {"states", "options", "votes", "actions", "reward"}
    assert set(steps[-1]) == {"states"}
    assert len(episode["scenery"]["apples"]) == len(steps)
    names = {option["name"] for option in scene.describe()["options"]}
    assert {vote for step in steps[:-1] for vote in step["votes"]} <= names | {""}
    for step in steps[:-1]:
        assert all(bool(vote) != bool(action) for vote, action in zip(step["votes"], step["actions"], strict=True))


@pytest.mark.slow
def test_cooks_that_learned_are_told_step_by_step():
    kitchen = make_env("overcooked-cramped_room,time_limit=15")
    scene = with_team(Scene(kitchen, Board.of(kitchen), None, untrained_options(kitchen), None))
    episode = scene.episode(1)
    assert len(episode["steps"]) == len(episode["scenery"]["picture"]) == 16
    for step in episode["steps"][:-1]:
        assert [bool(vote) for vote in step["votes"]] == [not action for action in step["actions"]]
    drawn = np.array([step["states"] for step in episode["steps"]], np.float32)
    assert all(jax.tree.all(jax.tree.map(np.isfinite, scene.board.place(cook))) for cook in drawn.reshape(-1, 4))


@pytest.mark.parametrize("scenario", ["overcooked-forced_coord", "grid-4x5-2p,types=12", PROBE])
def test_any_environment_has_a_board(scenario):
    env = make_env(scenario)
    board = Board.of(env)
    scene = Scene(env, board, None, None, None)
    start = np.array(scene.start(0)["states"], np.float32)
    assert set(scene.look(start, 0)) == {"states", "spreads"}
    assert board.sweep(start, 0).shape == (len(board.cells), env.num_agents, len(env.features))
    with pytest.raises(ConfigError, match="no options"):
        scene.play(start, 0, 0)
    assert jax.tree.all(jax.tree.map(np.isfinite, board.place(start[0])))
