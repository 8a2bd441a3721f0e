"""The command `cooptions compare`, which compares the scores of several runs."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cooptions.cli.arguments import POSITIONAL, parse
from cooptions.errors import require


@dataclass(frozen=True)
class CompareArguments:
    """Compare several runs: a table, the probability that each scores above the first, and curves with intervals."""

    runs: tuple[Path, ...] = dataclasses.field(default=(), metadata=POSITIONAL)
    """Run directories. The others are compared with the first."""
    metric: str = ""
    """The score to compare, by default the environment's first one. `return` is the sum of rewards."""
    names: tuple[str, ...] = ()
    """A name for each run, by default its method."""
    last: int = 1
    """The number of last evaluations that the table averages."""
    out: Path | None = None
    """A directory for the picture of the curves. Without it, none is drawn."""
    marl_eval: Path | None = None
    """Also write the scores to this file, in marl-eval's JSON format."""
    json: bool = False
    """Print one JSON object instead of a table."""


def main(words: Sequence[str]) -> dict[str, str] | None:
    arguments = parse(CompareArguments, words, "compare")
    require(len(arguments.runs) > 0, "compare: name at least one run directory")
    from cooptions.cli import say
    from cooptions.runs.learned import scores_to_compare
    from cooptions.scores.comparison import compare, improvements, rich_table, save_marl_eval

    scores = scores_to_compare(arguments.runs, arguments.metric, arguments.names)
    averaged = [each.averaged() for each in scores]
    rows, lines = compare(averaged, last=arguments.last), improvements(averaged, last=arguments.last)
    if arguments.marl_eval is not None:
        save_marl_eval(arguments.marl_eval, scores)
    pictures = _draw(averaged, arguments.out) if arguments.out else []
    if arguments.json:
        say.as_json({"rows": rows, "improvements": lines, "pictures": pictures})
        return None
    say.show(rich_table(rows))
    print("\n".join(lines), end="\n" if lines else "")
    say.pictures(pictures)
    if arguments.marl_eval is not None:
        print(f"scores: {arguments.marl_eval}")
    return {"run": str(arguments.runs[0])}


def _draw(scores: Sequence[Any], out: Path) -> list[Path]:
    from cooptions.plots.canvas import write_canvas
    from cooptions.plots.curves import plot_learning_curves

    return list(write_canvas(plot_learning_curves(scores), out / "curves"))
