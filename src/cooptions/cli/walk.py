"""`cooptions walk`: let a team walk at random."""

from collections.abc import Sequence
from dataclasses import dataclass

from cooptions.cli.early import RunArguments, divide_early


@dataclass(frozen=True)
class WalkArguments(RunArguments):
    """Let a team walk at random, and keep the data in a run directory."""


def main(words: Sequence[str]) -> dict[str, str]:
    arguments, others = divide_early("walk", WalkArguments, words)
    from cooptions.cli.pipeline import run_until  # late: it imports JAX

    return run_until("walk", WalkArguments, arguments, others)
