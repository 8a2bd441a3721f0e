"""A whole run: what is missing of its stages, then a table and the pictures."""

from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from cooptions.figures.draw import draw, drawable
from cooptions.files import encode
from cooptions.options.report import rich_table
from cooptions.runs.config import Config
from cooptions.runs.directory import RunDirectory
from cooptions.runs.learned import write_scores
from cooptions.runs.option_sets import write_option_sets
from cooptions.runs.run import Run
from cooptions.scores.comparison import compare
from cooptions.scores.comparison import rich_table as score_table
from cooptions.training.progress import Progress
from cooptions.training.tracking import Track, open_tracker


def _option_table(run: Run) -> Table:
    return rich_table(write_option_sets(run)[0])


def _score_table(run: Run) -> Table:
    return score_table(compare([each.averaged() for each in write_scores(run)]))


PRODUCTS: dict[str, Callable[[Run], Table]] = {
    "options": _option_table,
    "learning": _score_table,
}
"""What a finished stage writes for people, besides its artefact, and the table it shows."""


def run_pipeline(config: Config, out: Path, console: Console, until: str, track: Track = "none") -> None:
    """Run what is missing up to a stage, then show a table and the pictures."""
    with (
        open_tracker(track, out, encode(config)) as tracker,
        Run.open(config, out, until, Progress(console, tracker)) as run,
    ):
        for name in run.stages(until):
            run.make(name)
            if name in PRODUCTS:
                console.print(PRODUCTS[name](run))
        run.directory.summarise(scenario=config.scenario, seeds=config.seeds, stages=list(run.directory.manifest))
        pictures = [path for name in drawable(run.directory) for path in draw(name, run)]
        _report(run.directory, pictures, console)


def _report(run: RunDirectory, pictures: list[Path], console: Console) -> None:
    table = Table("stage", "seconds", "file", "size")
    for name, entry in run.manifest.items():
        for file in entry["files"]:
            size = run.file(file).stat().st_size / 1e6
            table.add_row(name, f"{entry['seconds']:.1f}", str(run.file(file)), f"{size:.1f} MB")
    console.print(table)
    for path in pictures:
        console.print(f"picture: {path}")
