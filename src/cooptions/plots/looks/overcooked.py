"""The look of Overcooked: counters, pots and cooks with the objects they hold."""

import functools
from collections.abc import Callable

import numpy as np
from jaxtyping import Int, UInt8

from cooptions.envs.overcooked import OBJECT_TO_INDEX, Kitchen, Overcooked
from cooptions.plots import colours
from cooptions.plots.frames import Floor, check_time, floor, frames, tile_size
from cooptions.plots.sprites import Colour, Shape, Sprite, box, disc, mosaic, opaque, paste, polygon, sprite

COUNTER, COUNTER_EDGE = (205, 180, 146), (176, 150, 116)
GROUND, JOINT = (246, 243, 238), (226, 221, 213)
ONION, ONION_EDGE = (236, 190, 76), (168, 120, 30)
PLATE, PLATE_EDGE = (255, 255, 255), (140, 146, 156)
SOUP, POT, POT_INSIDE = (214, 108, 38), (58, 62, 72), (120, 126, 138)
GOAL, GOAL_MARK = (112, 128, 144), (246, 246, 246)

EMPTY_POT, FULL_POT = 23, 20
"""JaxMARL counts a pot's status down: 23 is empty, at 20 it holds three onions and cooks, at 0 the soup is ready."""

NUM_STATUSES = 32
Layers = list[tuple[Shape, Colour]]


@frames.register(Overcooked)
def kitchen_frames(env: Overcooked, states: Kitchen) -> UInt8[np.ndarray, "time height width 3"]:
    inner = states.inner
    places, facing = np.asarray(inner.agent_pos).astype(int), np.asarray(inner.agent_dir).astype(int)
    check_time(env, places.shape, (env.num_agents, 2))
    held = np.asarray(inner.agent_inv).astype(int)
    tile, images = tile_size(env.jaxmarl.height, env.jaxmarl.width), kitchens_without_cooks(env, states)
    for time, image in enumerate(images):
        for agent, (x, y) in enumerate(places[time]):
            dx, dy = facing[time, agent]
            picture = cook_sprite(agent, tile, (int(dx), int(dy)), int(held[time, agent]))
            paste(image, picture, (np.array([y, x]) + 0.5) * tile)
    return images


def kitchens_without_cooks(env: Overcooked, states: Kitchen) -> UInt8[np.ndarray, "time height width 3"]:
    """Pictures of the kitchen with the objects on the counters and in the pots, without the cooks."""
    height, width = env.jaxmarl.height, env.jaxmarl.width
    maze = np.asarray(states.inner.maze_map).astype(int)
    return _paved(_inside(maze, height, width), tile_size(height, width))


@floor.register(Overcooked)
def kitchen_floor(env: Overcooked) -> Floor | None:
    """The kitchen at the start of an episode; None if the agents' states lack x or y."""
    names = [feature.name for feature in env.features]
    if not {"x", "y"} <= set(names):
        return None
    plan = env.jaxmarl.layout
    objects = np.full((env.jaxmarl.height, env.jaxmarl.width), OBJECT_TO_INDEX["empty"])
    for name in ("wall", "goal", "onion_pile", "plate_pile", "pot"):
        objects.flat[np.asarray(plan[f"{name}_idx"])] = OBJECT_TO_INDEX[name]
    status = np.where(objects == OBJECT_TO_INDEX["pot"], EMPTY_POT, 0)
    picture = _paved(objects * NUM_STATUSES + status, tile_size(*objects.shape))
    walls = objects != OBJECT_TO_INDEX["empty"]
    return Floor(row=names.index("y"), column=names.index("x"), walls=walls, picture=picture)


@functools.lru_cache(maxsize=512)
def cook_sprite(agent: int, size: int, facing: tuple[int, int], held: int) -> Sprite:
    """The sprite of a cook whose nose and held object point in its viewing direction."""
    layers = [
        (_drop(size, 0.37, 0.49, *facing), colours.INK),
        (_drop(size, 0.32, 0.42, *facing), colours.agent_colour(agent)),
    ]
    item = HELD.get(held)
    return sprite(size, *layers, *(item(size, _turned((0.12, 0.0), *facing), 0.24) if item else []))


def _drop(size: int, radius: float, tip: float, dx: int, dy: int) -> Shape:
    """A drop: a disc at the centre with the tangents to it from a tip in the direction (dx, dy)."""
    along, aside = radius**2 / tip, radius * np.sqrt(1 - (radius / tip) ** 2)
    points = (_turned(point, dx, dy) for point in ((tip, 0.0), (along, aside), (along, -aside)))
    return np.maximum(disc(size, radius=radius), polygon(size, *points))


def _turned(point: tuple[float, float], dx: int, dy: int) -> tuple[float, float]:
    """The coordinates in a cell of a point given as (ahead, to the right) of its centre when facing (dx, dy)."""
    ahead, aside = point
    return 0.5 + ahead * dx - aside * dy, 0.5 + ahead * dy + aside * dx


def _inside(
    maze: Int[np.ndarray, "time padded_height padded_width 3"], height: int, width: int
) -> Int[np.ndarray, "time height width"]:
    """Object and status of each cell as one number, without the padding of walls that JaxMARL adds for its views."""
    top, left = (maze.shape[1] - height) // 2, (maze.shape[2] - width) // 2
    cells = maze[:, top : top + height, left : left + width]
    status = np.where(cells[..., 0] == OBJECT_TO_INDEX["pot"], cells[..., 2], 0)
    return cells[..., 0] * NUM_STATUSES + status


def _paved(cells: Int[np.ndarray, "*time height width"], tile: int) -> UInt8[np.ndarray, "*time pixels pixels_ 3"]:
    kinds, index = np.unique(cells, return_inverse=True)
    tiles = np.stack([kitchen_tile(int(kind) // NUM_STATUSES, int(kind) % NUM_STATUSES, tile) for kind in kinds])
    return mosaic(tiles, index.reshape(cells.shape))


@functools.lru_cache(maxsize=512)
def kitchen_tile(kind: int, status: int, size: int) -> UInt8[np.ndarray, "size size 3"]:
    """The tile of a kitchen cell: the floor, or a counter with the object on it."""
    if kind in FREE:
        edge = 1 / size
        return opaque(sprite(size, (box(size, 0.0, 0.0, 1 - edge, 1 - edge), GROUND)), JOINT)
    top = [(box(size, 0.02, 0.02, 0.98, 0.98, 0.06), COUNTER_EDGE), (box(size, 0.02, 0.02, 0.98, 0.90, 0.06), COUNTER)]
    item = ON_COUNTER.get(kind)
    if kind == OBJECT_TO_INDEX["pot"]:
        return opaque(sprite(size, *top, *pot(size, status)), JOINT)
    return opaque(sprite(size, *top, *(item(size, (0.5, 0.47), 0.30) if item else [])), JOINT)


def onion(size: int, centre: tuple[float, float], radius: float) -> Layers:
    x, y = centre
    tip = polygon(
        size, (x, y - 1.35 * radius), (x + 0.5 * radius, y - 0.6 * radius), (x - 0.5 * radius, y - 0.6 * radius)
    )
    return [
        (tip, ONION_EDGE),
        (disc(size, centre, radius), ONION_EDGE),
        (disc(size, centre, 0.8 * radius), ONION),
        (disc(size, (x - 0.25 * radius, y - 0.25 * radius), 0.22 * radius), colours.WHITE),
    ]


def plate(size: int, centre: tuple[float, float], radius: float) -> Layers:
    rings = ((1.0, PLATE_EDGE), (0.86, PLATE), (0.58, PLATE_EDGE), (0.48, PLATE))
    return [(disc(size, centre, share * radius), colour) for share, colour in rings]


def dish(size: int, centre: tuple[float, float], radius: float) -> Layers:
    return [*plate(size, centre, radius), (disc(size, centre, 0.66 * radius), SOUP)]


def onion_pile(size: int, centre: tuple[float, float], radius: float) -> Layers:
    x, y = centre
    places = ((x - 0.19, y + 0.15), (x + 0.19, y + 0.15), (x, y - 0.13))
    return [layer for place in places for layer in onion(size, place, 0.6 * radius)]


def plate_pile(size: int, centre: tuple[float, float], radius: float) -> Layers:
    x, y = centre
    places = ((x - 0.10, y + 0.10), (x, y), (x + 0.10, y - 0.10))
    return [layer for place in places for layer in plate(size, place, 0.85 * radius)]


def goal(size: int, centre: tuple[float, float], radius: float) -> Layers:
    """The delivery hatch, with an arrow."""
    x, y = centre
    arrow = [
        box(size, x - 0.07, y - 0.02, x + 0.07, y + 0.24),
        polygon(size, (x, y - 0.27), (x + 0.22, y + 0.01), (x - 0.22, y + 0.01)),
    ]
    return [(box(size, 0.08, 0.08, 0.92, 0.86, 0.08), GOAL), *((part, GOAL_MARK) for part in arrow)]


def pot(size: int, status: int) -> Layers:
    """A pot with up to three onions, a progress bar while it cooks, or a soup when it is ready."""
    handles = box(size, 0.06, 0.40, 0.94, 0.54, 0.06)
    layers = [(handles, POT), (disc(size, (0.5, 0.47), 0.38), POT), (disc(size, (0.5, 0.47), 0.31), POT_INSIDE)]
    if status == 0:
        return [*layers, (disc(size, (0.5, 0.47), 0.29), SOUP), *steam(size)]
    places = ((0.39, 0.40), (0.61, 0.40), (0.50, 0.59))[: min(EMPTY_POT - status, 3)]
    for place in places:
        layers += [(disc(size, place, 0.115), ONION_EDGE), (disc(size, place, 0.09), ONION)]
    if status < FULL_POT:
        done = 0.12 + 0.76 * (1 - status / FULL_POT)
        layers += [(box(size, 0.10, 0.84, 0.90, 0.96), colours.WHITE), (box(size, 0.12, 0.86, done, 0.94), SOUP)]
    return layers


def steam(size: int) -> Layers:
    return [(disc(size, place, radius), colours.WHITE) for place, radius in STEAM]


STEAM = (((0.40, 0.50), 0.05), ((0.55, 0.38), 0.07), ((0.63, 0.55), 0.045))
FREE = {OBJECT_TO_INDEX[name] for name in ("unseen", "empty", "agent")}
Drawing = Callable[[int, tuple[float, float], float], Layers]
HELD: dict[int, Drawing] = {
    OBJECT_TO_INDEX[name]: draw for name, draw in {"onion": onion, "plate": plate, "dish": dish}.items()
}
ON_COUNTER: dict[int, Drawing] = HELD | {
    OBJECT_TO_INDEX[name]: draw
    for name, draw in {"onion_pile": onion_pile, "plate_pile": plate_pile, "goal": goal}.items()
}
