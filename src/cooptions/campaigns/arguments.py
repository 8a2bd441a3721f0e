"""The arguments of `cooptions campaign`, in a module that imports nothing heavy."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cooptions.errors import require, require_number, require_whole


@dataclass(frozen=True)
class CampaignArguments:
    """Run the missing parts of a campaign, then draw its figures and write its report."""

    file: Path = dataclasses.field(default=Path(), metadata={"positional": True})
    """The campaign file, in YAML."""
    plan: bool = False
    """Show the rows with the memory and time they need, and stop."""
    report: bool = False
    """Only write the report and the pages again from the results."""
    executor: Literal["inline", "processes", "ray"] = "inline"
    """Where jobs run: one after the other, in parallel processes, or on a Ray cluster."""
    beside: int = 2
    """With `processes`: the number of parallel processes. Several use a large GPU better than one at a time."""
    address: str = ""
    """With `ray`: the cluster's address, for example `auto`. Without one, a cluster starts on this machine."""
    gpus: float = 0.0
    """With `ray`: the fraction of a GPU that a job takes. With 0.25, four jobs share a GPU."""
    cpus: float = 1.0
    """With `ray`: the number of cores that a job takes."""
    members: int = 0
    """The maximum number of seeds in one program; by default 60, or one block with `ray`. Fewer need less memory."""
    lineups: tuple[str, ...] = ()
    """Only these line-ups."""
    methods: tuple[str, ...] = ()
    """Only these methods."""
    scenarios: tuple[str, ...] = ()
    """Only these scenarios."""
    seeds: int = 0
    """The number of seeds of every row, instead of the file's."""
    fraction: float = 0.0
    """The fraction of every row's steps to train for, instead of the file's."""
    runs: Path | None = None
    """The folder for run directories, instead of the file's. All workers need access to it."""
    results: Path | None = None
    """The folder for scores and pictures, instead of the file's. Seeds found there are not run again, and the
    file's pages are not written."""
    speed: Path = Path("results/speed")
    """The folder with measured speeds, for the estimate."""
    track: str = "none"
    """Where to show live metrics: tensorboard or wandb (`pip install 'cooptions[track]'`)."""
    trust: bool = False
    """Import code that the file names, for example your own environment (`module:attribute`)."""

    def __post_init__(self) -> None:
        require(self.file != Path(), "campaign: name a campaign file, in YAML")
        for name in ("members", "seeds", "gpus", "cpus", "fraction"):
            require_number(name, getattr(self, name), at_least=0)
        require_whole("beside", self.beside)
