"""The look of adapted environments: agents, and the landmarks and map that the adapter defines."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int, UInt8

from cooptions.envs.adapters.base import AbstractAdapter, Tile, Wrapped
from cooptions.envs.adapters.scenario import AbstractScenario
from cooptions.plots import colours
from cooptions.plots.frames import (
    Floor,
    agent_sprite,
    draw_team,
    floor,
    floor_tiles,
    framed,
    frames,
    landmark_sprite,
    num_cells,
    plain_frames,
    seen,
    states_of,
    striped,
    tile_size,
)
from cooptions.plots.sprites import box, mosaic, opaque, paste, sprite

Frames = UInt8[np.ndarray, "time height width 3"]

NUM_STARTS = 8
"""The number of initial states. Tiles that are equal in all of them count as the fixed map."""


@frames.register(AbstractAdapter)
def adapter_frames(env: AbstractAdapter, states: Wrapped) -> Frames:
    landmarks = None if env.landmarks is None else _along(env.landmarks, states).astype(np.float32)
    if env.tiles is None:
        return plain_frames(env, states, landmarks, env.axes)
    return _on_tiles(env, states_of(env, states), _along(env.tiles, states), landmarks)


@frames.register(AbstractScenario)
def scenario_frames(env: AbstractScenario, states: Wrapped) -> Frames:
    return adapter_frames(env.env, states)


def _along(function: Callable[[Any], Any], states: Wrapped) -> np.ndarray:
    """A function of the adapter, applied to every state of a roll-out."""
    return np.asarray(jax.jit(jax.vmap(function))(states.inner))


def _on_tiles(
    env: AbstractAdapter,
    agent_states: Float[np.ndarray, "time agent feature"],
    tiles: Int[np.ndarray, "time row column"],
    landmarks: Float[np.ndarray, "time landmark first_feature"] | None,
) -> Frames:
    size, stripe, axes = tile_size(*tiles.shape[1:]), striped(env), list(env.axes)
    images = mosaic(map_tiles(size), tiles)
    for time, image in enumerate(images):
        for place in [] if landmarks is None else seen(landmarks[time][:, axes]):
            paste(image, landmark_sprite(size), (place + 0.5) * size)
        cells = agent_states[time][:, axes].astype(int)
        draw_team(image, cells, size, lambda agent, size: agent_sprite(agent, size, stripe=bool(stripe[agent])))
    return framed(images)


def map_tiles(size: int) -> UInt8[np.ndarray, "kind size size 3"]:
    """A picture of each kind of `Tile`."""
    inside = box(size, 0.5 / size, 0.5 / size, 1 + 1 / size, 1 + 1 / size)
    tinted = [opaque(sprite(size, (inside, colour)), colours.LINE) for colour in (colours.MARK, colours.GOAL)]
    return np.concatenate([floor_tiles(size), tinted])


@floor.register(AbstractAdapter)
def adapter_floor(env: AbstractAdapter) -> Floor | None:
    if len(env.features) < 2 or any(env.features[axis].kind == "categorical" for axis in env.axes):
        return None
    row, column = env.axes
    if env.tiles is None:
        cells = [num_cells(env.features[axis]) for axis in env.axes]
        return Floor(row=row, column=column, walls=np.zeros(cells, bool))
    tiles = _lasting_tiles(env)
    picture = mosaic(map_tiles(tile_size(*tiles.shape)), tiles) if tiles.max() > Tile.WALL else None
    return Floor(row=row, column=column, walls=tiles == Tile.WALL, picture=picture)


@floor.register(AbstractScenario)
def scenario_floor(env: AbstractScenario) -> Floor | None:
    return adapter_floor(env.env)


@functools.cache
def _lasting_tiles(env: AbstractAdapter) -> Int[np.ndarray, "row column"]:
    """The map at the start of episodes. Tiles that differ between episodes count as free."""
    keys = jax.random.split(jax.random.key(0), NUM_STARTS)
    tiles = np.asarray(jax.jit(jax.vmap(lambda key: env.tiles(env.reset(key)[0].inner)))(keys))  # pyright: ignore
    return np.where((tiles == tiles[0]).all(axis=0), tiles[0], int(Tile.FREE))
