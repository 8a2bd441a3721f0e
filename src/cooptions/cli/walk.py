"""The command `cooptions walk`, which records a random walk of a team."""

from collections.abc import Sequence
from dataclasses import dataclass

from cooptions.cli.early import RunArguments, divide_early


@dataclass(frozen=True)
class WalkArguments(RunArguments):
    """Record a random walk of a team in a run directory."""


def main(words: Sequence[str]) -> dict[str, str]:
    arguments, others = divide_early("walk", WalkArguments, words)
    from cooptions.cli.pipeline import run_until  # imported late because it imports JAX

    return run_until("walk", WalkArguments, arguments, others)
