"""The look of the grid: walls and agents."""

import numpy as np
from jaxtyping import UInt8

from cooptions.envs.grid import Grid, State
from cooptions.plots.frames import (
    Floor,
    agent_sprite,
    check_time,
    draw_team,
    floor,
    framed,
    frames,
    striped,
    tile_size,
    walled,
)


@frames.register(Grid)
def grid_frames(env: Grid, states: State) -> UInt8[np.ndarray, "time height width 3"]:
    positions = np.asarray(states.position)
    check_time(env, positions.shape, (env.num_agents, 2))
    tile = tile_size(env.height, env.width)
    stripe = striped(env)
    images = np.repeat(walled(~env.free, tile)[None], len(positions), axis=0)
    for image, cells in zip(images, positions, strict=True):
        draw_team(image, cells, tile, lambda agent, size: agent_sprite(agent, size, stripe=bool(stripe[agent])))
    return framed(images)


@floor.register(Grid)
def grid_floor(env: Grid) -> Floor:
    return Floor(row=0, column=1, walls=~env.free)
