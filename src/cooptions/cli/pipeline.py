"""The shared implementation of the commands that make the stages of a run directory."""

from collections.abc import Sequence
from pathlib import Path

from cooptions.cli.arguments import HELP, Given
from cooptions.cli.configured import FORMS, configured, help_of, refuse_mistyped
from cooptions.cli.early import RunArguments, require_begun
from cooptions.runs.config import Config


def run_until(command: str, kind: type, arguments: RunArguments, others: Sequence[Given]) -> dict[str, str]:
    """Run the stages of a command with the configuration of its arguments."""
    config = asked_for(command, kind, arguments, others)
    from cooptions.cli.filling import fill  # imported late because it imports Matplotlib

    out = arguments.out or Path("runs") / (arguments.scenario or config.scenario).replace(":", "-")
    fill(command, config, out, track=arguments.track, cache=arguments.cache)
    return {"run": str(out), "scenario": config.scenario}


def asked_for(command: str, kind: type, arguments: RunArguments, others: Sequence[Given]) -> Config:
    """The configuration of a command's arguments. `--help` prints the flags and exits."""
    form = FORMS[command]
    flags = [each for each in others if each.name not in HELP]
    helps = len(flags) < len(others)
    if not helps:
        require_begun(command, arguments, others)
        refuse_mistyped(form, flags)
    scenario = arguments.scenario or ("" if arguments.config or not helps else "quick")
    config = configured(form, scenario, arguments.config, flags, trust=arguments.trust)
    if helps:
        print(help_of(form, kind, config, whole=any(each.name == "help_all" for each in others)))
        raise SystemExit(0)
    _ = config.discovery  # raises for incompatible parts before a directory is made
    return config
