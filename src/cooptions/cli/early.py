"""What can be refused, or shown, before JAX is imported."""

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
    """Fill a run directory, skipping what is there already."""

    scenario: str = dataclasses.field(default="", metadata=POSITIONAL)
    """A preset or scenario (`cooptions list`), or `module:attribute` of your own."""
    out: Path | None = None
    """The run directory; `runs/SCENARIO` when left out. What the same configuration made there is not made again."""
    config: Path | None = None
    """A YAML file of what to set: fields by name, as `run.yaml` of a run directory has them, or only some."""
    track: str = "none"
    """Where to watch training besides the terminal: tensorboard or wandb (`pip install 'cooptions[track]'`)."""
    trust: bool = False
    """Import code from outside that the file of --config names."""
    cache: bool = True
    """Do not keep compiled programs for the next time."""


Arguments = TypeVar("Arguments", bound=RunArguments)

SHORT = ("method", "representation", "laplacian", "options", "steps", "scenario", "seed", "seeds", "members", "basis")
"""The flags without a dot that set something in a configuration."""


def divide_early(command: str, kind: type[Arguments], words: Sequence[str]) -> tuple[Arguments, list[Given]]:
    """The arguments of a command and the flags of its configuration; names that cannot be right are refused."""
    known, others = divide(kind, words, command)
    undotted = [given for given in others if "." not in given.name and given.name not in HELP]
    refuse_unknown(command, undotted, [*(field.name for field in dataclasses.fields(kind)), *SHORT])
    if known.scenario:
        require_scenario(known.scenario)
    return known, others


def require_begun(command: str, arguments: RunArguments, others: Sequence[Given]) -> None:
    """Something must say what to run."""
    taken = next((each for each in others if len(each.values) > 1), None)
    hint = f"; it comes before {taken.typed}, which takes all that follows it" if taken else ""
    require(
        bool(arguments.scenario) or arguments.config is not None,
        f"{command}: the first argument is a preset or scenario (`cooptions list`), unless --config names one{hint}",
    )
