"""The surroundings of a team (kitchens as pictures, apples as a list), and the names of features' values."""

import base64
import functools
import io
from typing import Any

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from cooptions.envs.base import AbstractEnv
from cooptions.envs.grid import Grid
from cooptions.envs.lbf import Foraging
from cooptions.envs.lbf import State as ForagingState
from cooptions.envs.overcooked import HELD, Kitchen, Overcooked
from cooptions.envs.subteam import SubteamEnv, SubteamState
from cooptions.plots.looks.overcooked import kitchens_without_cooks

Names = dict[str, tuple[str, ...]]


@functools.singledispatch
def scenery(env: AbstractEnv, states: Any) -> dict[str, Any]:
    """The surroundings in the states of one roll-out, whose leading axis is time; nothing by default."""
    return {}


@functools.singledispatch
def value_names(env: AbstractEnv) -> Names:
    """The names of the values of categorical features."""
    return {}


@functools.singledispatch
def shares_cells(env: AbstractEnv) -> bool:
    """Whether agents can share a cell."""
    return True


@shares_cells.register(Grid)
def grid_shares_cells(env: Grid) -> bool:
    return not env.collisions


@scenery.register(Foraging)
def foraging_scenery(env: Foraging, states: ForagingState) -> dict[str, Any]:
    """For each step, the uneaten apples with their levels. Also the agents' levels."""
    places, levels = np.asarray(states.apple_position).tolist(), np.asarray(states.apple_level).tolist()
    apples = [
        [
            {"row": row, "column": column, "level": level}
            for (row, column), level, eaten in zip(*step, strict=True)
            if not eaten
        ]
        for step in zip(places, levels, np.asarray(states.eaten).tolist(), strict=True)
    ]
    return {"apples": apples, "levels": np.asarray(states.level)[0].tolist()}


@shares_cells.register(Foraging)
def foraging_shares_cells(env: Foraging) -> bool:
    return False


@scenery.register(Overcooked)
def kitchen_scenery(env: Overcooked, states: Kitchen) -> dict[str, Any]:
    """A picture of the kitchen without its cooks for each step. Equal pictures are stored once."""
    images = kitchens_without_cooks(env, states)
    kept, index = np.unique(images.reshape(len(images), -1), axis=0, return_inverse=True)
    return {"pictures": [picture(each.reshape(images.shape[1:])) for each in kept], "picture": index.ravel().tolist()}


@value_names.register(Overcooked)
def kitchen_value_names(env: Overcooked) -> Names:
    return {"orientation": ("up", "down", "right", "left"), "inventory": HELD}


@shares_cells.register(Overcooked)
def kitchen_shares_cells(env: Overcooked) -> bool:
    return False


@shares_cells.register(SubteamEnv)
def subteam_shares_cells(env: SubteamEnv) -> bool:
    return shares_cells(env.env)


@value_names.register(SubteamEnv)
def subteam_value_names(env: SubteamEnv) -> Names:
    return value_names(env.env)


@scenery.register(SubteamEnv)
def subteam_scenery(env: SubteamEnv, states: SubteamState) -> dict[str, Any]:
    """The surroundings of the members, without the other agents. Values per agent are those of the members."""
    told, members = scenery(env.env, states.inner), np.asarray(states.members)[0]
    return {name: [value[i] for i in members] if name == "levels" else value for name, value in told.items()}


def picture(image: UInt8[np.ndarray, "height width 3"]) -> str:
    """An image as a PNG in a `data:` URL."""
    content = io.BytesIO()
    Image.fromarray(image).save(content, "PNG")
    return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"
