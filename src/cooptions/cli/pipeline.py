"""A whole run: what is missing of its stages, then a table and the pictures."""

from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from cooptions.figures import draw, drawable
from cooptions.files import config_json
from cooptions.options.report import rich_table
from cooptions.runs.config import Config
from cooptions.runs.directory import RunDirectory, open_run
from cooptions.runs.learned import write_scores
from cooptions.runs.option_sets import write_option_sets
from cooptions.runs.stages import STAGES, stage_configs
from cooptions.scores.comparison import compare
from cooptions.scores.comparison import rich_table as score_table
from cooptions.training.progress import Progress
from cooptions.training.tracking import Track, open_tracker


def _option_table(config: Config, run: RunDirectory, progress: Progress) -> Table:
    return rich_table(write_option_sets(config, run, progress)[0])


def _score_table(config: Config, run: RunDirectory, progress: Progress) -> Table:
    return score_table(compare([each.averaged() for each in write_scores(config, run, progress)]))


PRODUCTS: dict[str, Callable[[Config, RunDirectory, Progress], Table]] = {
    "options": _option_table,
    "learning": _score_table,
}
"""What a finished stage writes for people, besides its artefact, and the table it shows."""


def run_pipeline(config: Config, out: Path, console: Console, until: str, track: Track = "none") -> None:
    """Run what is missing up to a stage, then show a table and the pictures."""
    configs = stage_configs(config, until)
    with open_tracker(track, out, config_json(config)) as tracker, open_run(out, configs) as run:
        progress = Progress(console, tracker)
        for name in configs:
            STAGES[name].make(config, run, progress)
            if name in PRODUCTS:
                console.print(PRODUCTS[name](config, run, progress))
        run.summarise(scenario=config.scenario, seeds=config.seeds, stages=list(run.manifest))
        pictures = [path for name in drawable(run) for path in draw(name, config, run)]
        _report(run, pictures, console)


def _report(run: RunDirectory, pictures: list[Path], console: Console) -> None:
    table = Table("stage", "seconds", "file", "size")
    for name, entry in run.manifest.items():
        for file in entry["files"]:
            size = run.file(file).stat().st_size / 1e6
            table.add_row(name, f"{entry['seconds']:.1f}", str(run.file(file)), f"{size:.1f} MB")
    console.print(table)
    for path in pictures:
        console.print(f"picture: {path}")
