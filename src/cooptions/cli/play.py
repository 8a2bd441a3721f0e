"""The command `cooptions play`, which opens a local page to explore options and teams."""

from collections.abc import Sequence

from cooptions.cli.arguments import parse
from cooptions.playground.command import PlayArguments, play


def main(words: Sequence[str]) -> None:
    arguments = parse(PlayArguments, words, "play")
    from rich.console import Console

    play(arguments, Console())
