"""Figures of a campaign: the rows that each one needs, and how it is drawn from the results."""

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from matplotlib.figure import Figure as Canvas

from cooptions.campaigns.plan import Places
from cooptions.campaigns.results import Result, by_own_score
from cooptions.campaigns.rows import Block, Row, fraction_suffix
from cooptions.campaigns.work import is_finished
from cooptions.figures.draw import draw
from cooptions.files import write_bytes
from cooptions.plots.canvas import write_canvas
from cooptions.plots.curves import Style, plot_learning_curves, plot_option_counts
from cooptions.runs.run import Run

Panels = Mapping[str, tuple[str, ...]]
"""The methods of each panel of a figure, by the panel's title."""


@dataclass(frozen=True)
class AbstractFigure(abc.ABC):
    """A figure, or one for each scenario of its rows."""

    name: str
    rows: tuple[Row, ...]

    def wanted_rows(self, places: Places) -> tuple[Row, ...]:
        """The rows that must be run before it can be drawn."""
        return self.rows

    @abc.abstractmethod
    def draw(
        self, results: Sequence[Result], places: Places, fraction: float, styles: Mapping[str, Style]
    ) -> list[Path]:
        """Write its pictures for the rows that have results. Returns their paths."""


@dataclass(frozen=True)
class Curves(AbstractFigure):
    """Learning curves: one picture per scenario, with one or more panels."""

    panels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The title and methods of each panel. Empty for one panel with all methods."""
    metric: str = ""
    """The metric to plot. Empty for the environment's own score."""

    def draw(self, results, places, fraction, styles):
        drawn = []
        for place in dict.fromkeys(row.place for row in self.rows):
            found = measured(results, [row for row in self.rows if row.place == place], fraction, self.metric)
            if found:
                stem = places.results / f"{self.name}-{place}{fraction_suffix(fraction)}"
                drawn += write_canvas(self.plot(found, styles), stem, ("png",))
        return drawn

    def plot(self, found: Sequence[Result], styles: Mapping[str, Style]) -> Canvas:
        """The curves of one scenario."""
        if not self.panels:
            return plot_learning_curves([each.scores for each in found], styles=styles)
        shown = [
            replace(each.scores, scenario=title)
            for title, labels in self.panels
            for each in found
            if each.label in labels
        ]
        return plot_learning_curves(shown, styles=styles, title=found[0].scenario)


@dataclass(frozen=True)
class Overview(AbstractFigure):
    """Learning curves in one picture, with a panel for each scenario."""

    metric: str = ""

    def draw(self, results, places, fraction, styles):
        found = measured(results, self.rows, fraction, self.metric)
        if not found:
            return []
        canvas = plot_learning_curves([each.scores for each in found], styles=styles)
        return write_canvas(canvas, places.results / f"{self.name}{fraction_suffix(fraction)}", ("png",))


@dataclass(frozen=True)
class Returns(Overview):
    """An overview of the episodic return."""

    metric: str = "return"


@dataclass(frozen=True)
class OptionCounts(AbstractFigure):
    """Final scores by number of options, with a panel for each scenario. Rows without options count as 0."""

    metric: str = ""

    def draw(self, results, places, fraction, styles):
        found = measured(results, self.rows, fraction, self.metric)
        if not found:
            return []
        canvas = plot_option_counts([(count_options(each), each.scores) for each in found])
        return write_canvas(canvas, places.results / f"{self.name}{fraction_suffix(fraction)}", ("png",))


@dataclass(frozen=True)
class FromRun(AbstractFigure):
    """A figure of discovery or options (`cooptions list`), drawn from the run of each row's first seeds."""

    figure: str = ""

    def wanted_rows(self, places: Places) -> tuple[Row, ...]:
        """The rows whose picture is missing. Existing pictures are kept, since their runs take long and may be gone."""
        return tuple(row for row in self.rows if not self.path(row, places).exists())

    def path(self, row: Row, places: Places) -> Path:
        """The path of a row's picture."""
        stem = f"{self.name}-{row.place}" if len(self.rows) > 1 else self.name
        return places.results / f"{stem}.png"

    def draw(self, results, places, fraction, styles):
        drawn = []
        for row in self.wanted_rows(places):
            block = next((each for each in run_blocks(row, places.runs) if is_finished(each, places.runs)), None)
            if block is not None:
                drawn.append(self._draw(block, places))
        return drawn

    def _draw(self, block: Block, places: Places) -> Path:
        path = self.path(block.row, places)
        with Run.open(block.config, places.runs / block.place, block.row.until) as run:
            picture = next(each for each in draw(self.figure, run) if each.suffix == ".png")
            write_bytes(path, picture.read_bytes())
        return path


SCORE_FIGURES: dict[str, type[AbstractFigure]] = {
    "curves": Curves,
    "overview": Overview,
    "returns": Returns,
    "option-counts": OptionCounts,
}
"""The kinds of figures that are drawn from scores."""


def measured(results: Sequence[Result], rows: Sequence[Row], fraction: float, metric: str) -> list[Result]:
    """The results of these rows, in the order of the rows."""
    there = [each for each in results if each.fraction == fraction and metric in ("", each.metric)]
    by_row = {(each.scenario, each.label): each for each in by_own_score(there)}
    keys = dict.fromkeys((row.place, row.label) for row in rows)
    return [by_row[key] for key in keys if key in by_row]


def count_options(result: Result) -> int:
    """The number of options in a result; 0 for a method without options."""
    if "+" not in result.method:
        return 0
    return result.num_options or 2 * result.settings["laplacian"]["num_eigenfunctions"]


def run_blocks(row: Row, runs: Path) -> list[Block]:
    """The blocks of a row that have a run directory, fewest seeds first."""
    spans = [path.name.split("-")[1:3] for path in (runs / Block(row, 0, 1).place).parent.glob("seeds-*")]
    found = [Block(row, int(first), int(last) - int(first) + 1) for first, last in spans]
    return sorted(found, key=lambda block: (block.num_seeds, block.first))
