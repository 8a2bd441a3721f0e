"""The look of Level-Based Foraging: agents with level and field of view, apples with level and reach."""

import functools

import numpy as np
from jaxtyping import Int, UInt8

from cooptions.envs.lbf import Foraging, State
from cooptions.envs.lbf.rules import within_reach
from cooptions.plots import colours
from cooptions.plots.frames import agent_sprite, check_time, draw_team, framed, frames, tile_size, walled
from cooptions.plots.sprites import Sprite, disc, paste, polygon, sprite, text

APPLE = (158, 28, 52)
LEAF = (96, 140, 40)
REACH_SHARE, SIGHT_SHARE = 0.13, 0.55
"""The opacity of the colour of cells in reach of an apple, and of the frames around fields of view."""


@frames.register(Foraging)
def foraging_frames(env: Foraging, states: State) -> UInt8[np.ndarray, "time height width 3"]:
    """Pictures with reddish cells where an apple can be loaded, and a frame around each agent's field of view."""
    positions, levels = np.asarray(states.position), np.asarray(states.level)
    check_time(env, positions.shape, (env.num_agents, 2))
    apples, eaten = np.asarray(states.apple_position), np.asarray(states.eaten)
    apple_levels = np.asarray(states.apple_level)
    tile = tile_size(env.grid_size, env.grid_size)
    empty = walled(np.zeros((env.grid_size, env.grid_size), bool), tile)
    images = np.repeat(empty[None], len(positions), axis=0)
    for time, image in enumerate(images):
        left = np.flatnonzero(~eaten[time])
        _draw_reach(env, image, apples[time, left], tile)
        for apple in left:
            paste(image, apple_sprite(tile, int(apple_levels[time, apple])), (apples[time, apple] + 0.5) * tile)
        _draw_sight(env, image, positions[time], tile)
        labels = [str(level) for level in levels[time]]
        draw_team(
            image, positions[time], tile, lambda agent, size, of=labels: agent_sprite(agent, size, label=of[agent])
        )
    return framed(images)


def _draw_reach(
    env: Foraging, image: UInt8[np.ndarray, "height width 3"], apples: Int[np.ndarray, "apple 2"], tile: int
) -> None:
    """Colour the cells from which any of the apples can be loaded."""
    around = np.stack(np.meshgrid([-1, 0, 1], [-1, 0, 1]), axis=-1).reshape(-1, 2)
    around = around[np.asarray(within_reach(env.applied.reach, around)) & around.any(axis=1)]
    for row, column in np.unique((apples[:, None] + around).reshape(-1, 2), axis=0):
        if 0 <= row < env.grid_size and 0 <= column < env.grid_size:
            _tint(image[row * tile : (row + 1) * tile, column * tile : (column + 1) * tile], APPLE, REACH_SHARE)


def _draw_sight(
    env: Foraging, image: UInt8[np.ndarray, "height width 3"], places: Int[np.ndarray, "agent 2"], tile: int
) -> None:
    """Draw a frame around each agent's field of view unless it covers the grid. Frames are offset to stay visible."""
    sight, last = env.applied.sight, env.grid_size - 1
    if sight >= last:
        return
    for agent, place in enumerate(places):
        top, left = np.maximum(place - sight, 0) * tile + 2 * agent
        bottom, right = (np.minimum(place + sight, last) + 1) * tile - 2 * agent
        for edge in (
            image[top : top + 2, left:right],
            image[bottom - 2 : bottom, left:right],
            image[top + 2 : bottom - 2, left : left + 2],
            image[top + 2 : bottom - 2, right - 2 : right],
        ):
            _tint(edge, colours.agent_colour(agent), SIGHT_SHARE)


def _tint(part: UInt8[np.ndarray, "height width 3"], colour: tuple[int, int, int], share: float) -> None:
    """Mix a colour into a part of a picture, in place."""
    part[...] = np.rint((1 - share) * part + share * np.array(colour))


@functools.lru_cache(maxsize=64)
def apple_sprite(size: int, level: int) -> Sprite:
    halves = np.maximum(disc(size, (0.36, 0.58), 0.30), disc(size, (0.64, 0.58), 0.30))
    stem = polygon(size, (0.47, 0.12), (0.55, 0.12), (0.53, 0.36), (0.48, 0.36))
    leaf = polygon(size, (0.53, 0.22), (0.66, 0.08), (0.80, 0.12), (0.68, 0.24))
    return sprite(
        size,
        (stem, colours.INK),
        (leaf, LEAF),
        (halves, APPLE),
        (text(size, str(level), 0.50, (0.5, 0.59)), colours.WHITE),
    )
