"""The figures of the paper: the rows each is made of, and how it is drawn from what was measured."""

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure as Canvas

from cooptions.campaigns.plan import Places
from cooptions.campaigns.results import Result, by_own_score, read_results
from cooptions.campaigns.rows import Block, Row, fraction_suffix
from cooptions.figures.base import FIGURES
from cooptions.figures.draw import draw
from cooptions.files import write_bytes
from cooptions.plots.canvas import write_canvas
from cooptions.plots.curves import method_styles, plot_learning_curves, plot_option_counts
from cooptions.runs.directory import RunDirectory, open_run
from cooptions.runs.run import Run

FORAGING = ("lbf-15x15-4p-3f", "lbf-15x15-4p-5f", "lbf-15x15-3p-5f")
KITCHENS = ("overcooked-counter_circuit", "overcooked-forced_coord", "overcooked-asymm_advantages")


@dataclass(frozen=True)
class Lineup:
    """Methods that are compared with one another, and what is claimed of them."""

    title: str
    beats_none: str
    """The claim that relative representations beat the baselines."""
    baselines: tuple[str, ...]
    """Those without options, or with the least that could be called one."""
    relative: tuple[str, ...]
    """Options from inter-agent relative representations: the paper's, and ours last."""
    beats_others: str = ""
    others: tuple[str, ...] = ()
    """Options from other representations."""
    scenarios: tuple[str, ...] = (*FORAGING, *KITCHENS)

    @property
    def methods(self) -> tuple[str, ...]:
        return (*self.baselines, *self.relative, *self.others)

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(row for scenario in self.scenarios for row in self.rows_in(scenario))

    def rows_in(self, scenario: str) -> tuple[Row, ...]:
        """Every method in one scenario; MAPPO in foraging alone, as in the paper."""
        return tuple(Row(scenario, method) for method in self.methods if method != "mappo" or scenario not in KITCHENS)


def kinds_of_options(title: str, suffix: str, *baselines: str) -> Lineup:
    """The paper's comparison: IQL of some kind, told by a suffix, with options of every kind, and the baselines."""
    relative, others = (
        tuple(f"iql{suffix}+{found}" for found in kinds) for kinds in (("iaro", "iaro-scalar", "hit"), ("kron", "rjs"))
    )
    return Lineup(title, f"H1{suffix}", baselines, relative, f"H2{suffix}", others)


PAPER = kinds_of_options("all methods", "", "iql", "vdn", "ippo", "mappo")
APART = kinds_of_options("agents that share no network", "-ns", "iql-ns", "vdn-ns")
NORMALISED = replace(
    kinds_of_options("learners with layer normalisation", "-ln", "iql-ln", "vdn-ln", "ippo"), scenarios=KITCHENS
)
SUMMED, BY_PPO = (
    Lineup(
        title=f"options added to {name}",
        beats_none=f"H1-{learner}",
        baselines=PAPER.baselines,
        relative=(f"{learner}+iaro", f"{learner}+hit"),
    )
    for learner, name in (("vdn", "VDN"), ("ippo", "IPPO"))
)
CONTROL = Lineup(title="a control", beats_none="control", baselines=("iql+wander",), relative=PAPER.relative)

LINEUPS: dict[str, Lineup] = {
    "curves": PAPER,
    "curves-ns": APART,
    "curves-ln": NORMALISED,
    "curves-vdn": SUMMED,
    "curves-ippo": BY_PPO,
    "curves-control": CONTROL,
}
"""By the name of their figures. The paper's comparison; the same with agents that share no network, as the paper does
not say which it means; and four of ours: the same with layer normalisation in the kitchens, which mends VDN there,
whether options help VDN or IPPO, too, and whether it matters where they lead, or only that the team leaves its policy
together for as long."""

COUNTS = {FORAGING[1]: (2, 6, 10, 0), KITCHENS[0]: (10, 20, 0)}
"""Numbers of options, besides none; 0 for all, which are 20 in foraging and 40 in Overcooked."""
COUNTED = ("iql+iaro", "iql+hit")
"""The methods whose options are counted: the paper's, and ours."""

STYLES = {
    method: style
    for lineup in reversed(LINEUPS.values())  # a method of several line-ups looks as in the first
    for method, style in method_styles((*lineup.relative, *lineup.baselines, *lineup.others)).items()
}
"""A method looks the same in every figure."""


def count_rows(scenario: str, method: str) -> tuple[Row, ...]:
    """The learner without options, and with different numbers of them."""
    return Row(scenario, method.partition("+")[0]), *(Row(scenario, method, num) for num in COUNTS[scenario])


@dataclass(frozen=True)
class AbstractFigure(abc.ABC):
    """A figure, or several that show the same rows."""

    title: str
    rows: tuple[Row, ...]

    @abc.abstractmethod
    def num_seeds(self, asked: int | None) -> int:
        """How many seeds of each row it wants, when so many were asked for."""

    @abc.abstractmethod
    def wants(self, name: str, places: Places) -> tuple[Row, ...]:
        """The rows it has to be drawn from."""

    @abc.abstractmethod
    def draw(self, name: str, places: Places, fraction: float) -> list[Path]:
        """Write its pictures to the results, of the rows there are; none where there are none."""


@dataclass(frozen=True)
class ScoreFigure(AbstractFigure):
    """A figure of scores, drawn from the results of any session."""

    plot: Callable[[Sequence[Result]], Canvas]
    metric: str = ""
    """The environment's own score when left out."""
    seeds: int = 10
    """The paper's number."""

    def num_seeds(self, asked: int | None) -> int:
        return asked or self.seeds

    def wants(self, name: str, places: Places) -> tuple[Row, ...]:
        return self.rows

    def draw(self, name: str, places: Places, fraction: float) -> list[Path]:
        found = self.results(places.results, fraction)
        stem = places.results / f"{name}{fraction_suffix(fraction)}"
        return write_canvas(self.plot(found), stem, ("png",)) if found else []

    def results(self, folder: Path, fraction: float) -> list[Result]:
        """What was measured of its rows, in their order."""
        measured = [each for each in read_results(folder) if each.fraction == fraction]
        if self.metric:
            measured = [each for each in measured if each.metric == self.metric]
        by_row = {(each.scenario, each.label): each for each in by_own_score(measured)}
        rows = ((row.place, row.label) for row in self.rows)
        return [by_row[row] for row in rows if row in by_row]


@dataclass(frozen=True)
class RunFigure(AbstractFigure):
    """Figures of discovery and options, drawn from the run directory of each row, of one seed."""

    names: tuple[str, ...]
    """Their names in `cooptions.figures`."""

    def num_seeds(self, asked: int | None) -> int:
        return 1

    def wants(self, name: str, places: Places) -> tuple[Row, ...]:
        """Pictures that are there are not made again: their runs take a while, and may be gone."""
        return tuple(row for row in self.rows if not all(path.exists() for path in self.paths(name, row, places)))

    def paths(self, name: str, row: Row, places: Places) -> list[Path]:
        """Where the pictures of a row go."""
        stem = f"{name}-{row.place}" if len(self.rows) > 1 else name
        stems = [stem, *(f"{stem}-{figure}" for figure in self.names[1:])]
        return [places.results / f"{each}.png" for each in stems]

    def draw(self, name: str, places: Places, fraction: float) -> list[Path]:
        drawn = []
        for row in self.wants(name, places):
            block = Block(row, 0, 1)
            if row.until in RunDirectory(places.runs / block.place).manifest:
                drawn += self._draw(block, places.runs, self.paths(name, row, places))
        return drawn

    def _draw(self, block: Block, runs: Path, paths: Sequence[Path]) -> Sequence[Path]:
        with open_run(runs / block.place, block.stages) as run:
            for figure, path in zip(self.names, paths, strict=True):
                picture = next(each for each in draw(figure, Run(block.config, run)) if each.suffix == ".png")
                write_bytes(path, picture.read_bytes())
        return paths


def plot_two_panels(lineup: Lineup, results: Sequence[Result]) -> Canvas:
    """Against methods without options, and against options from other methods, as in the paper's Figure 4."""
    panels = {
        "against no options": (*lineup.baselines, lineup.relative[0], lineup.relative[-1]),
        "against other options": (*lineup.relative, *lineup.others) if lineup.others else (),
    }
    shown = [
        replace(each.scores, scenario=panel)
        for panel, methods in panels.items()
        for each in results
        if each.method in methods
    ]
    return plot_learning_curves(shown, styles=STYLES, title=results[0].scenario)


def plot_all(results: Sequence[Result]) -> Canvas:
    """A panel for each scenario."""
    return plot_learning_curves([each.scores for each in results], styles=STYLES)


def plot_counts(results: Sequence[Result]) -> Canvas:
    """A bar for each number of options."""
    return plot_option_counts([(_count(each), each.scores) for each in results])


def _count(result: Result) -> int:
    """How many options a result was made with."""
    if "+" not in result.method:
        return 0
    return result.num_options or 2 * result.settings["laplacian"]["num_eigenfunctions"]


def _curves(scenario: str, lineup: Lineup) -> AbstractFigure:
    plot = partial(plot_two_panels, lineup)
    return ScoreFigure(f"downstream task: {lineup.title}", lineup.rows_in(scenario), plot)


def _score_figures() -> dict[str, AbstractFigure]:
    counted = {method: tuple(row for scenario in COUNTS for row in count_rows(scenario, method)) for method in COUNTED}
    return {
        **{
            f"{name}-{scenario}": _curves(scenario, lineup)
            for name, lineup in LINEUPS.items()
            for scenario in lineup.scenarios
        },
        "returns": ScoreFigure("episodic returns in six scenarios", PAPER.rows, plot_all, metric="return"),
        **{
            f"option-counts-{method}": ScoreFigure("final scores by number of options", rows, plot_counts, seeds=15)
            for method, rows in counted.items()
        },
    }


GRID = (Row("grid-15x15-3p", "hit", until="spectrum"),)
TEAMS_OF_TYPES = tuple(
    Row(scenario, "iaro", until="options", basis="axes")
    for scenario in ("grid-10x10-2p,types=12", "grid-15x15-3p,types=122")
)
OTHER_RUNS: dict[str, tuple[tuple[Row, ...], tuple[str, ...]]] = {
    "options": ((Row("grid-15x15-4p", "iaro", until="options"),), ("options",)),
    "heterogeneous": (TEAMS_OF_TYPES, ("heterogeneous", "options")),
}
"""Figures that are drawn from other runs than `GRID`: these rows, and what is drawn from each."""


def _run_figures() -> dict[str, AbstractFigure]:
    names = [name for name in FIGURES.names() if "learning" not in FIGURES[name].needs]
    titles = FIGURES.summaries()
    return {name: RunFigure(titles[name], *OTHER_RUNS.get(name, (GRID, (name,)))) for name in names}


REPRODUCTIONS: dict[str, AbstractFigure] = _score_figures() | _run_figures()
"""Every figure by name."""
