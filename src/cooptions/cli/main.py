"""The command line: `cooptions COMMAND ...`. A command's module is imported only when it runs."""

import gc
import importlib
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from cooptions.errors import ConfigError, CooptionsError, Interrupted
from cooptions.training.signals import obey_signals


@dataclass(frozen=True)
class Command:
    """One command: a module of this package whose `main` takes the arguments after its name."""

    summary: str
    """A one-line description."""
    then: str = ""
    """The command to suggest next, formatted with the dictionary that `main` returns. None suggests nothing."""


COMMANDS: dict[str, Command] = {
    "list": Command("show every scenario, preset, part and figure by name", "cooptions run quick"),
    "run": Command("run the whole pipeline of a preset or scenario", "cooptions show {run} --gif +e1"),
    "walk": Command("record a random walk of a team", "cooptions discover --config {run}/run.yaml --out {run}"),
    "discover": Command("learn a representation of the team and its slowest eigenfunctions", "cooptions options {run}"),
    "options": Command("train a joint option for each eigenfunction of a run", "cooptions show {run} --gif +e1"),
    "show": Command(
        "list the options of a run with their effects; write GIFs",
        "cooptions train --config {run}/run.yaml --out {run}",
    ),
    "train": Command("learn a task, with or without joint options, and evaluate the team", "cooptions evaluate {run}"),
    "evaluate": Command("evaluate the final policies of a run on new episodes", "cooptions compare {run} ANOTHER_RUN"),
    "compare": Command(
        "compare the scores of several runs: a table, and curves", "cooptions figure learning --run {run}"
    ),
    "verify": Command("discover, and measure the result against exact answers", "cooptions discover {scenario}"),
    "figure": Command("draw a figure from a run directory", "cooptions show {run}"),
    "play": Command("open a local page: drag a team, play its options, watch its policies"),
    "push": Command("upload an option set or a learned team to the Hugging Face Hub", "cooptions pull {name}"),
    "pull": Command("download and verify an option set or a learned team from the Hugging Face Hub"),
    "repair": Command(
        "check the files of a run; remove damaged ones after asking",
        "cooptions run --config {run}/run.yaml --out {run}",
    ),
    "campaign": Command("run the scenarios, methods and seeds of a file; compare, draw, report"),
}
"""Every command, in the order of `cooptions --help`."""


GARBAGE_THRESHOLD = 10_000
"""The threshold of the garbage collector. Imports and tracing create millions of objects and hardly any garbage: with
Python's default of 700, the collector takes a fifth of the time until a run begins."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line. Expected errors print one line and exit with 2; an interrupted command exits with 130."""
    arguments = sys.argv[1:] if arguments is None else arguments
    gc.set_threshold(GARBAGE_THRESHOLD)
    try:
        with obey_signals():
            _run(list(arguments))
    except Interrupted as stopped:
        _fail(str(stopped), 130)
    except KeyboardInterrupt:
        _fail("stopped; finished stages are kept: run the same command to go on", 130)
    except CooptionsError as error:
        _fail(f"error: {error}", 2)
    except BrokenPipeError:  # `cooptions list | head`
        sys.stderr.close()
        raise SystemExit(141) from None
    except OSError as error:  # for example a full or read-only disk: finished artefacts are untouched
        _fail(f"error: {error.filename or 'writing'}: {error.strerror}", 2)


def _run(arguments: list[str]) -> None:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help())
        raise SystemExit(0 if arguments else 2)
    name, *rest = arguments
    if name == "--version":
        print(f"cooptions {importlib.import_module('cooptions').__version__}")
        return
    if name not in COMMANDS:
        raise ConfigError(_unknown(name))
    filled = importlib.import_module(f"cooptions.cli.{name}").main(rest)
    if filled is not None:
        words = {key: shlex.quote(str(value)) for key, value in filled.items()}
        print(f"next: {COMMANDS[name].then.format(**words)}")


def _help() -> str:
    lines = [f"  {name:<10} {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "cooptions: options that a whole team of agents executes together",
            "",
            "usage: cooptions COMMAND ...      (`cooptions COMMAND --help` shows its flags)",
            "       cooptions --version",
            "",
            *lines,
            "",
            "begin with: cooptions run quick",
        ]
    )


def _unknown(name: str) -> str:
    from difflib import get_close_matches

    kind = "flag" if name.startswith("-") else "command"
    near = get_close_matches(name, COMMANDS if kind == "command" else ("--help", "--version"), n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(COMMANDS)}"
    return f"unknown {kind} {name!r}; {hint}"


def _fail(message: str, code: int) -> None:
    """Print a message as one line on standard error, and exit."""
    print(f"cooptions: {' '.join(message.splitlines())}", file=sys.stderr)
    raise SystemExit(code)
