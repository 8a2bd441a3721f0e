"""One roll-out as a picture: the agents' paths and a bar chart of the n-distance at the final state."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Array, Float
from matplotlib.axes import Axes
from matplotlib.patches import Circle

import cooptions.plots.style  # noqa: F401  (sets the look of every figure)
from cooptions.envs.base import AbstractEnv
from cooptions.errors import require
from cooptions.plots import Floor, colours, floor
from cooptions.plots.frames import limits, ring, striped

APART = 0.26
"""The offset of each agent's path from the centre of the cells, in cells, so that paths do not overlap."""

RADIUS = 0.3
"""The radius of the circles for states, in cells."""

FERMAT_RADIUS = 0.52
"""The radius of the circle for the Fermat state, in cells. It encloses a team that has gathered in one cell."""

FADED = 0.3
"""The alpha of the first step. It rises to 1 at the last step."""


@dataclass(frozen=True, eq=False)
class Panel:
    """One roll-out, and the representation of its final state.

    A feature that an agent lacks is drawn at 0, its padded value.
    """

    agent_states: Float[Array | np.ndarray, "states agent feature"]
    length: int
    """The number of real steps, which is one less than the number of real states; the rest is padding."""
    z: Float[Array | np.ndarray, " z"]
    """The n-distance of each feature at the final state."""
    z_names: tuple[str, ...]
    fermat: Float[Array | np.ndarray, " feature"] | None = None

    @property
    def path(self) -> np.ndarray:
        """Float[states, agent, feature]: the states without padding."""
        return np.asarray(self.agent_states)[: self.length + 1]


def check_panel(env: AbstractEnv, panel: Panel) -> None:
    """Raise `ConfigError` if a panel is from another environment or its shapes are inconsistent."""
    num, *shape = panel.agent_states.shape
    wanted = [env.num_agents, len(env.features)]
    require(shape == wanted, f"Panel.agent_states: [state, agent, feature] must end in {wanted}, not {shape}")
    require(0 <= panel.length < num, f"Panel.length must be 0 to {num - 1}, one less than states, not {panel.length}")
    require(
        len(panel.z_names) == len(panel.z), f"Panel.z_names: {len(panel.z_names)} names for {len(panel.z)} components"
    )
    require(
        panel.fermat is None or panel.fermat.shape == (wanted[1],),
        f"Panel.fermat: give a value for each of the {wanted[1]} features, or None",
    )


def draw_panel(ax: Axes, env: AbstractEnv, panel: Panel, *, scale: tuple[float, float]) -> None:
    """Draw paths on the floor, or every feature over time if there is no floor, with the bars of z beside it."""
    ground = floor(env)
    if ground is None:
        _draw_over_time(ax, env, panel)
    else:
        _draw_floor(ax, env, ground)
        _draw_paths(ax, env, ground, panel)
    _draw_bars(ax, panel, scale)


def _draw_floor(ax: Axes, env: AbstractEnv, ground: Floor) -> None:
    rows, columns = ground.walls.shape
    extent = (-0.5, columns - 0.5, rows - 0.5, -0.5)
    if ground.picture is not None:
        faded = 255 - (255 - ground.picture.astype(float)) * 0.55
        ax.imshow(faded.astype(np.uint8), extent=extent)
    elif all(env.features[axis].discrete for axis in (ground.row, ground.column)):
        ax.vlines(np.arange(1, columns) - 0.5, -0.5, rows - 0.5, color=rgb(colours.LINE), linewidth=0.4, zorder=0)
        ax.hlines(np.arange(1, rows) - 0.5, -0.5, columns - 0.5, color=rgb(colours.LINE), linewidth=0.4, zorder=0)
        walls = np.concatenate([np.full((rows, columns, 3), colours.WALL), ground.walls[..., None] * 255], axis=2)
        ax.imshow(walls.astype(np.uint8), extent=extent, zorder=1)
    margin = APART + RADIUS - 0.5  # room for circles that are off centre in a cell at the edge
    ax.set_xlim(-0.5 - margin, columns - 0.5 + margin)
    ax.set_ylim(rows - 0.5 + margin, -0.5 - margin)
    ax.set(xticks=[], yticks=[], aspect="equal")
    ax.autoscale(False)  # otherwise quiver would change the limits
    for spine in ax.spines.values():
        spine.set(color=rgb(colours.WALL), linewidth=0.8)


def _draw_paths(ax: Axes, env: AbstractEnv, ground: Floor, panel: Panel) -> None:
    middle = ground.places(env.features, panel.path)
    places = middle + APART * ring(env.num_agents)
    together = (np.abs(middle[-1, :, None] - middle[-1]).max(axis=-1) < 0.5).sum(axis=1) > 1
    radius = np.where(together, 0.7 * RADIUS, RADIUS)
    for agent, stripe in enumerate(striped(env)):
        y, x = places[:, agent].T
        moved = np.flatnonzero(np.hypot(np.diff(x), np.diff(y)) > 1e-6)
        colour = rgb(colours.agent_colour(agent))
        alphas = FADED + (1 - FADED) * (moved + 1) / max(panel.length, 1)
        ax.quiver(
            x[moved], y[moved], np.diff(x)[moved], np.diff(y)[moved],
            color=[(*colour, alpha) for alpha in alphas], angles="xy", scale_units="xy", scale=1.0, units="xy",
            width=0.12, headwidth=3.2, headlength=3.2, headaxislength=2.9, minlength=0.0, zorder=3,
        )  # fmt: skip
        _circle(ax, (x[0], y[0]), RADIUS, face="white", edge=colour, width=1.1, zorder=2)
        edge = rgb(colours.INK)
        _circle(ax, (x[-1], y[-1]), radius[agent], face=colour, edge=edge, width=0.5, zorder=5, stripe=bool(stripe))
    if panel.fermat is not None:
        row, column = ground.places(env.features, np.asarray(panel.fermat)[None])[0]
        # The face is drawn below everything, the edge above, so that both stay visible behind a team.
        ax.add_patch(Circle((column, row), FERMAT_RADIUS, facecolor="white", edgecolor="none", zorder=1.5))
        ax.add_patch(Circle((column, row), FERMAT_RADIUS, fill=False, edgecolor=rgb(colours.INK), zorder=6))


def _circle(
    ax: Axes,
    centre: tuple[float, float],
    radius: float,
    *,
    face: str | tuple[float, ...],
    edge: tuple[float, ...],
    width: float,
    zorder: int,
    stripe: bool = False,
) -> None:
    ax.add_patch(Circle(centre, radius, facecolor=face, edgecolor=edge, linewidth=width, zorder=zorder))
    for across in (-0.55, 0.0, 0.55) if stripe else ():  # chords: a hatch would not scale with the circle
        half = np.sqrt(1 - across**2) * 0.92
        ends = radius / np.sqrt(2) * np.array([[across - half, across + half], [across + half, across - half]])
        ax.plot(centre[0] + ends[0], centre[1] + ends[1], color="white", linewidth=0.9, zorder=zorder + 0.1)


def _draw_over_time(ax: Axes, env: AbstractEnv, panel: Panel) -> None:
    """Draw one strip per feature, with time to the right."""
    ax.set_axis_off()
    ax.set_box_aspect(1.0)
    num = len(env.features)
    for index in range(num):
        strip = ax.inset_axes((0.0, (num - 1 - index + 0.08) / num, 1.0, 0.84 / num))
        _draw_strip(strip, env, panel, index)
        strip.set_xlabel("step" if index == num - 1 else "", fontsize=6)
        strip.tick_params(labelsize=6, length=2, labelbottom=index == num - 1)


def _draw_strip(strip: Axes, env: AbstractEnv, panel: Panel, index: int) -> None:
    feature = env.features[index]
    low, high = limits(feature)
    apart = 0.12 * ring(env.num_agents)[:, 0] if feature.discrete else np.zeros(env.num_agents)
    for agent in np.flatnonzero(np.asarray(env.agent_features)[:, index]):
        values = np.clip(panel.path[:, agent, index] + apart[agent], low, high)
        look: dict[str, Any] = {"color": rgb(colours.agent_colour(int(agent))), "clip_on": False}
        strip.plot(values, linewidth=1.1, drawstyle="steps-post" if feature.discrete else "default", zorder=3, **look)
        strip.plot(0, values[0], "o", markersize=4, markerfacecolor="white", zorder=4, **look)
        strip.plot(panel.length, values[-1], "o", markersize=4, zorder=4, **look)
    if panel.fermat is not None:
        value = float(np.clip(panel.fermat[index], low, high))
        look = {"color": rgb(colours.INK), "markerfacecolor": "white", "clip_on": False}
        strip.axhline(value, color=rgb(colours.INK), linewidth=0.7, linestyle=":", zorder=1)
        strip.plot(panel.length, value, "o", markersize=7, zorder=2, **look)
    ticks = (0, feature.size - 1) if feature.discrete else (low, high)
    strip.set(xlim=(-0.5, max(panel.length, 1) + 0.5), ylim=(low, high), yticks=ticks)
    strip.set_ylabel(feature.name, fontsize=6)


def _draw_bars(ax: Axes, panel: Panel, scale: tuple[float, float]) -> None:
    """Draw a narrow bar chart of z, as high as the panel."""
    bars = ax.inset_axes((1.05, 0.0, 0.055 * len(panel.z) + 0.03, 1.0))
    bars.bar(range(len(panel.z)), np.asarray(panel.z), width=0.7, color="0.45")
    bars.set(xlim=(-0.6, len(panel.z) - 0.4), ylim=scale)
    names = [name if len(name) <= 5 else f"{name[:3]}." for name in panel.z_names]
    upright = max(map(len, names), default=0) <= 2
    bars.set_xticks(range(len(panel.z)), names, rotation=0 if upright else 90, fontsize=6)
    bars.yaxis.tick_right()
    bars.tick_params(labelsize=6, length=2, pad=1.5)
    bars.locator_params(axis="y", nbins=3)
    for side in ("top", "left"):
        bars.spines[side].set_visible(False)


def bar_scale(panels: Sequence[Panel]) -> tuple[float, float]:
    """Common limits for the bars of several panels."""
    values = np.concatenate([np.asarray(panel.z) for panel in panels])
    low, high = float(values.min(initial=0.0)), float(values.max(initial=0.0))
    return low * 1.05, (high or 1.0) * 1.05


def rgb(colour: tuple[int, int, int]) -> tuple[float, ...]:
    """A colour as Matplotlib expects it, from 0 to 1."""
    return tuple(part / 255 for part in colour)
