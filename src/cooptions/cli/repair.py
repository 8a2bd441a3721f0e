"""The command `cooptions repair`, which checks the files of a run directory and removes damaged ones."""

import dataclasses
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cooptions.cli.arguments import POSITIONAL, parse
from cooptions.errors import ConfigError, require


@dataclass(frozen=True)
class RepairArguments:
    """Check the files of a run directory. Damaged files are removed if you agree. The command that made them makes them
    again."""

    run: Path | None = dataclasses.field(default=None, metadata=POSITIONAL)
    """A run directory."""
    yes: bool = False
    """Do not ask."""
    json: bool = False
    """Print one JSON object, and remove nothing unless --yes is given."""


def main(words: Sequence[str]) -> dict[str, str] | None:
    arguments = parse(RepairArguments, words, "repair")
    require(arguments.run is not None, "repair: the first argument is a run directory, such as runs/quick")
    assert arguments.run is not None
    from rich.table import Table
    from rich.text import Text

    from cooptions.cli import say
    from cooptions.runs.repair import inspect, remove_unsound, rows, unsound

    findings = inspect(arguments.run)
    bad = unsound(findings)
    if not arguments.json:
        table = Table("stage", "file", "state", "to be done")
        for row in rows(findings):
            table.add_row(*map(Text, row))
        say.show(table)
    agreed = bool(bad) and (arguments.yes or (not arguments.json and _asks(len(bad))))
    removed = remove_unsound(arguments.run) if agreed else []
    if arguments.json:
        say.as_json({"run": arguments.run, "files": findings, "removed": removed})
        return None
    for name in removed:
        print(f"removed: {name}")
    print("everything is sound" if not bad else "" if agreed else "nothing was removed", end="\n" if not agreed else "")
    return {"run": str(arguments.run)}


def _asks(num: int) -> bool:
    """Ask the user. Raises `ConfigError` if standard input is not a terminal."""
    if not sys.stdin.isatty():
        raise ConfigError(f"repair: {num} files are not sound: give --yes to remove them")
    return input(f"remove what is not sound ({num} files)? [y/N] ").strip().lower() in ("y", "yes")
