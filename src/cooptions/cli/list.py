"""`cooptions list`: everything that has a name."""

import json as json_format
from collections.abc import Sequence
from dataclasses import dataclass

from cooptions.cli.arguments import parse
from cooptions.cli.catalogue import names
from cooptions.cli.help import table


@dataclass(frozen=True)
class ListArguments:
    """Show every scenario, preset, part and figure by name. Nothing is imported for it."""

    json: bool = False
    """Print one JSON object: the names of each kind, each with what it is."""


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
