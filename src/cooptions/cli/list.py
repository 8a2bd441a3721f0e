"""The command `cooptions list`, which shows all names."""

import json as json_format
from collections.abc import Sequence
from dataclasses import dataclass

from cooptions.cli.arguments import parse
from cooptions.cli.catalogue import names
from cooptions.cli.help import table


@dataclass(frozen=True)
class ListArguments:
    """Show every scenario, preset, part and figure by name, without importing them."""

    json: bool = False
    """Print one JSON object: the names of each kind with their descriptions."""


def main(words: Sequence[str]) -> dict[str, str] | None:
    arguments = parse(ListArguments, words, "list")
    found = names()
    if arguments.json:
        print(json_format.dumps(found, indent=1))
        return None
    for kind, entries in found.items():
        print(kind)
        print("\n".join(table(entries.items())), end="\n\n")
    return {}
