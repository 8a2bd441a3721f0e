"""Plots of learning curves and option counts: IQMs with 95% intervals, one panel per scenario."""

import itertools
import textwrap
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

import cooptions.plots.style  # noqa: F401  (sets the look of every figure)
from cooptions.errors import require
from cooptions.scores.comparison import compare
from cooptions.scores.statistics import Bootstrap, Scores, iqm_curve

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The colour-blind-safe palette of Okabe and Ito without yellow, which is hard to see on white paper."""
DASHES = ("-", "--", ":")
"""Line styles. Each is combined with the whole palette, which gives 21 styles."""

MOST_LINES = 6
"""The maximum number of lines in a panel. More methods are split over several panels."""

Style = dict[str, str]


def method_styles(names: Iterable[str]) -> dict[str, Style]:
    """A colour and line style for each method. Pass the same styles to several figures to keep methods recognisable."""
    distinct = list(dict.fromkeys(names))
    pairs = [(dash, colour) for dash in DASHES for colour in PALETTE]
    require(len(distinct) <= len(pairs), f"names: at most {len(pairs)} methods can be told apart, not {len(distinct)}")
    return {name: {"color": colour, "linestyle": dash} for name, (dash, colour) in zip(distinct, pairs, strict=False)}


def plot_learning_curves(
    scores: Sequence[Scores],
    *,
    styles: Mapping[str, Style] | None = None,
    title: str = "",
    bootstrap: Bootstrap = Bootstrap(),
) -> Figure:
    """Plot learning curves: panels per scenario and metric, with a line and a shaded interval per method.

    A panel has at most six methods. The panels of one scenario and metric have the same limits.
    """
    require(len(scores) > 0, "scores: none were given to draw")
    styles = styles or method_styles(each.name for each in scores)
    tasks = _grouped(((each.scenario, each.metric), each) for each in scores)
    parts = [(task, part) for task, methods in tasks.items() for part in split(methods)]
    canvas, axes = _canvas(len(parts), title)
    for ax, ((scenario, metric), methods) in zip(axes, parts, strict=True):
        per_unit, label = step_unit(max(int(each.steps.max()) for each in tasks[scenario, metric]))
        for each in methods:
            _draw_curve(ax, each, styles[each.name], per_unit, bootstrap)
        ax.set(title=scenario, xlabel=label, ylabel=_label(metric))
        _finish(ax, {each.name: each for each in methods})
    for task in tasks:
        _align([ax for ax, part in zip(axes, parts, strict=True) if part[0] == task])
    _name_methods(canvas, styles, list(dict.fromkeys(each.name for each in scores)), len(parts))
    return canvas


def split(methods: Sequence[Scores]) -> list[list[Scores]]:
    """Split methods into the fewest groups of at most six, with sizes that differ by at most one, in order."""
    num = -(-len(methods) // MOST_LINES)
    bounds = [round(part * len(methods) / num) for part in range(num + 1)]
    return [list(methods[low:high]) for low, high in itertools.pairwise(bounds)]


def step_unit(largest: int) -> tuple[float, str]:
    """The number of steps per unit of the axis, chosen so that ticks have few digits, and the axis label."""
    if largest >= 1_000_000:
        return 1e6, "environment steps (millions)"
    return (1e3, "environment steps (thousands)") if largest >= 10_000 else (1.0, "environment steps")


def _align(axes: Sequence[Axes]) -> None:
    """Give all panels the same limits, wide enough for each."""
    for name in ("xlim", "ylim"):
        limits = np.array([getattr(ax, f"get_{name}")() for ax in axes])
        for ax in axes:
            ax.set(**{name: (limits[:, 0].min(), limits[:, 1].max())})


def _name_methods(canvas: Figure, styles: Mapping[str, Style], names: Sequence[str], num_panels: int) -> None:
    """Add a legend below all panels."""
    lines = [Line2D([], [], **styles[name], label=name) for name in names]
    num_rows = -(-len(names) // (3 * _num_columns(num_panels)))
    columns = -(-len(names) // num_rows)
    canvas.legend(handles=lines, loc="outside lower center", ncols=columns, frameon=False, fontsize=8)


def plot_option_counts(
    counted: Sequence[tuple[int, Scores]], *, last: int = 1, title: str = "", bootstrap: Bootstrap = Bootstrap()
) -> Figure:
    """Plot final scores against the number of options: a panel per scenario and metric, a bar per number.

    The error bars are 95% intervals; those of the paper are standard deviations.
    """
    require(len(counted) > 0, "counted: no scores were given to draw")
    panels = _grouped(((each.scenario, each.metric), (count, each)) for count, each in counted)
    canvas, axes = _canvas(len(panels), title)
    for index, (ax, ((scenario, metric), bars)) in enumerate(zip(axes, panels.items(), strict=True)):
        bars = sorted(bars, key=lambda bar: bar[0])
        rows = compare([each for _, each in bars], last=last, bootstrap=bootstrap)
        heights = np.array([row.iqm.value for row in rows])
        reach = np.abs(np.array([[row.iqm.low, row.iqm.high] for row in rows]).T - heights)
        ax.bar(range(len(bars)), heights, width=0.65, color=PALETTE[index % len(PALETTE)], alpha=0.8)
        known = np.flatnonzero(~np.isnan(reach).any(axis=0))
        ax.errorbar(known, heights[known], yerr=reach[:, known], fmt="none", ecolor="black", elinewidth=1, capsize=3)
        ax.set_xticks(range(len(bars)), [str(count) for count, _ in bars])
        ax.set(title=scenario, xlabel="number of options", ylabel=_label(metric))
        _finish(ax, {f"{count} options": each for count, each in bars})
    return canvas


def _draw_curve(ax: Axes, scores: Scores, style: Style, per_unit: float, bootstrap: Bootstrap) -> None:
    curve = iqm_curve(scores, bootstrap=bootstrap)
    steps = curve.steps / per_unit
    ax.fill_between(steps, curve.low, curve.high, color=style["color"], alpha=0.18, linewidth=0)
    ax.plot(steps, curve.iqm, **style, linewidth=1.4, marker="o" if len(steps) == 1 else None, markersize=4)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]))


def _finish(ax: Axes, drawn: Mapping[str, Scores]) -> None:
    """Style the axes, start them at 0 if no score is negative, and note the seeds that were left out."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="0.9", linewidth=0.6)
    ax.set_axisbelow(True)
    if all((each.kept >= 0.0).all() for each in drawn.values()):
        ax.set_ylim(bottom=0.0)
    reasons = {
        "diverged seeds": {name: each.diverged for name, each in drawn.items()},
        "seeds with scores that are no numbers": {name: each.unscored for name, each in drawn.items()},
    }
    for reason, seeds in reasons.items():
        lost = [f"{name} {which.sum()} of {len(which)}" for name, which in seeds.items() if which.any()]
        if lost:
            note = textwrap.fill(f"{reason}, left out: {', '.join(lost)}", width=45)
            ax.set_xlabel(f"{ax.get_xlabel()}\n{note}")


def _canvas(num_panels: int, title: str) -> tuple[Figure, list[Axes]]:
    """A figure and its axes, one for each panel."""
    columns = _num_columns(num_panels)
    rows = -(-num_panels // columns)
    canvas = Figure(figsize=(3.2 * columns + 0.3, 2.5 * rows + 0.4), layout="constrained")
    axes = canvas.subplots(rows, columns, squeeze=False).ravel()
    for ax in axes[num_panels:]:
        ax.remove()
    if title:
        canvas.suptitle(title)
    return canvas, list(axes[:num_panels])


def _num_columns(num_panels: int) -> int:
    """The number of columns: at most three; four panels form a square."""
    return 2 if num_panels == 4 else min(num_panels, 3)


def _grouped(pairs: Iterable[tuple]) -> dict:
    groups: dict = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def _label(metric: str) -> str:
    return f"{metric.replace('_', ' ')} (IQM)"
