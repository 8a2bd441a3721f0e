"""Make the missing stages of a run directory, then its tables and pictures."""

from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cooptions.cli import say
from cooptions.cli.compilation import keep_compiled
from cooptions.cli.configured import FORMS
from cooptions.figures.draw import draw, drawable
from cooptions.files import encode
from cooptions.options.report import rich_table as option_table
from cooptions.runs.config import Config
from cooptions.runs.directory import RunDirectory
from cooptions.runs.learned import write_scores
from cooptions.runs.option_sets import write_option_sets
from cooptions.runs.recipe import write_recipe
from cooptions.runs.run import Run
from cooptions.scores.comparison import compare
from cooptions.scores.comparison import rich_table as score_table
from cooptions.training.progress import Progress
from cooptions.training.tracking import open_tracker

PRODUCTS: dict[str, Callable[[Run], Table]] = {
    "options": lambda run: option_table(write_option_sets(run)[0]),
    "learning": lambda run: score_table(compare([each.averaged() for each in write_scores(run)])),
}
"""For some stages, a function that writes additional files and returns the table to show."""


def fill(command: str, config: Config, out: Path, *, track: str, cache: bool) -> None:
    """Make the missing stages up to the last one of a command, then show tables and pictures."""
    keep_compiled(cache)
    until = FORMS[command].stage
    with (
        open_tracker(track, out, encode(config)) as tracker,
        Run.open(config, out, until, Progress(Console(), tracker)) as run,
    ):
        config = run.config
        write_recipe(out, config, "run" if command == "options" else command)
        for name in run.stages(until):
            run.make(name)
            if name in PRODUCTS:
                say.show(PRODUCTS[name](run))
        run.directory.summarise(scenario=config.scenario, seeds=config.seeds, stages=list(run.directory.manifest))
        say.show(_files(run.directory))
        say.pictures(path for name in drawable(run.directory) for path in draw(name, run))


def _files(directory: RunDirectory) -> Table:
    """A table of the artefacts of a run."""
    table = Table("stage", "seconds", "file", "size")
    for name, entry in directory.manifest.items():
        for file in entry["files"]:
            path = directory.file(file)
            cells = name, f"{entry['seconds']:.1f}", str(path), f"{path.stat().st_size / 1e6:.1f} MB"
            table.add_row(*map(Text, cells))
    return table
