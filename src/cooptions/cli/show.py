"""The command `cooptions show`, which lists the options of a run."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cooptions.cli.arguments import POSITIONAL, parse
from cooptions.errors import require


@dataclass(frozen=True)
class ShowArguments:
    """List the options of a run directory with their effects on the team."""

    run: Path | None = dataclasses.field(default=None, metadata=POSITIONAL)
    """A run directory in which options were trained."""
    seed: int = 0
    """The index of the run's seed, counted from 0."""
    gif: tuple[str, ...] = ()
    """The names of the options for which to write a GIF, or `all`."""
    json: bool = False
    """Print one JSON object instead of a table."""
    trust: bool = False
    """Import code from outside that the run directory names."""


def main(words: Sequence[str]) -> dict[str, str] | None:
    arguments = parse(ShowArguments, words, "show")
    require(arguments.run is not None, "show: the first argument is a run directory, such as runs/quick")
    assert arguments.run is not None
    from cooptions.cli import say
    from cooptions.cli.existing import reopened
    from cooptions.options.report import rich_table
    from cooptions.options.sharing.storage import load_reports
    from cooptions.runs.option_sets import load_options, option_set_path, write_gif

    run = reopened("show", arguments.run, trust=arguments.trust)
    options, place = load_options(run, arguments.seed), option_set_path(run, arguments.seed)
    reports = load_reports(place)
    every = [option.name for option in options.options]
    chosen = every if "all" in arguments.gif else arguments.gif
    if not arguments.json:
        say.show(rich_table(reports))
        print(f"option set: {place}")
    pictures = [write_gif(run, options, name, seed=arguments.seed) for name in chosen]
    if arguments.json:
        say.as_json(
            {
                "run": arguments.run,
                "seed": arguments.seed,
                "option_set": place,
                "options": reports,
                "pictures": pictures,
            }
        )
        return None
    say.pictures(pictures)
    return {"run": str(arguments.run)}
