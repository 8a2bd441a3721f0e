"""What each command of the command line does."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from cooptions.config import Config
from cooptions.envs import SCENARIOS
from cooptions.errors import ConfigError
from cooptions.figures import FIGURES
from cooptions.pipeline import STAGES, run_pipeline
from cooptions.presets import PRESETS, preset

console = Console()


@dataclass(frozen=True)
class ListArguments:
    """Show everything that has a name."""

    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Print one JSON object instead of a table."""


@dataclass(frozen=True)
class RunArguments:
    """Fill a run directory, skipping what is there already."""

    config: Annotated[Config, tyro.conf.arg(name="")]
    out: Path
    """The run directory. What is already there, made by the same configuration, is not made again."""


def list_command(arguments: Sequence[str]) -> None:
    options = tyro.cli(ListArguments, args=arguments, prog="cooptions list")
    catalogue = {
        "scenarios": list(SCENARIOS),
        "presets": list(PRESETS),
        "figures": {name: figure.title for name, figure in FIGURES.items()},
    }
    if options.json:
        print(json.dumps(catalogue, indent=1))
        return
    table = Table("kind", "names", show_lines=True)
    for kind, names in catalogue.items():
        lines = [f"{name}: {text}" for name, text in names.items()] if isinstance(names, dict) else names
        table.add_row(kind, "\n".join(lines))
    console.print(table)


def walk_command(arguments: Sequence[str]) -> None:
    _run_until("walk", "walk", arguments)


def run_command(arguments: Sequence[str]) -> None:
    _run_until("run", list(STAGES)[-1], arguments)


def _run_until(command: str, stage: str, arguments: Sequence[str]) -> None:
    """Run the pipeline up to a stage, with the first argument's configuration and overrides from the others."""
    if not arguments or arguments[0] in ("-h", "--help"):
        console.print(f"usage: cooptions {command} PRESET [--out DIRECTORY] [--FIELD VALUE ...]")
        console.print(f"PRESET: {', '.join(PRESETS)}, or any scenario; `cooptions {command} quick --help` shows fields")
        raise SystemExit(0 if arguments else 2)
    name, *rest = arguments
    if name.startswith("-"):
        raise ConfigError(f"{command}: the first argument is a preset or scenario, not {name}")
    default = RunArguments(preset(name), Path("runs") / name.replace(":", "-"))
    options = tyro.cli(RunArguments, default=default, args=rest, prog=f"cooptions {command} PRESET")
    _ = options.config.team  # an unknown scenario or feature is refused before a directory is made for it
    run_pipeline(options.config, options.out, console, until=stage)
