"""The command `cooptions train`, which learns a task."""

from collections.abc import Sequence
from dataclasses import dataclass

from cooptions.cli.early import RunArguments, divide_early


@dataclass(frozen=True)
class TrainArguments(RunArguments):
    """Learn a task, with or without joint options, and evaluate the team as it learns."""


def main(words: Sequence[str]) -> dict[str, str]:
    arguments, others = divide_early("train", TrainArguments, words)
    from cooptions.cli.pipeline import run_until  # imported late because it imports JAX

    return run_until("train", TrainArguments, arguments, others)
