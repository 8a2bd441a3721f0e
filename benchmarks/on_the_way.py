"""The rows of the reproduction after fewer steps than they were trained for.

python -m benchmarks.on_the_way --at 2000000
"""

from dataclasses import dataclass
from pathlib import Path

import tyro

from benchmarks.learning import until
from cooptions.comparison import compare, markdown_table
from cooptions.reproduction.results import by_own_score, read_results


@dataclass(frozen=True)
class Arguments:
    """Print the table of all rows, as it was after so many steps."""

    at: int
    results: Path = Path("results/reproduction")


def main(arguments: Arguments) -> None:
    rows = by_own_score(read_results(arguments.results))
    print(markdown_table(compare([until(row.scores, arguments.at) for row in rows])))


if __name__ == "__main__":
    main(tyro.cli(Arguments))
