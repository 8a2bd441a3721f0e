"""The checks of a command line that run before JAX is imported."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from cooptions.cli.arguments import HELP, POSITIONAL, Given, divide, refuse_unknown
from cooptions.cli.catalogue import require_scenario
from cooptions.errors import require


@dataclass(frozen=True)
class RunArguments:
    """Make the missing stages of a run directory."""

    scenario: str = dataclasses.field(default="", metadata=POSITIONAL)
    """A preset or scenario (`cooptions list`), or `module:attribute` for your own."""
    out: Path | None = None
    """The run directory, by default `runs/SCENARIO`. Stages that are finished there are not made again."""
    config: Path | None = None
    """A YAML file with configuration fields by name, for example the `run.yaml` of a run directory."""
    track: str = "none"
    """Where to show live metrics: tensorboard or wandb (`pip install 'cooptions[track]'`)."""
    trust: bool = False
    """Import code from outside that the file of --config names."""
    cache: bool = True
    """Do not keep compiled programs on disk."""


Arguments = TypeVar("Arguments", bound=RunArguments)

SHORT = ("method", "representation", "laplacian", "options", "steps", "scenario", "seed", "seeds", "members", "basis")
"""The flags without a dot that set configuration fields."""


def divide_early(command: str, kind: type[Arguments], words: Sequence[str]) -> tuple[Arguments, list[Given]]:
    """Parse the arguments of a command and the flags of its configuration. Raises `ConfigError` for unknown names."""
    known, others = divide(kind, words, command)
    undotted = [given for given in others if "." not in given.name and given.name not in HELP]
    refuse_unknown(command, undotted, [*(field.name for field in dataclasses.fields(kind)), *SHORT])
    if known.scenario:
        require_scenario(known.scenario)
    return known, others


def require_begun(command: str, arguments: RunArguments, others: Sequence[Given]) -> None:
    """Raise `ConfigError` unless a scenario or a configuration file is given."""
    taken = next((each for each in others if len(each.values) > 1), None)
    hint = f"; it comes before {taken.typed}, which takes all that follows it" if taken else ""
    require(
        bool(arguments.scenario) or arguments.config is not None,
        f"{command}: the first argument is a preset or scenario (`cooptions list`), unless --config names one{hint}",
    )
