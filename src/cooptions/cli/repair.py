"""`cooptions repair`: what of a run directory is sound."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cooptions.cli.arguments import POSITIONAL, parse
from cooptions.errors import require


@dataclass(frozen=True)
class RepairArguments:
    """Show which files of a run are as they were made, and remove the others after asking."""

    run: Path | None = dataclasses.field(default=None, metadata=POSITIONAL)
    """A run directory."""
    yes: bool = False
    """Remove without asking."""
    json: bool = False
    """Print one JSON object instead of a table, and remove nothing unless --yes is given."""


def main(words: Sequence[str]) -> None:
    arguments = parse(RepairArguments, words, "repair")
    require(arguments.run is not None, "repair: the first argument is a run directory, such as runs/quick")
    assert arguments.run is not None
    from rich.markup import escape
    from rich.table import Table

    from cooptions.cli import say
    from cooptions.runs.repair import inspect, lost_stages, remove_unsound, rows, unsound

    findings = inspect(arguments.run)
    lost = lost_stages(findings)
    if not arguments.json:
        table = Table("stage", "file", "state", "remedy")
        for row in rows(findings):
            table.add_row(*map(escape, row))
        say.show(table)
    removed: list[str] = []
    if unsound(findings) and (arguments.yes or (not arguments.json and _agrees(lost))):
        removed = remove_unsound(arguments.run)
    if arguments.json:
        say.as_json({"run": arguments.run, "files": findings, "lost_stages": lost, "removed": removed})
    elif not unsound(findings):
        print("everything is sound")
    else:
        print(f"removed: {', '.join(removed) or 'nothing'}")


def _agrees(lost: Sequence[str]) -> bool:
    """Whether someone at a terminal says yes."""
    told = f", and have {', '.join(lost)} made again" if lost else ""
    try:
        return input(f"Remove what is not sound{told}? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
