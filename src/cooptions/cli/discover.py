"""The command `cooptions discover`, which learns a representation and eigenfunctions."""

from collections.abc import Sequence
from dataclasses import dataclass

from cooptions.cli.early import RunArguments, divide_early


@dataclass(frozen=True)
class DiscoverArguments(RunArguments):
    """Learn a representation of the team and its slowest eigenfunctions, from a walk."""


def main(words: Sequence[str]) -> dict[str, str]:
    arguments, others = divide_early("discover", DiscoverArguments, words)
    from cooptions.cli.pipeline import run_until  # imported late because it imports JAX

    return run_until("discover", DiscoverArguments, arguments, others)
