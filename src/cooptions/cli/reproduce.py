"""`cooptions reproduce`: the paper's figures, from plan to picture."""

from collections.abc import Sequence


def main(words: Sequence[str]) -> None:
    import tyro
    from rich.console import Console

    from cooptions.campaigns.command import ReproduceArguments, reproduce

    reproduce(tyro.cli(ReproduceArguments, args=words, prog="cooptions reproduce"), Console())
