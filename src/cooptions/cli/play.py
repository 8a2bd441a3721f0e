"""`cooptions play`: a local page to play with what was found."""

from collections.abc import Sequence

from cooptions.cli.arguments import parse
from cooptions.playground.command import PlayArguments, play


def main(words: Sequence[str]) -> None:
    arguments = parse(PlayArguments, words, "play")
    from rich.console import Console

    play(arguments, Console())
