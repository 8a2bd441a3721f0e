"""The command `cooptions evaluate`, which evaluates a run's policies on new episodes."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cooptions.cli.arguments import POSITIONAL, parse
from cooptions.errors import require, require_whole

if TYPE_CHECKING:
    from cooptions.runs.run import Run

MOST_EPISODES = 1_000_000
LARGEST_KEY = 2**15
"""The largest random key. Key k adds 2**16 * k to the run's seeds, which have 32 bits."""


@dataclass(frozen=True)
class EvaluateArguments:
    """Evaluate the final policies of a run on new episodes."""

    run: Path | None = dataclasses.field(default=None, metadata=POSITIONAL)
    """A run directory in which a task was learned."""
    episodes: int = 1000
    """The number of episodes per seed."""
    key: int = 1
    """The random key of the episodes. Another number gives other episodes."""
    gif: bool = False
    """Also write a GIF of one episode, with the option that is active at each step."""
    seed: int = 0
    """The index of the seed for the GIF, counted from 0."""
    json: bool = False
    """Print one JSON object instead of a table."""
    trust: bool = False
    """Import code from outside that the run directory names."""
    cache: bool = True
    """Do not keep compiled programs on disk."""

    def __post_init__(self) -> None:
        require_whole("episodes", self.episodes, at_most=MOST_EPISODES)
        require_whole("key", self.key, at_least=0, at_most=LARGEST_KEY)


def main(words: Sequence[str]) -> dict[str, str] | None:
    arguments = parse(EvaluateArguments, words, "evaluate")
    require(arguments.run is not None, "evaluate: the first argument is a run directory, such as runs/quick")
    assert arguments.run is not None
    from cooptions.cli import say
    from cooptions.cli.compilation import keep_compiled
    from cooptions.cli.existing import reopened
    from cooptions.runs.learned import evaluate_run
    from cooptions.scores.comparison import compare, rich_table

    keep_compiled(arguments.cache)
    run = reopened("evaluate", arguments.run, say.progress(quiet=arguments.json), trust=arguments.trust)
    keys = dataclasses.replace(run.config, seed=run.config.seed + 2**16 * arguments.key).keys("evaluate")
    rows = compare([each.averaged() for each in evaluate_run(run, arguments.episodes, keys)])
    pictures = [_gif(run, arguments)] if arguments.gif else []
    if arguments.json:
        say.as_json(
            {
                "run": arguments.run,
                "episodes": arguments.episodes,
                "key": arguments.key,
                "rows": rows,
                "pictures": pictures,
            }
        )
        return None
    say.show(rich_table(rows))
    say.pictures(pictures)
    return {"run": str(arguments.run)}


def _gif(run: "Run", arguments: EvaluateArguments) -> Path:
    """Write a GIF of one episode of a seed's team to the run directory, and return its path."""
    import jax

    from cooptions.runs.team import team_of_run

    path = run.directory.file("figures", f"team-seed-{run.config.seed + arguments.seed}.gif")
    path.parent.mkdir(parents=True, exist_ok=True)
    team_of_run(run, arguments.seed).play(key=jax.random.key(arguments.key), gif=path)
    return path
