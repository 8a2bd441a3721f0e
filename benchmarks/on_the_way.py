"""The rows of the reproduction before the end of training.

python -m benchmarks.on_the_way --at 2000000         # what they scored after so many steps
python -m benchmarks.on_the_way --at 2000000 --mean  # the mean of all evaluations until then
"""

from dataclasses import dataclass
from pathlib import Path

import tyro

from benchmarks.learning import until
from cooptions.campaigns.results import by_own_score, read_results
from cooptions.scores.comparison import compare, markdown_comparison
from cooptions.scores.statistics import over_training


@dataclass(frozen=True)
class Arguments:
    """Print the table of all rows, as it was after so many steps."""

    at: int = 0
    """Steps; 0 for all."""
    mean: bool = False
    """Print the mean of all evaluations until then: who learns early, and keeps it, has the higher one."""
    results: Path = Path("results/reproduction")


def main(arguments: Arguments) -> None:
    rows = [until(row.scores, arguments.at) for row in by_own_score(read_results(arguments.results))]
    print(markdown_comparison(compare([over_training(row) for row in rows] if arguments.mean else rows)))


if __name__ == "__main__":
    main(tyro.cli(Arguments))
