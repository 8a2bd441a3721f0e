"""The command `cooptions verify`, which runs discovery and measures the result against oracles."""

import json as json_format
from collections.abc import Sequence
from dataclasses import dataclass

from cooptions.cli.early import RunArguments, divide_early


@dataclass(frozen=True)
class VerifyArguments(RunArguments):
    """Run discovery and measure it against exact solutions. Prints one JSON object with the provenance."""

    json: bool = False
    """Print the object on one line."""


def main(words: Sequence[str]) -> dict[str, str] | None:
    arguments, others = divide_early("verify", VerifyArguments, words)
    from cooptions.cli.pipeline import asked_for  # imported late because it imports JAX

    config = asked_for("verify", VerifyArguments, arguments, others)
    from cooptions.cli import say
    from cooptions.cli.compilation import keep_compiled
    from cooptions.files import encode
    from cooptions.runs.directory import provenance
    from cooptions.runs.verify import verify

    keep_compiled(arguments.cache)
    result = verify(config, say.progress(quiet=True))
    whole = {"config": encode(config), **result, **provenance()}
    print(json_format.dumps(whole, indent=None if arguments.json else 1))
    return None
