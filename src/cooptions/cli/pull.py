"""The command `cooptions pull`, which downloads an option set or a team from the hub."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cooptions.cli.arguments import POSITIONAL, parse
from cooptions.errors import require


@dataclass(frozen=True)
class PullArguments:
    """Download an option set or a team from the Hugging Face Hub, and verify every byte."""

    name: str = dataclasses.field(default="", metadata=POSITIONAL)
    """hf://owner/name, or hf://owner/name@revision."""
    out: Path | None = None
    """The directory to write, by default named like the repository."""
    overwrite: bool = False
    """Replace an existing option set or team."""


def main(words: Sequence[str]) -> None:
    arguments = parse(PullArguments, words, "pull")
    require(bool(arguments.name), "pull: the first argument is a name on the hub, hf://owner/name")
    from cooptions.options.sharing.hub import HubName
    from cooptions.runs.shared import pull

    name = HubName.parse(arguments.name)
    out = arguments.out or Path(name.repository.partition("/")[2])
    print(pull(name, out, overwrite=arguments.overwrite))
