"""The command `cooptions figure`, which draws a figure from a run directory."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cooptions.cli.arguments import POSITIONAL, parse
from cooptions.cli.catalogue import require_name
from cooptions.errors import require


@dataclass(frozen=True)
class FigureArguments:
    """Draw a figure, as PNG and PDF, from a run directory."""

    name: str = dataclasses.field(default="", metadata=POSITIONAL)
    """The figure's name (`cooptions list`), or `module:Class` for your own."""
    run: Path | None = None
    """The run directory with the artefacts that the figure shows."""
    trust: bool = False
    """Import code from outside that the run directory names."""


def main(words: Sequence[str]) -> dict[str, str]:
    arguments = parse(FigureArguments, words, "figure")
    require(bool(arguments.name), "figure: the first argument is a figure (`cooptions list`)")
    require_name("figures", arguments.name)
    require(arguments.run is not None, "figure: --run names the run directory")
    assert arguments.run is not None
    from cooptions.cli import say
    from cooptions.cli.existing import reopened, require_run
    from cooptions.figures.base import FIGURES
    from cooptions.figures.draw import draw

    require_run("figure", arguments.run)
    _ = FIGURES[arguments.name]  # raises for a class that is no figure, before the directory is opened
    run = reopened("figure", arguments.run, say.progress(quiet=True), trust=arguments.trust)
    say.pictures(draw(arguments.name, run))
    return {"run": str(arguments.run)}
