"""The command `cooptions run`, which runs every stage of a preset or scenario."""

from collections.abc import Sequence
from dataclasses import dataclass

from cooptions.cli.early import RunArguments, divide_early


@dataclass(frozen=True)
class WholeRunArguments(RunArguments):
    """Run every stage of a preset or scenario: walk, discovery, options, learning."""


def main(words: Sequence[str]) -> dict[str, str]:
    arguments, others = divide_early("run", WholeRunArguments, words)
    from cooptions.cli.pipeline import run_until  # imported late because it imports JAX

    return run_until("run", WholeRunArguments, arguments, others)
