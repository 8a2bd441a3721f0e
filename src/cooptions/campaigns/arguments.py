"""The arguments of `cooptions campaign`; importing them imports nothing heavy."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cooptions.errors import require, require_number, require_whole


@dataclass(frozen=True)
class CampaignArguments:
    """Run what is missing of a campaign, then draw its figures and write its report."""

    file: Path = dataclasses.field(default=Path(), metadata={"positional": True})
    """The campaign file, in YAML."""
    plan: bool = False
    """Show the rows, the memory they need and the time they take, and stop."""
    report: bool = False
    """Only write the report and the pages anew from the results."""
    executor: Literal["inline", "processes", "ray"] = "inline"
    """Where jobs run: one after the other, in processes side by side, or on a Ray cluster."""
    beside: int = 2
    """With `processes`: programs that run at once. A large GPU does several in less time than in turn."""
    address: str = ""
    """With `ray`: the cluster's address, such as `auto`. Without one, a cluster of this machine is begun."""
    gpus: float = 0.0
    """With `ray`: the share of a GPU that a job takes; 0.25 puts four side by side."""
    cpus: float = 1.0
    """With `ray`: the cores that a job takes."""
    members: int = 0
    """Seeds that learn in one program at most; 60, or with `ray` one block, when left out. Fewer need less memory."""
    lineups: tuple[str, ...] = ()
    """Only these line-ups."""
    methods: tuple[str, ...] = ()
    """Only these methods."""
    scenarios: tuple[str, ...] = ()
    """Only these scenarios."""
    seeds: int = 0
    """This number of seeds of every row, instead of the file's."""
    fraction: float = 0.0
    """This share of all steps, instead of the file's."""
    runs: Path | None = None
    """Where run directories go, instead of the file's place. All workers must see it."""
    results: Path | None = None
    """Where scores and pictures are kept, instead of the file's place. Seeds that are found here are not made again."""
    speed: Path = Path("results/speed")
    """Where measured speeds are, for the estimate."""
    track: str = "none"
    """Where to watch training besides the terminal: tensorboard or wandb (`pip install 'cooptions[track]'`)."""
    trust: bool = False
    """Import code that the file names, such as an environment of your own (`module:attribute`)."""

    def __post_init__(self) -> None:
        require(self.file != Path(), "campaign: name a campaign file, in YAML")
        for name in ("members", "seeds", "gpus", "cpus", "fraction"):
            require_number(name, getattr(self, name), at_least=0)
        require_whole("beside", self.beside)
