"""The command line: `cooptions COMMAND ...`. Commands live in `commands.py`, imported only when one runs."""

import importlib
import sys
from collections.abc import Sequence

from rich.console import Console

from cooptions.errors import ConfigError, CooptionsError, Interrupted

COMMANDS: dict[str, str] = {
    "list": "show every scenario, preset and figure by name",
    "walk": "let a team walk at random and keep the data",
    "discover": "learn how the team's members stand together, and the slowest changes of that",
    "options": "train a joint option for each eigenfunction of a run, upwards and downwards",
    "show": "list the options of a run: what each does to the team, how long it takes; write GIFs",
    "train": "learn a task, with or without joint options, and evaluate the team as it learns",
    "evaluate": "let the final policies of a run play fresh episodes",
    "compare": "compare what several runs learned: a table, and curves with intervals",
    "verify": "discover, and measure the result against exact answers",
    "figure": "draw a figure from a run directory",
    "reproduce": "make the paper's figures: plan the runs, make those that are missing, keep the scores, draw",
    "play": "open a local page: drag a team, play its options, watch what it has learned",
    "run": "run the whole pipeline of a preset or scenario",
}
"""What each command does; `commands.py` has a function of the same name for each."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point. Expected errors are one line and exit code 2; an interrupted run exits with 130."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help"):
        _help()
        raise SystemExit(0 if arguments else 2)
    command, *rest = arguments
    try:
        if command not in COMMANDS:
            raise ConfigError(f"unknown command {command!r}; there are {', '.join(COMMANDS)}")
        getattr(importlib.import_module("cooptions.cli.commands"), f"{command}_command")(rest)
    except Interrupted as stopped:
        _fail(str(stopped), 130)
    except KeyboardInterrupt:
        _fail("stopped; finished stages are kept: run the same command to go on", 130)
    except CooptionsError as error:
        _fail(f"error: {error}", 2)
    except OSError as error:  # a full disk, a read-only place: finished artefacts are untouched
        _fail(f"error: {error.filename or 'writing'}: {error.strerror}", 2)


def _help() -> None:
    console = Console()
    console.print("[bold]cooptions[/]: options that a whole team of agents executes together\n")
    console.print("usage: cooptions COMMAND ...      (cooptions COMMAND --help tells more)\n")
    for name, text in COMMANDS.items():
        console.print(f"  {name:<10} {text}")
    console.print("\nbegin with: cooptions run quick")


def _fail(message: str, code: int) -> None:
    print(f"cooptions: {message}", file=sys.stderr)
    raise SystemExit(code)
