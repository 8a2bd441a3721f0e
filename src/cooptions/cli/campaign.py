"""The command `cooptions campaign`, which executes many runs from a file."""

from collections.abc import Sequence

from cooptions.campaigns.arguments import CampaignArguments
from cooptions.cli.arguments import parse


def main(words: Sequence[str]) -> None:
    arguments = parse(CampaignArguments, words, "campaign")
    from rich.console import Console

    from cooptions.campaigns.command import campaign

    campaign(arguments, Console())
