"""Maps of a function of the joint state, as one agent moves over its first two coordinates."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped
from matplotlib.axes import Axes

from cooptions.envs.team import Team

Function = Callable[[Shaped[Array, "agent feature"]], Float[Array, " value"]]


CONTINUOUS_POINTS = 31


def sweep(
    team: Team, function: Function, others: np.ndarray, *, agent: int = 0, at: np.ndarray | None = None
) -> np.ndarray:
    """Float[value, height, width]: `function` with one agent at each value of its first two features.

    The others stay where they are. `at` gives the moving agent's further features; they are 0 when left out.
    """
    rows, columns = _axes(team)
    rest = np.zeros(max(len(team.features) - 2, 0)) if at is None else at
    cells = np.stack(np.meshgrid(rows, columns, indexing="ij"), axis=-1).reshape(-1, 2)[:, : len(team.features)]
    moving = np.concatenate([cells, np.broadcast_to(rest, (len(cells), len(rest)))], axis=1)
    moving = moving * team.has_feature[agent]
    fixed = np.broadcast_to(others, (len(cells), *others.shape))
    joint = np.insert(fixed.astype(np.float32), agent, moving, axis=1)
    values = jax.jit(jax.vmap(function))(jnp.asarray(joint))
    return np.asarray(values).T.reshape(-1, len(rows), len(columns))


def show_map(
    ax: Axes, team: Team, values: np.ndarray, others: np.ndarray, *, limit: float | None = None, **style: Any
) -> Any:
    """Draw a map centred on 0, with the teammates marked."""
    limit = float(np.nanmax(np.abs(values))) if limit is None else limit
    aspect = "equal" if min(values.shape) > 1 else "auto"
    image = ax.imshow(values, **{"cmap": "RdBu_r", "vmin": -limit, "vmax": limit, "aspect": aspect, **style})
    rows, columns = _axes(team)
    for place in others:
        row = np.interp(place[0], rows, np.arange(len(rows)))
        column = np.interp(place[1], columns, np.arange(len(columns))) if len(team.features) > 1 else 0.0
        ax.plot(column, row, "o", color="black", markeredgecolor="white", markersize=5, markeredgewidth=0.8)
    ax.set(xticks=[], yticks=[])
    return image


def _axes(team: Team) -> tuple[np.ndarray, np.ndarray]:
    """The values of the first two features; a single 0 for the second where there is none."""
    values = [
        np.arange(feature.size, dtype=float)
        if feature.discrete
        else np.linspace(feature.low, feature.high, CONTINUOUS_POINTS)
        for feature in team.features[:2]
    ]
    return values[0], values[1] if len(values) > 1 else np.zeros(1)
