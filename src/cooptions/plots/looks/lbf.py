"""Level-Based Foraging: agents and apples with their levels; apples that were eaten are gone."""

import functools

import numpy as np
from jaxtyping import UInt8
from jumanji.environments.routing.lbf.types import State

from cooptions.envs.lbf import Foraging
from cooptions.plots import colours
from cooptions.plots.frames import agent_sprite, check_time, draw_team, framed, frames, tile_size, walled
from cooptions.plots.sprites import Sprite, disc, paste, polygon, sprite, text

APPLE = (158, 28, 52)
LEAF = (96, 140, 40)


@frames.register(Foraging)
def foraging_frames(env: Foraging, states: State) -> UInt8[np.ndarray, "time height width 3"]:
    positions, levels = np.asarray(states.agents.position), np.asarray(states.agents.level)
    check_time(env, positions.shape, (env.num_agents, 2))
    apples, eaten = np.asarray(states.food_items.position), np.asarray(states.food_items.eaten)
    apple_levels = np.asarray(states.food_items.level)
    tile = tile_size(env.grid_size, env.grid_size)
    empty = walled(np.zeros((env.grid_size, env.grid_size), bool), tile)
    images = np.repeat(empty[None], len(positions), axis=0)
    for time, image in enumerate(images):
        for apple in np.flatnonzero(~eaten[time]):
            paste(image, apple_sprite(tile, int(apple_levels[time, apple])), (apples[time, apple] + 0.5) * tile)
        labels = [str(level) for level in levels[time]]
        draw_team(
            image, positions[time], tile, lambda agent, size, of=labels: agent_sprite(agent, size, label=of[agent])
        )
    return framed(images)


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
