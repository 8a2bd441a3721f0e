"""Pictures of states. An environment may register its own look; otherwise its agents' features are drawn."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, Float, Integer, UInt8

from cooptions.envs.base import AbstractEnv
from cooptions.errors import require
from cooptions.plots import colours
from cooptions.plots.looks import load_look
from cooptions.plots.sprites import Sprite, box, disc, mosaic, opaque, paste, polygon, sprite, stripes, text
from cooptions.types import Feature

SIDE = 384
"""The approximate number of pixels of a picture's longer side."""

CONTINUOUS_CELLS = 15
"""The number of cells over which a continuous feature is drawn."""


@functools.singledispatch
def frames(env: AbstractEnv, states: Any) -> UInt8[np.ndarray, "time height width 3"]:
    """One picture for each of `states`, whose leading axis is time.

    An environment registers its own look with `frames.register`. The default look draws a dot for each agent at its
    first two features, on the same axes as the maps of eigenfunctions (the first feature runs downwards), or a bar for
    each agent if there is only one feature.
    """
    return frames(env, states) if _gains_look(frames, type(env)) else plain_frames(env, states)


def plain_frames(
    env: AbstractEnv,
    states: Any,
    landmarks: Float[np.ndarray, "time landmark first_feature"] | None = None,
    axes: tuple[int, int] = (0, 1),
) -> UInt8[np.ndarray, "time height width 3"]:
    """Pictures of agents as dots on top of `landmarks` as diamonds, or as bars if there is one feature.

    `axes` gives the features that run downwards and to the right.
    """
    agent_states = states_of(env, states)
    if len(env.features) == 1:
        return _bars(unit(env.features[0], agent_states[..., 0]))
    marked = np.zeros((len(agent_states), 0, len(env.features))) if landmarks is None else landmarks
    return _dots(env, _places(env, agent_states, axes), _places(env, marked, axes), axes)


def states_of(env: AbstractEnv, states: Any) -> Float[np.ndarray, "time agent feature"]:
    """The agents' states in the environment states of one roll-out."""
    lengths = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(states)}
    require(len(lengths) == 1 and () not in lengths, "states: give those of one roll-out, stacked along a leading axis")
    return np.asarray(_agent_states(env, states))


@eqx.filter_jit
def _agent_states(env: AbstractEnv, states: Any) -> Any:
    return jax.vmap(env.agent_states)(states)


def _places(
    env: AbstractEnv, states: Float[np.ndarray, "time thing feature"], axes: tuple[int, int]
) -> Float[np.ndarray, "time thing 2"]:
    """Positions from 0 to 1 along two features. NaN stays NaN."""
    return np.stack([unit(env.features[axis], states[..., axis]) for axis in axes], axis=-1)


@dataclass(frozen=True, eq=False)
class Floor:
    """The floor seen from above, and the indices of the features that are the row and the column."""

    row: int
    column: int
    walls: Bool[np.ndarray, "rows columns"]
    picture: UInt8[np.ndarray, "height width 3"] | None = None
    """A picture of the whole floor; None for a plain floor with walls."""

    def places(self, features: tuple[Feature, ...], states: Float[np.ndarray, "*batch feature"]) -> np.ndarray:
        """Float[*batch, 2]: row and column of single-agent states. The centre of the first cell is (0, 0)."""
        axes = [unit(features[axis], states[..., axis]) for axis in (self.row, self.column)]
        return np.stack(axes, axis=-1) * self.walls.shape - 0.5


@functools.singledispatch
def floor(env: AbstractEnv) -> Floor | None:
    """The floor of an environment; None if its agents' states have no position in a plane."""
    if _gains_look(floor, type(env)):
        return floor(env)
    if len(env.features) < 2 or any(feature.kind == "categorical" for feature in env.features[:2]):
        return None
    return Floor(row=0, column=1, walls=np.zeros([num_cells(feature) for feature in env.features[:2]], bool))


def _gains_look(drawing: Any, kind: type) -> bool:
    """Import an environment's own look. Returns whether that registers an implementation for `drawing`."""
    before = drawing.dispatch(kind)
    return load_look(kind) and drawing.dispatch(kind) is not before


def num_cells(feature: Feature) -> int:
    """The number of cells along a feature's axis."""
    return feature.size if feature.discrete else CONTINUOUS_CELLS


def limits(feature: Feature) -> tuple[float, float]:
    """The ends of a feature's axis. A discrete value is a cell of width 1."""
    return (-0.5, feature.size - 0.5) if feature.discrete else (feature.low, feature.high)


def unit(feature: Feature, values: Float[np.ndarray, "*batch"]) -> Float[np.ndarray, "*batch"]:
    """Values scaled to [0, 1] along a feature's axis and clipped."""
    low, high = limits(feature)
    return np.clip((values - low) / (high - low), 0.0, 1.0)


def ring(num: int) -> Float[np.ndarray, "num 2"]:
    """Points on a circle of radius 1, rotated so that no two share a row or column. A single point is the centre."""
    if num == 1:
        return np.zeros((1, 2))
    turn = 0.125 if num % 2 else 0.2
    angle = 2 * np.pi * (np.arange(num) + turn) / num
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1)


def striped(env: AbstractEnv) -> Bool[np.ndarray, " agent"]:
    """For each agent, whether it is drawn with stripes because it lacks a feature (the paper's type 1)."""
    return ~np.asarray(env.agent_features).all(axis=1)


def tile_size(height: int, width: int) -> int:
    """The side of a cell in pixels. It is even, so that the cell has a centre."""
    return int(np.clip(SIDE // max(height, width), 12, 64)) // 2 * 2


@functools.lru_cache(maxsize=512)
def agent_sprite(agent: int, size: int, *, label: str = "", stripe: bool = False) -> Sprite:
    """The sprite of an agent: a disc in its colour."""
    colour = colours.agent_colour(agent)
    inner = disc(size, radius=0.40)
    layers = [(disc(size, radius=0.46), colours.INK), (inner, colour)]
    if stripe:
        layers.append((inner * stripes(size), colours.WHITE))
    if label:
        layers.append((text(size, label, 0.56), colours.ink_on(colour)))
    return sprite(size, *layers)


def draw_team(
    image: UInt8[np.ndarray, "height width 3"],
    cells: Integer[np.ndarray, "agent 2"],
    tile: int,
    look: Callable[[int, int], Sprite],
) -> None:
    """Draw agent i as `look(i, size)` into its cell. Agents that share a cell are drawn smaller, side by side."""
    _, group = np.unique(cells, axis=0, return_inverse=True)
    group = group.reshape(-1)
    for members in (np.flatnonzero(group == index) for index in range(group.max() + 1)):
        size = tile if len(members) == 1 else round(tile * max(0.42, 0.80 - 0.05 * len(members))) // 2 * 2
        for agent, offset in zip(members, ring(len(members)) * (tile - size) / 2, strict=True):
            paste(image, look(int(agent), size), (cells[agent] + 0.5) * tile + offset)


def floor_tiles(size: int) -> UInt8[np.ndarray, "2 size size 3"]:
    """The tiles of a free cell and of a wall."""
    inside = box(size, 0.5 / size, 0.5 / size, 1 + 1 / size, 1 + 1 / size)
    free = opaque(sprite(size, (inside, colours.FLOOR)), colours.LINE)
    return np.stack([free, np.broadcast_to(np.array(colours.WALL, np.uint8), (size, size, 3))])


def framed(images: UInt8[np.ndarray, "time height width 3"]) -> UInt8[np.ndarray, "time height_ width_ 3"]:
    """The pictures with a thin border in the colour of walls."""
    padded = np.pad(images, ((0, 0), (2, 2), (2, 2), (0, 0)))
    border = np.pad(np.zeros(images.shape[1:3], bool), 2, constant_values=True)
    padded[:, border] = colours.WALL
    return padded


@functools.lru_cache(maxsize=8)
def landmark_sprite(size: int) -> Sprite:
    """The sprite of a landmark: a grey diamond."""
    shapes = [polygon(size, (0.5, 0.5 - r), (0.5 + r, 0.5), (0.5, 0.5 + r), (0.5 - r, 0.5)) for r in (0.50, 0.36)]
    return sprite(size, (shapes[0], colours.INK), (shapes[1], colours.LANDMARK))


def _dots(
    env: AbstractEnv,
    places: Float[np.ndarray, "time agent 2"],
    landmarks: Float[np.ndarray, "time landmark 2"],
    axes: tuple[int, int],
) -> UInt8[np.ndarray, "time height width 3"]:
    height, width = _plane(tuple(env.features[axis] for axis in axes))
    size = int(np.clip(min(height, width) // 8, 10, 28)) // 2 * 2
    images = np.tile(np.array(colours.FLOOR, np.uint8), (len(places), height + size, width + size, 1))
    stripe = striped(env)
    for image, row, below in zip(images, places, landmarks, strict=True):
        for centre in seen(below) * [height, width] + size / 2:
            paste(image, landmark_sprite(size), centre)
        for agent, centre in enumerate(row * [height, width] + size / 2):
            paste(image, agent_sprite(agent, size, stripe=bool(stripe[agent])), centre)
    return framed(images)


def seen(landmarks: Float[np.ndarray, "landmark axis"]) -> Float[np.ndarray, "seen axis"]:
    """The landmarks without NaN; NaN marks a hidden one."""
    return landmarks[np.isfinite(landmarks).all(axis=1)]


def _plane(features: tuple[Feature, ...]) -> tuple[int, int]:
    """Height and width in pixels of a picture with the proportions of two features, at most 1 to 4."""
    spans = np.array([high - low for low, high in map(limits, features)])
    alike = len({feature.kind for feature in features}) == 1
    height, width = np.rint(SIDE * np.clip(spans / spans.max(), 0.25, 1.0)).astype(int) if alike else (SIDE, SIDE)
    return int(height), int(width)


def _bars(values: Float[np.ndarray, "time agent"]) -> UInt8[np.ndarray, "time height width 3"]:
    time, num_agents = values.shape
    height, bar = SIDE // 2, max(SIDE // (2 * num_agents), 4)
    images = np.tile(np.array(colours.FLOOR, np.uint8), (time, height, 2 * bar * num_agents, 1))
    filled = np.arange(height)[::-1] < np.maximum(np.rint(values * height), 2)[..., None]  # [time, agent, height]
    for agent in range(num_agents):
        left = 2 * bar * agent + bar // 2
        images[:, :, left : left + bar][filled[:, agent]] = colours.agent_colour(agent)
    return framed(images)


def walled(walls: Bool[np.ndarray, "row column"], tile: int) -> UInt8[np.ndarray, "height width 3"]:
    """The picture of an empty floor."""
    return mosaic(floor_tiles(tile), walls.astype(int))


def check_time(env: AbstractEnv, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """Raise `ConfigError` for states without a leading time axis or from another environment."""
    require(
        shape[1:] == expected and len(shape) == len(expected) + 1,
        f"states: {type(env).__name__} is drawn from places of shape [time, {', '.join(map(str, expected))}], "
        f"not {list(shape)}; give those of one roll-out, stacked along a leading axis",
    )
