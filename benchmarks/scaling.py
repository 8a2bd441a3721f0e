"""Time how the cost of an update grows with seeds, agents, options, grid size and parallel environments.

    python -m benchmarks.scaling --only seeds agents > scaling.json
    python -m benchmarks.scaling figure scaling.json others.json scaling.png

Each series changes one number. The others are those of the paper's foraging task, lbf-15x15-4p-3f, with 10 seeds of
recurrent IQL without options. The series of environments has one seed of PQN, whose memory grows with the environments;
IQL's replay buffer has a fixed capacity. `figure` merges the results of several processes into one picture.
"""

import gc
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args

import jax
import tyro
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from benchmarks.contestants import Clock, Compiled, Task, compile_ours, ours_with_options, program_bytes
from benchmarks.learning_speed import turn
from cooptions.envs.scenarios import make_env
from cooptions.errors import CooptionsError, require
from cooptions.files import encode
from cooptions.learners.base import LearnerConfig
from cooptions.learners.pqn import PqnConfig
from cooptions.learners.q_learning import QConfig
from cooptions.plots.canvas import write_canvas
from cooptions.plots.curves import PALETTE
from cooptions.runs.directory import provenance
from cooptions.runs.paper import IQL, TEAM_LEARNERS

PQN = cast(PqnConfig, TEAM_LEARNERS["pqn"][0])

Series = Literal["seeds", "agents", "options", "grid", "envs"]
VALUES: dict[Series, tuple[int, ...]] = {
    "seeds": (1, 2, 5, 10, 20, 50),
    "agents": (2, 4, 6, 8),
    "options": (0, 10, 20, 40, 80),
    "grid": (8, 12, 15, 20, 30),
    "envs": (32, 128, 512, 2048, 8192),
}
LABELS: dict[Series, str] = {
    "seeds": "seeds",
    "agents": "agents",
    "options": "options",
    "grid": "grid size (cells per side)",
    "envs": "environments (PQN, 1 seed)",
}
"""The axis label of each series."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Arguments:
    """Time updates of all seeds together, in steady state, for each point of each series."""

    only: tuple[Series, ...] = ()
    """The series to time. Empty for all."""
    updates: int = 40
    """The number of updates in one timing."""
    repeats: int = 3
    """The number of timings per point. The median is reported."""
    turn: Path | None = None
    """A file that is locked while the clock runs, so that several of these programs can compile side by side."""
    only_compile: bool = False
    """Compile every point and report its memory, without running it."""
    threads: int = 8
    """The number of points that compile at the same time. With 1, compile times do not depend on each other."""
    shrink: int = 1
    """A divisor of IQL's batch and replay sizes, for trying this out on a small machine."""
    most: int | None = None
    """Keep only the first points of each series, at most this many."""

    def __post_init__(self) -> None:
        for name in ("updates", "repeats", "threads", "shrink", "most"):
            given = getattr(self, name)
            require(given is None or given >= 1, f"{name} must be at least 1, not {given}")


@dataclass(frozen=True)
class Draw:
    """Draw the results as one picture."""

    paths: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """The result files, then the PNG to write. Of two rows for one point, the later file's values count."""

    def __post_init__(self) -> None:
        require(len(self.paths) >= 2 and self.paths[-1].suffix == ".png", "paths: give the result files, then OUT.png")


@dataclass(frozen=True)
class Setup:
    """What is timed. Several points may have the same setup, for example 10 seeds and 4 agents."""

    seeds: int = 10
    agents: int = 4
    options: int = 0
    grid: int = 15
    learner: LearnerConfig = IQL

    def compiled(self, arguments: Arguments) -> Compiled:
        clock = Clock(seeds=self.seeds, updates=arguments.updates, repeats=arguments.repeats)
        env = make_env(f"lbf-{self.grid}x{self.grid}-{self.agents}p-3f")
        if not isinstance(self.learner, QConfig):
            return compile_ours(self.learner, env, clock)
        task = Task("lbf", env, self.learner, self.options).shrunk(arguments.shrink)
        if not self.options:
            return compile_ours(task.config, env, clock)
        return cast(Compiled, ours_with_options(task, clock))


@dataclass(frozen=True)
class Point:
    """One setup in one series."""

    series: Series
    value: int

    @property
    def setup(self) -> Setup:
        if self.series != "envs":
            return Setup(**{self.series: self.value})
        steps = PQN.steps // PQN.num_envs * self.value  # the same number of updates for every point
        return Setup(seeds=1, learner=replace(PQN, num_envs=self.value, steps=steps))


def points(arguments: Arguments) -> list[Point]:
    series = arguments.only or get_args(Series)
    return [Point(name, value) for name in series for value in VALUES[name][: arguments.most]]


def main(arguments: Arguments) -> None:
    asked = points(arguments)
    rows = list(measured(asked, arguments))
    result = {
        "rows": rows,
        "updates": arguments.updates,
        "repeats": arguments.repeats,
        "threads": arguments.threads,
        "shrink": arguments.shrink,
        "configs": {"iql": encode(IQL), "pqn": encode(PQN)},
        **provenance(),
    }
    print(json.dumps(result))


def measured(asked: Sequence[Point], arguments: Arguments) -> Iterator[Row]:
    """The rows of all points. Setups compile in parallel and are timed one after the other."""
    setups = list(dict.fromkeys(point.setup for point in asked))
    with ThreadPoolExecutor(arguments.threads) as pool:
        compiled = list(pool.map(lambda setup: compile_one(setup, asked, arguments), setups))
    for setup in setups:
        built, row = compiled.pop(0)  # freed before the next is timed
        if built is not None and not arguments.only_compile:
            with turn(arguments.turn):
                row |= timed(built, setup)
            tell(rows_of(setup, row, asked))
        yield from rows_of(setup, row, asked)


def compile_one(setup: Setup, asked: Sequence[Point], arguments: Arguments) -> tuple[Compiled | None, Row]:
    """The compiled update and what is known of it before it runs. Without the former, there is an error."""
    try:
        built = setup.compiled(arguments)
    except (CooptionsError, jax.errors.JaxRuntimeError, MemoryError) as error:
        built, row = None, {"error": first_line(error)}
    else:
        row = memory_of(built)
    tell(rows_of(setup, row, asked))  # kept even if the program never runs
    return built, row


def memory_of(built: Compiled) -> Row:
    return {
        "gigabytes": round(program_bytes(built.program) / 1e9, 4),
        "estimated_gigabytes": round(built.estimate / 1e9, 4),
        "compile_seconds": round(built.compile_seconds, 1),
    }


def timed(built: Compiled, setup: Setup) -> Row:
    try:
        timing = built()
    except (CooptionsError, jax.errors.JaxRuntimeError, MemoryError) as error:
        failed = {"error": first_line(error)}
    else:
        seconds = statistics.median(timing.seconds)
        return {
            "ms_per_update": round(seconds * 1e3, 3),
            "ms_each": [round(each * 1e3, 3) for each in timing.seconds],
            "steps_per_second": round(setup.seeds * timing.steps / seconds),
        }
    gc.collect()  # the frames of the error hold arrays
    return failed


def first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:300]


def rows_of(setup: Setup, row: Row, asked: Sequence[Point]) -> list[Row]:
    """The row of each point with this setup."""
    return [{"series": point.series, "value": point.value, **row} for point in asked if point.setup == setup]


def tell(rows: Sequence[Row]) -> None:
    """Write rows to standard error, so that a killed run keeps them."""
    sys.stderr.write("".join(f"{json.dumps(row)}\n" for row in rows))
    sys.stderr.flush()


def draw(arguments: Draw) -> None:
    *sources, out = arguments.paths
    results = [json.loads(path.read_text()) for path in sources]
    for name in ("device", "shrink", "configs"):
        alike = all(result[name] == results[0][name] for result in results)
        require(alike, f"paths: {name} differs between the results, so they cannot be compared")
    rows = merged([row for result in results for row in result["rows"]])
    require(any("ms_per_update" in row for row in rows), "paths: no point in these results was timed")
    write_canvas(plot(rows), out.with_suffix(""), kinds=("png",))


def merged(rows: Sequence[Row]) -> list[Row]:
    """One row for each point, in order. Later values replace earlier ones, and a measurement replaces an error."""
    found: dict[tuple[Series, int], Row] = {}
    for row in rows:
        point = row["series"], row["value"]
        found[point] = found.get(point, {}) | row
        if "ms_per_update" in found[point]:
            found[point].pop("error", None)
    return sorted(found.values(), key=lambda row: (list(VALUES).index(row["series"]), row["value"]))


def plot(rows: Sequence[Row]) -> Figure:
    """A column for each series: time per update above, memory below. Each row of panels has one scale."""
    drawn = [name for name in VALUES if any(row["series"] == name for row in rows)]
    canvas = Figure(figsize=(1.75 * len(drawn) + 0.7, 4.2), layout="constrained")
    axes = canvas.subplots(2, len(drawn), squeeze=False, sharex="col", sharey="row")
    for name, (above, below) in zip(drawn, axes.T, strict=True):
        those = [row for row in rows if row["series"] == name]
        plot_time(above, those)
        plot_memory(below, those)
        for ax in (above, below):
            finish(ax, [row["value"] for row in those])
        below.set_xlabel(LABELS[name])
    axes[0, 0].set_ylabel("time per update (ms)")
    axes[1, 0].set_ylabel("memory (GB)")
    name_lines(canvas, axes)
    return canvas


def plot_time(ax: Axes, rows: Sequence[Row]) -> None:
    those = [row for row in rows if "ms_per_update" in row]
    values, each = [row["value"] for row in those], [row["ms_each"] for row in those]
    middle = [row["ms_per_update"] for row in those]
    if those and values[0] > 0:
        slope = [middle[0] * value / values[0] for value in (values[0], values[-1])]
        ax.plot((values[0], values[-1]), slope, ":", color="0.6", linewidth=1, label="proportional to the first")
    ax.plot(values, middle, color=PALETTE[0], marker="o", markersize=4, linewidth=1.4, label="time (median)")
    spread = [(value, ms) for value, times in zip(values, each, strict=True) for ms in times]
    ax.plot(
        *zip(*spread, strict=True) if spread else ((), ()), "_", color=PALETTE[0], markersize=7, label="each timing"
    )
    for number, row in enumerate(row for row in rows if "error" in row):
        ax.axvline(row["value"], color=PALETTE[1], linestyle="--", linewidth=1, label="" if number else "failed")


def plot_memory(ax: Axes, rows: Sequence[Row]) -> None:
    kinds = (("gigabytes", 2, "-", "o", 4, "memory used"), ("estimated_gigabytes", 4, "--", "s", 6, "memory estimated"))
    for name, colour, dash, marker, size, label in kinds:
        those = [row for row in rows if name in row]
        values, sizes = [row["value"] for row in those], [row[name] for row in those]
        look = {"color": PALETTE[colour], "marker": marker, "markerfacecolor": "none", "markersize": size}
        ax.plot(values, sizes, dash, **look, linewidth=1.4, label=label)


def finish(ax: Axes, values: Sequence[int]) -> None:
    """Logarithmic axes with a tick at each point. 0 lies left of the smallest positive value."""
    least = min((value for value in values if value > 0), default=1)
    ax.set_yscale("log")
    if 0 in values:
        ax.set_xscale("symlog", linthresh=least, linscale=0.5)
    else:
        ax.set_xscale("log")
    ax.xaxis.set_major_locator(FixedLocator(values))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:.0f}")
    ax.xaxis.set_minor_locator(NullLocator())
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="0.9", linewidth=0.6)
    ax.set_axisbelow(True)


def name_lines(canvas: Figure, axes: Any) -> None:
    """Add one legend below all panels."""
    lines = {label: line for ax in axes.ravel() for line, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    canvas.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=len(lines), frameon=False, fontsize=8)


if __name__ == "__main__":
    if sys.argv[1:2] == ["figure"]:
        draw(tyro.cli(Draw, args=sys.argv[2:]))
    else:
        main(tyro.cli(Arguments))
