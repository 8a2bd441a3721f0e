"""The command `cooptions push`, which uploads an option set or a team to the hub."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cooptions.cli.arguments import POSITIONAL, parse
from cooptions.errors import require


@dataclass(frozen=True)
class PushArguments:
    """Upload an option set, or with --team a learned team, to the Hugging Face Hub. Needs a token with write access."""

    what: Path | None = dataclasses.field(default=None, metadata=POSITIONAL)
    """A run directory, or the directory of an option set or team."""
    name: str = dataclasses.field(default="", metadata=POSITIONAL)
    """The destination: hf://owner/name, or hf://owner/name@branch. The repository is created if it does not exist."""
    team: bool = False
    """For a run directory, push the learned team instead of the option set."""
    seed: int = 0
    """The index of the run's seed, counted from 0."""
    license: str = ""
    """The license, by the hub's name for it; by default that of the card, or mit."""
    private: bool = False
    """If the repository does not exist yet, create it as private."""
    trust: bool = False
    """Import code from outside that the run directory names."""


def main(words: Sequence[str]) -> dict[str, str]:
    arguments = parse(PushArguments, words, "push")
    require(arguments.what is not None, "push: the first argument is a run directory, an option set or a team")
    require(bool(arguments.name), "push: the second argument is a name on the hub, hf://owner/name")
    assert arguments.what is not None
    from cooptions.options.sharing.hub import HubName
    from cooptions.runs.shared import push

    name = HubName.parse(arguments.name)
    pushed = push(
        arguments.what,
        name,
        team=arguments.team,
        seed=arguments.seed,
        license=arguments.license,
        private=arguments.private,
        trust=arguments.trust,
    )
    print(f"pushed: {pushed}")
    return {"name": str(name)}
