"""Maps of a function of the joint state, as one agent moves over its first two coordinates."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped
from matplotlib.axes import Axes
from matplotlib.patches import Circle

from cooptions.errors import require
from cooptions.representations.base import Team

Function = Callable[[Shaped[Array, "agent feature"]], Float[Array, " value"]]


def sweep(
    team: Team, function: Function, others: np.ndarray, *, agent: int = 0, at: np.ndarray | None = None
) -> np.ndarray:
    """Float[value, height, width]: `function` with one agent at each (x, y), the others where they are.

    `at` gives the moving agent's further features; they are 0 when left out.
    """
    require(
        len(team.features) >= 2 and all(feature.discrete for feature in team.features[:2]),
        "this figure needs an environment whose first two features are discrete coordinates",
    )
    height, width = (feature.size for feature in team.features[:2])
    rest = np.zeros(len(team.features) - 2) if at is None else at
    cells = np.stack(np.meshgrid(np.arange(height), np.arange(width), indexing="ij"), axis=-1).reshape(-1, 2)
    moving = np.concatenate([cells, np.broadcast_to(rest, (len(cells), len(rest)))], axis=1)
    moving = moving * team.has_feature[agent]
    fixed = np.broadcast_to(others, (len(cells), *others.shape))
    joint = np.insert(fixed, agent, moving, axis=1)
    values = jax.jit(jax.vmap(function))(jnp.asarray(joint, jnp.float32))
    return np.asarray(values).T.reshape(-1, height, width)


def show_map(ax: Axes, values: np.ndarray, others: np.ndarray, *, limit: float | None = None, **style: Any) -> Any:
    """Draw a map centred on 0, with the teammates marked."""
    limit = float(np.nanmax(np.abs(values))) if limit is None else limit
    image = ax.imshow(values, **{"cmap": "RdBu_r", "vmin": -limit, "vmax": limit, **style})
    for row, column in others[:, :2]:
        ax.add_patch(Circle((column, row), 0.36, facecolor="black", edgecolor="white", linewidth=0.8))
    ax.set(xticks=[], yticks=[])
    return image
