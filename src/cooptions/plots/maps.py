"""Maps of a function of the joint state over the first two features of one agent."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

import cooptions.plots.style  # noqa: F401  (sets the look of every figure)
from cooptions.envs.team import Team

Function = Callable[[Shaped[Array, "agent feature"]], Float[Array, " value"]]


CONTINUOUS_POINTS = 31

MATE: dict[str, Any] = {"marker": "o", "color": "black", "markeredgecolor": "white", "markeredgewidth": 0.8}


def sweep(
    team: Team, function: Function, others: np.ndarray, *, agent: int = 0, at: np.ndarray | None = None
) -> np.ndarray:
    """Float[value, height, width]: `function` with one agent at each value of its first two features.

    The other agents are fixed at `others`. `at` gives the moving agent's remaining features, by default 0.
    """
    rows, columns = _axes(team)
    rest = np.zeros(max(len(team.features) - 2, 0)) if at is None else at
    cells = np.stack(np.meshgrid(rows, columns, indexing="ij"), axis=-1).reshape(-1, 2)[:, : len(team.features)]
    moving = np.concatenate([cells, np.broadcast_to(rest, (len(cells), len(rest)))], axis=1)
    moving = moving * team.has_feature[agent]
    fixed = np.broadcast_to(others, (len(cells), *others.shape))
    joint = np.insert(fixed.astype(np.float32), agent, moving, axis=1)
    values = _values(function, jnp.asarray(joint))
    return np.asarray(values).T.reshape(-1, len(rows), len(columns))


@eqx.filter_jit
def _values(function: Function, joint: Float[Array, "state agent feature"]) -> Float[Array, "state value"]:
    return jax.vmap(function)(joint)


def show_map(
    ax: Axes,
    team: Team,
    values: np.ndarray,
    others: np.ndarray,
    *,
    limit: float | None = None,
    numbers: Sequence[int] = (),
    **style: Any,
) -> Any:
    """Draw a map with a colour scale centred on 0, and mark the teammates, with their `numbers` if given."""
    limit = float(np.nanmax(np.abs(values))) if limit is None else limit
    aspect = "equal" if min(values.shape) > 1 else "auto"
    image = ax.imshow(values, **{"cmap": "RdBu_r", "vmin": -limit, "vmax": limit, "aspect": aspect, **style})
    rows, columns = _axes(team)
    row = np.interp(others[:, 0], rows, np.arange(len(rows)))
    column = np.interp(others[:, 1], columns, np.arange(len(columns))) if len(team.features) > 1 else np.zeros(len(row))
    mark_teammates(ax, np.stack([row, column], axis=-1), numbers)
    ax.set(xticks=[], yticks=[])
    return image


def mark_teammates(ax: Axes, places: Float[np.ndarray, "mate 2"], numbers: Sequence[int] = ()) -> None:
    """Draw a black dot at each (row, column), labelled with the `numbers` of the agents there, if given."""
    standing: dict[tuple[float, float], list[str]] = {}
    for index, (row, column) in enumerate(places.tolist()):
        standing.setdefault((row, column), []).extend(str(number) for number in numbers[index : index + 1])
    for (row, column), names in standing.items():
        ax.plot(column, row, markersize=5 + 2.5 * len(names), **MATE)
        ax.text(column, row, ",".join(names), color="white", fontsize=6, ha="center", va="center_baseline")


def teammates_label(num_agents: int, mover: int) -> Line2D:
    """The legend entry for the dots of `mark_teammates`. Indices count from 0, labels in pictures from 1."""
    mates = [str(agent + 1) for agent in range(num_agents) if agent != mover]
    noun = "teammate" if len(mates) == 1 else "teammates"
    label = f"{noun} {', '.join(mates)}, held while agent {mover + 1} moves"
    return Line2D([], [], linestyle="", markersize=6, label=label, **MATE)


def _axes(team: Team) -> tuple[np.ndarray, np.ndarray]:
    """The values of the first two features along the map's axes; [0] for a missing second one."""
    values = [
        np.arange(feature.size, dtype=float)
        if feature.discrete
        else np.linspace(feature.low, feature.high, CONTINUOUS_POINTS)
        for feature in team.features[:2]
    ]
    return values[0], values[1] if len(values) > 1 else np.zeros(1)
