"""The command `cooptions options`, which trains joint options for the eigenfunctions of a run."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cooptions.cli.arguments import HELP, POSITIONAL, divide
from cooptions.errors import require


@dataclass(frozen=True)
class OptionsArguments:
    """Train a joint option for each eigenfunction of a run directory, upwards and downwards."""

    run: Path | None = dataclasses.field(default=None, metadata=POSITIONAL)
    """A run directory with eigenfunctions from `cooptions discover`."""
    track: str = "none"
    """Where to show live metrics: tensorboard or wandb (`pip install 'cooptions[track]'`)."""
    trust: bool = False
    """Import code from outside that the run directory names."""
    cache: bool = True
    """Do not keep compiled programs on disk."""


def main(words: Sequence[str]) -> dict[str, str]:
    arguments, others = divide(OptionsArguments, words, "options")
    from cooptions.cli.configured import FORMS, help_of, refuse_mistyped, with_flags  # imports JAX
    from cooptions.runs.presets import PRESETS

    form, flags = FORMS["options"], [each for each in others if each.name not in HELP]
    if len(flags) < len(others):
        whole = any(each.name == "help_all" for each in others)
        print(help_of(form, OptionsArguments, with_flags(form, PRESETS["quick"], flags), whole=whole))
        raise SystemExit(0)
    refuse_mistyped(form, flags)
    require(arguments.run is not None, "options: the first argument is a run directory, such as runs/quick")
    assert arguments.run is not None
    from cooptions.cli.existing import configuration_with_options
    from cooptions.cli.filling import fill

    config = with_flags(form, configuration_with_options(arguments.run, trust=arguments.trust), flags)
    fill("options", config, arguments.run, track=arguments.track, cache=arguments.cache)
    return {"run": str(arguments.run)}
