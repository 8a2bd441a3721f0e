"""Figures of option roll-outs: the agents' paths and the n-distance at the end.

These are the paper's Figures 3 and 10, and the lower rows of Figures 11 and 12.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

import cooptions.plots.style  # noqa: F401  (sets the look of every figure)
from cooptions.envs.base import AbstractEnv
from cooptions.envs.team import Team
from cooptions.errors import require
from cooptions.plots import colours, floor
from cooptions.plots.frames import striped
from cooptions.plots.maps import mark_teammates, show_map, teammates_label
from cooptions.plots.panels import Panel, bar_scale, check_panel, draw_panel, rgb

WIDTH = 1.9
"""Inches of a panel's longer side."""

LEGEND_ENTRY = 0.95
"""The width of a legend entry in inches."""


def plot_rollouts(
    env: AbstractEnv,
    panels: Sequence[Sequence[Panel]],
    column_titles: Sequence[str],
    *,
    row_titles: Sequence[str] = (),
) -> Figure:
    """Plot roll-outs with start states as rows and options as columns. All bars share one scale."""
    widths = {len(row) for row in panels}
    require(widths == {len(column_titles)}, f"panels: rows of {sorted(widths)} for {len(column_titles)} column_titles")
    require(len(row_titles) in (0, len(panels)), f"row_titles: {len(row_titles)} for {len(panels)} rows of panels")
    for panel in (panel for row in panels for panel in row):
        check_panel(env, panel)
    width, height = _inches(env)
    canvas = Figure(
        figsize=((width + 0.5) * len(column_titles) + 0.2, (height + 0.15) * len(panels) + 0.6), layout="constrained"
    )
    axes = canvas.subplots(len(panels), len(column_titles), squeeze=False)
    scale = bar_scale([panel for row in panels for panel in row])
    for axes_row, row in zip(axes, panels, strict=True):
        for ax, panel in zip(axes_row, row, strict=True):
            draw_panel(ax, env, panel, scale=scale)
    for ax, title in zip(axes[0], column_titles, strict=True):
        ax.set_title(title, fontsize=9)
    for ax, title in zip(axes[:, 0], row_titles, strict=False):
        ax.set_ylabel(title, fontsize=8)
    _legend(canvas, env, any(panel.fermat is not None for row in panels for panel in row))
    return canvas


def plot_card(
    env: AbstractEnv,
    values: Float[np.ndarray, "first second"],
    panel: Panel,
    *,
    others: Float[np.ndarray, "mate feature"] | None = None,
    titles: tuple[str, str] = ("eigenfunction", "roll-out"),
) -> Figure:
    """Plot one option: a map of its eigenfunction as one agent moves, and a roll-out.

    `values` is a map over the first two features, as returned by `plots.maps.sweep`. `others` are the fixed teammates
    of that map.
    """
    check_panel(env, panel)
    width, height = _inches(env)
    canvas = Figure(figsize=(2 * width + 1.3, height + 0.9), layout="constrained")
    left, right = canvas.subplots(1, 2)
    held = np.zeros((0, len(env.features))) if others is None else np.asarray(others)
    image = draw_map(left, env, values, held)
    bar = canvas.colorbar(image, cax=left.inset_axes((1.04, 0.0, 0.05, 1.0)))
    bar.ax.tick_params(labelsize=6, length=2)
    draw_panel(right, env, panel, scale=bar_scale([panel]))
    for ax, title in zip((left, right), titles, strict=True):
        ax.set_title(title, fontsize=9)
    _legend(canvas, env, panel.fermat is not None, held=len(held) > 0)
    return canvas


def draw_map(
    ax: Axes, env: AbstractEnv, values: Float[np.ndarray, "first second"], others: Float[np.ndarray, "mate feature"]
) -> Any:
    """Draw a map centred on 0, oriented like the floor, with grey walls and black dots for teammates 2, 3, ..."""
    shape = tuple(
        feature.size if feature.discrete else n for feature, n in zip(env.features, values.shape, strict=False)
    )
    require(
        values.shape[: len(shape)] == shape,
        f"values: shape {values.shape}; give one value for each of the first two features, {shape}, as `sweep` does",
    )
    ground = floor(env)
    if ground is None:
        image = show_map(ax, Team.of(env), values, others, numbers=range(2, len(others) + 2))
        names = [feature.name for feature in env.features[:2]]
        ax.set_ylabel(names[0], fontsize=7)
        ax.set_xlabel(names[1] if len(names) > 1 else "", fontsize=7)
        return image
    upright = values if ground.row < ground.column else values.T
    rows, columns = ground.walls.shape
    if upright.shape == ground.walls.shape:
        upright = np.where(ground.walls, np.nan, upright)
    limit = float(np.nanmax(np.abs(upright))) or 1.0
    extent = (-0.5, columns - 0.5, rows - 0.5, -0.5)
    ax.set_facecolor(rgb(colours.WALL))
    image = ax.imshow(upright, cmap="RdBu_r", vmin=-limit, vmax=limit, extent=extent, aspect="equal")
    mark_teammates(ax, ground.places(env.features, others), range(2, len(others) + 2))
    ax.set(xticks=[], yticks=[])
    return image


def _inches(env: AbstractEnv) -> tuple[float, float]:
    ground = floor(env)
    if ground is None:
        return WIDTH, WIDTH
    rows, columns = ground.walls.shape
    longer = max(rows, columns)
    return WIDTH * columns / longer, WIDTH * rows / longer


def _legend(canvas: Figure, env: AbstractEnv, fermat: bool, held: bool = False) -> None:
    """Add a legend of the agents' colours and the circles; `held` adds the dots for teammates on a map."""
    ink, grey = rgb(colours.INK), "0.55"
    num_named = min(env.num_agents, len(colours.AGENTS))
    agents = [(f"agent {i + 1}", rgb(colours.agent_colour(i)), rgb(colours.agent_colour(i))) for i in range(num_named)]
    looks = [
        *agents,
        ("start", "white", grey),
        ("final state", grey, ink),
        *([("Fermat state", "white", ink)] if fermat else []),
    ]
    handles = [
        Line2D([], [], marker="o", linestyle="", markerfacecolor=face, markeredgecolor=edge, markersize=5, label=label)
        for label, face, edge in looks
    ]
    if striped(env).any():
        handles.append(Line2D([], [], marker="$///$", linestyle="", color=grey, markersize=7, label="type 1"))
    if held:
        handles.append(teammates_label(env.num_agents, 0))
    in_a_row = max(int(canvas.get_figwidth() / LEGEND_ENTRY), 2)
    rows = -(-len(handles) // in_a_row)
    canvas.legend(
        handles=handles, loc="outside lower center", ncols=-(-len(handles) // rows), fontsize=7, frameon=False
    )
