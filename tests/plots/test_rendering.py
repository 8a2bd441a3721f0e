"""Pictures show the content of states, and animations can be read again."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxmarl.environments.mpe import SimpleSpreadMPE
from PIL import Image, ImageSequence

from cooptions.envs.adapters.jaxmarl import FromJaxMARL
from cooptions.envs.grid import State
from cooptions.envs.overcooked import OBJECT_TO_INDEX, Overcooked
from cooptions.envs.probe import ProbeState
from cooptions.envs.scenarios import make_env
from cooptions.errors import ConfigError
from cooptions.options.sharing.fingerprints import fingerprint
from cooptions.plots import Rollout, add_captions, colours, floor, frames, save_gif, step_captions
from cooptions.plots.frames import num_cells, ring, tile_size
from cooptions.plots.looks.lbf import APPLE
from cooptions.plots.looks.overcooked import ONION, SOUP, kitchen_tile
from cooptions.types import Feature


def grid_states(*positions):
    """States of a grid from [time][agent] places."""
    return jax.vmap(State)(jnp.asarray(positions, jnp.int32), jnp.arange(len(positions), dtype=jnp.int32))


def cell(image, row, column, env, border=2):
    """The pixels of one cell of a framed grid."""
    shape = [env.grid_size] * 2 if hasattr(env, "grid_size") else [feature.size for feature in env.features[:2]]
    tile = tile_size(*shape)
    return image[border:, border:][row * tile : (row + 1) * tile, column * tile : (column + 1) * tile]


def middle(pixels):
    return tuple(int(part) for part in pixels[pixels.shape[0] // 2, pixels.shape[1] // 2])


def has(pixels, colour):
    """Whether any pixel has exactly this colour."""
    return bool((pixels == np.array(colour, np.uint8)).all(axis=-1).any())


def blank(env, num):
    """`num` states of zeros, which can be drawn without compiling anything."""
    state, _ = jax.eval_shape(env.reset, jax.random.key(0))

    def zeros(leaf):
        is_key = jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return None if is_key else np.zeros((num, *leaf.shape), leaf.dtype)

    return jax.tree.map(zeros, state)


@pytest.fixture
def kitchens():
    """A pot that is empty, has two onions, cooks, and is ready; then the first cook holds the soup."""
    env = Overcooked("cramped_room")
    states = blank(env, 5)
    inner = states.inner
    height, width = inner.maze_map.shape[1:3]
    pot = (height - 4) // 2, (width - 5) // 2 + 2
    inner.maze_map[:, *pot, 0] = OBJECT_TO_INDEX["pot"]
    inner.maze_map[:, *pot, 2] = (23, 21, 7, 0, 23)
    inner.agent_pos[:] = [[1, 1], [3, 2]]
    inner.agent_dir[:] = [[0, -1], [1, 0]]
    inner.agent_inv[:] = OBJECT_TO_INDEX["empty"]
    inner.agent_inv[4, 0] = OBJECT_TO_INDEX["dish"]
    return env, states


def test_agents_are_drawn_where_they_stand():
    env = make_env("grid-4x6-2p")
    images = frames(env, grid_states([[0, 0], [3, 5]], [[1, 0], [3, 5]]))
    tile = tile_size(4, 6)
    assert images.shape == (2, 4 * tile + 4, 6 * tile + 4, 3)
    assert middle(cell(images[0], 0, 0, env)) == colours.agent_colour(0)
    assert middle(cell(images[0], 3, 5, env)) == colours.agent_colour(1)
    assert middle(cell(images[1], 0, 0, env)) == colours.FLOOR
    assert middle(cell(images[1], 1, 0, env)) == colours.agent_colour(0)
    assert (cell(images[0], 3, 5, env) == cell(images[1], 3, 5, env)).all()


def test_agents_in_one_cell_are_all_seen():
    env = make_env("grid-15x15-4p")
    image = frames(env, grid_states([[7, 7]] * 4))[0]
    together = cell(image, 7, 7, env)
    assert all(has(together, colours.agent_colour(agent)) for agent in range(4))
    assert not has(cell(image, 7, 8, env), colours.agent_colour(0))


def test_walls_and_types():
    env = make_env("grid-5x5-2p,map=door,types=12")
    image = frames(env, grid_states([[1, 0], [1, 4]]))[0]
    assert middle(cell(image, 0, 2, env)) == colours.WALL
    assert middle(cell(image, 2, 2, env)) == colours.FLOOR
    assert has(cell(image, 1, 0, env), colours.WHITE), "type 1 has stripes"
    assert not has(cell(image, 1, 4, env), colours.WHITE)


def foraging_states(env, agents, apples, num=1):
    states = blank(env, num)
    states.position[:], states.apple_position[:] = agents, apples
    return states


def test_foraging_shows_levels_and_drops_eaten_apples():
    env = make_env("lbf-8x8-2p-2f,rules=jumanji")
    states = foraging_states(env, [[4, 7], [0, 0]], [[2, 5], [6, 1]], num=3)
    states.eaten[1, 0] = True
    states.level[:] = [[1, 2], [1, 2], [7, 2]]
    images = frames(env, states)
    assert has(cell(images[0], 2, 5, env), APPLE)
    assert not has(cell(images[1], 2, 5, env), APPLE)
    assert has(cell(images[1], 6, 1, env), APPLE)
    drawn = [cell(image, 4, 7, env) for image in images]
    assert has(drawn[0], colours.agent_colour(0))
    assert (drawn[0] == drawn[1]).all()
    assert (drawn[0] != drawn[2]).any(), "the level is written on the agent"


@pytest.mark.parametrize(("reach", "corner", "side"), [("corner", True, True), ("side", False, True)])
def test_foraging_shows_from_where_an_apple_is_loaded(reach, corner, side):
    env = make_env(f"lbf-8s-8x8-2p-2f,reach={reach}")
    states = foraging_states(env, [[0, 0], [0, 7]], [[2, 5], [6, 1]], num=2)
    states.eaten[1, 0] = True
    images = frames(env, states)

    def tinted(image, row, column):
        return middle(cell(image, row, column, env)) != colours.FLOOR

    assert [tinted(images[0], 1, 4), tinted(images[0], 1, 5)] == [corner, side]
    assert not tinted(images[0], 4, 5)
    assert not tinted(images[1], 1, 5), "an eaten apple has no reach"


@pytest.mark.parametrize(("place", "top", "bottom", "left", "right"), [([3, 3], 1, 5, 1, 5), ([0, 6], 0, 2, 4, 7)])
def test_foraging_frames_what_an_agent_sees(place, top, bottom, left, right):
    """A sight of 2 is framed, up to the grid's edge. Full sight has no frame."""
    near, far = (make_env(f"lbf-{sight}s-8x8-1p-1f") for sight in (2, 8))
    framed, plain = (frames(env, foraging_states(env, [place], [[6, 2]]))[0] for env in (near, far))
    cells = [(row, column) for row in range(8) for column in range(8)]
    changed = {each for each in cells if (cell(framed, *each, near) != cell(plain, *each, near)).any()}
    inside = {(row, column) for row, column in cells if top <= row <= bottom and left <= column <= right}
    assert changed == {each for each in inside if each[0] in (top, bottom) or each[1] in (left, right)}


def test_kitchen_shows_pots_and_hands(kitchens):
    env, states = kitchens
    images = frames(env, states)
    assert images.shape == (5, 4 * 64, 5 * 64, 3)
    assert len({image.tobytes() for image in images}) == 5
    pot = images[:, :64, 2 * 64 : 3 * 64]
    assert not has(pot[0], ONION)
    assert has(pot[1], ONION)
    assert has(pot[2], ONION)
    assert has(pot[2], SOUP), "the bar of progress"
    assert has(pot[3], SOUP)
    cook = images[:, 64:128, 64:128]
    assert middle(cook[0]) == colours.agent_colour(0)
    assert not has(cook[0], SOUP)
    assert has(cook[4], SOUP)


def test_kitchen_tiles_differ():
    looks = {kitchen_tile(kind, 0, 32).tobytes() for kind in OBJECT_TO_INDEX.values()}
    assert len(looks) == len(OBJECT_TO_INDEX) - 2, "unseen, empty and agent are all the ground"


def test_cooks_look_where_they_face(kitchens):
    env, states = kitchens
    states.inner.agent_dir[:4, 1] = [[0, -1], [0, 1], [1, 0], [-1, 0]]
    up, down, right, left, _ = frames(env, states)[:, 2 * 64 : 3 * 64, 3 * 64 : 4 * 64].astype(int)
    dark = tuple((np.abs(image - colours.INK).sum(axis=-1) < 20).astype(float) for image in (up, down, right, left))
    rows = [float((image.sum(axis=1) * np.arange(64)).sum() / image.sum()) for image in dark]
    columns = [float((image.sum(axis=0) * np.arange(64)).sum() / image.sum()) for image in dark]
    assert rows[0] < 31 < 32 < rows[1]
    assert columns[3] < 31 < 32 < columns[2]


def test_any_other_environment_is_drawn_from_its_features():
    probe = make_env("probe-truncated")
    states = jax.vmap(ProbeState)(jnp.arange(6), jnp.ones(6), jnp.zeros(6))
    images = frames(probe, states)
    filled = (images == np.array(colours.agent_colour(1), np.uint8)).all(axis=-1).sum(axis=(1, 2))
    assert (np.diff(filled) > 0).all(), "the bar grows with the feature"


def test_two_features_are_dots():
    env = make_env("grid-9x9-2p")
    plain = frames.dispatch(object)
    images = plain(env, grid_states([[0, 0], [8, 4]], [[8, 8], [8, 4]]))
    one = (images == np.array(colours.agent_colour(0), np.uint8)).all(axis=-1)
    centres = [np.argwhere(mask).mean(axis=0) / mask.shape for mask in one]
    assert (centres[0] < 0.15).all()
    assert (centres[1] > 0.85).all()
    two = np.argwhere((images[0] == np.array(colours.agent_colour(1), np.uint8)).all(axis=-1)).mean(axis=0)
    assert two[0] / images.shape[1] > 0.85, "the first feature runs downwards"
    assert two[1] / images.shape[2] == pytest.approx(0.5, abs=0.03)


def test_landmarks_of_an_adapter_are_drawn_below_agents():
    plane = Feature.continuous("x", -2.0, 2.0), Feature.continuous("y", -2.0, 2.0)
    fields = {"features": plane, "factorise": lambda state: state.p_pos[:2]}
    spread = SimpleSpreadMPE(num_agents=2, num_landmarks=1)
    env = FromJaxMARL(spread, **fields, landmarks=lambda state: state.p_pos[2:])
    states = blank(env, 2)
    states.inner.p_pos[:] = [[[-2, -2], [2, 2], [2, 0]], [[-2, -2], [2, 0], [2, 0]]]
    shown = frames(env, states)
    row, column = np.argwhere((shown[0] == np.array(colours.LANDMARK, np.uint8)).all(axis=-1)).mean(axis=0)
    assert row / shown.shape[1] > 0.85, "the first feature runs downwards"
    assert column / shown.shape[2] == pytest.approx(0.5, abs=0.03)
    assert middle(shown[1][int(row) - 2 : int(row) + 3, int(column) - 2 : int(column) + 3]) == colours.agent_colour(1)
    bare = FromJaxMARL(spread, **fields)
    assert not has(frames(bare, states), colours.LANDMARK)
    assert fingerprint(env) == fingerprint(bare), "options fit an environment however it is drawn"
    with pytest.raises(ConfigError, match=r"landmarks: returns shape \(2,\)"):
        FromJaxMARL(spread, **fields, landmarks=lambda state: state.p_pos[2])


def warehouse_states(env, robots, shelves, requested):
    states = blank(env, 1)
    position = states.inner.agents.position
    position.x[:], position.y[:] = np.transpose(robots)
    shelf = states.inner.shelves
    shelf.position.x[:], shelf.position.y[:] = np.transpose(shelves)
    shelf.is_requested[:] = requested
    return states


def test_a_map_of_an_adapter_is_drawn_below_landmarks_and_agents():
    env = make_env("rware-tiny-2p,column_height=2")
    shelves = [[1, 1], [1, 2], [2, 1], [2, 2], [1, 7], [1, 8], [2, 7], [2, 8]]
    image = frames(env, warehouse_states(env, [[0, 3], [4, 9]], shelves, np.arange(8) == 5))[0]
    looks = {place: middle(cell(image, *place, env)) for place in [(0, 3), (4, 9), (0, 0), (1, 1), (1, 8), (4, 5)]}
    assert looks[0, 3] == colours.agent_colour(0)
    assert looks[4, 9] == colours.agent_colour(1)
    assert looks[0, 0] == colours.FLOOR
    assert looks[1, 1] == colours.MARK
    assert looks[1, 8] == colours.LANDMARK, "a requested shelf"
    assert looks[4, 5] == colours.GOAL
    assert not has(cell(image, 1, 1, env), colours.LANDMARK), "shelves that nobody requests are no landmarks"


def test_the_floor_of_an_adapter_is_what_all_episodes_have_in_common():
    ground = floor(make_env("rware-tiny-2p,column_height=2"))
    assert ground is not None
    assert ground.picture is not None
    assert not ground.walls.any()
    maze = floor(make_env("cleaner-5x5-2p"))
    assert maze is not None
    assert maze.walls[1::2, 1::2].all()
    assert not maze.walls[::2, ::2].any(), "walls elsewhere change from one episode to the next"


def test_axes_of_an_adapter_turn_the_picture():
    env = make_env("mpe-simple_spread-2p")
    states = blank(env, 1)
    states.inner.p_pos[:, :2] = [[-3, -3], [3, -3]]
    image = frames(env, states)[0]
    row, column = np.argwhere((image == np.array(colours.agent_colour(1), np.uint8)).all(axis=-1)).mean(axis=0)
    assert row / image.shape[0] < 0.15
    assert column / image.shape[1] > 0.85, "x runs to the right"
    ground = floor(env)
    assert ground is not None
    assert (ground.row, ground.column) == (1, 0)


def test_dead_units_are_not_drawn():
    env = make_env("smax-3m")
    states = blank(env, 2)
    states.inner.state.unit_positions[:, 3:] = [[8.0, 4.0], [8.0, 16.0], [8.0, 28.0]]
    states.inner.state.unit_alive[:, 3:] = [[True, True, True], [False, True, True]]
    all_three, two = (frames(env, states) == np.array(colours.LANDMARK, np.uint8)).all(axis=-1).sum(axis=(1, 2))
    assert two == pytest.approx(all_three * 2 / 3, rel=0.02)


@pytest.mark.parametrize("scenario", ["grid-4x4-2p", "lbf-8x8-2p-2f", "overcooked-cramped_room", "probe-recall"])
def test_states_without_time_are_refused(scenario):
    env = make_env(scenario)
    state = jax.tree.map(lambda leaf: leaf[0], blank(env, 1))
    with pytest.raises(ConfigError, match="stacked along a leading axis"):
        frames(env, state)


def test_floors_know_rows_from_columns():
    kitchen = floor(make_env("overcooked-counter_circuit"))
    assert kitchen is not None
    assert (kitchen.row, kitchen.column) == (1, 0), "x is the column in a kitchen"
    assert kitchen.walls.shape == (5, 8)
    assert floor(make_env("overcooked-forced_coord")) is None, "its agents' states have no x"
    assert floor(make_env("probe-recall")) is None
    env = make_env("grid-5x7-2p,map=door")
    ground = floor(env)
    assert ground is not None
    assert ground.walls.shape == (5, 7) == tuple(map(num_cells, env.features))
    assert (ground.places(env.features, np.array([[3.0, 6.0]])) == [[3.0, 6.0]]).all()


@pytest.mark.parametrize("num", range(2, 9))
def test_ring_keeps_paths_apart(num):
    places = ring(num)
    for axis in places.T:
        assert np.diff(np.sort(axis)).min() > 0.05


def test_gif_comes_back(tmp_path):
    env = make_env("grid-6x6-2p")
    images = frames(env, grid_states(*([[i // 6, i % 6], [5, 5 - i % 6]] for i in range(30))))
    save_gif(tmp_path / "new" / "walk.gif", images, fps=10.0, hold=0.5)
    with Image.open(tmp_path / "new" / "walk.gif") as gif:
        back = [np.asarray(image.convert("RGB")) for image in ImageSequence.Iterator(gif)]
        gif.seek(3)
        assert gif.info["duration"] == 100
        gif.seek(29)
        assert gif.info["duration"] == 600
        assert gif.info["loop"] == 0
    assert len(back) == 30
    assert np.abs(np.stack(back).astype(int) - images).max() < 24, "the palette holds every colour"
    assert (tmp_path / "new" / "walk.gif").stat().st_size < 3000 * len(images)


def test_gif_errors(tmp_path):
    images = np.zeros((2, 8, 8, 3), np.uint8)
    with pytest.raises(ConfigError, match="fps must be"):
        save_gif(tmp_path / "a.gif", images, fps=100.0)
    with pytest.raises(ConfigError, match="frames: there are none"):
        save_gif(tmp_path / "a.gif", images[:0])
    with pytest.raises(ConfigError, match="captions: 1 for 2 frames"):
        add_captions(images, ["one"])


def test_captions():
    images = np.zeros((3, 40, 120, 3), np.uint8)
    told = add_captions(images, ["a", "b", "a very long caption that must be made smaller"])
    assert told.shape[2:] == (120, 3)
    assert (told[:, -40:] == images).all()
    assert (told[0, :-40] != told[1, :-40]).any()
    rollout = Rollout(
        states=None, agent_states=np.zeros((3, 2, 1)), actions=np.array([[0, 5], [5, 5]]), length=np.asarray(2)
    )
    lines = step_captions("gather", rollout, 5, rewards=np.array([0.5, 0.25]))
    assert lines[0] == "gather   step 0/2"
    assert lines[1] == "gather   step 1/2   stop 1/2   reward 0.50"
    assert lines[2] == "gather   step 2/2   stop 2/2   reward 0.75"


def test_trim_drops_padding():
    states = grid_states(*([[i, i], [0, 0]] for i in range(5)))
    rollout = Rollout(states, jnp.zeros((5, 2, 2)), jnp.zeros((4, 2), jnp.int32), jnp.int32(2))
    trimmed = rollout.trim()
    assert trimmed.agent_states.shape == (3, 2, 2)
    assert trimmed.actions.shape == (2, 2)
    assert trimmed.states.position.shape == (3, 2, 2)
    with pytest.raises(ConfigError, match="one state more than actions"):
        Rollout(states, jnp.zeros((5, 2, 2)), jnp.zeros((5, 2), jnp.int32), jnp.int32(2)).trim()
