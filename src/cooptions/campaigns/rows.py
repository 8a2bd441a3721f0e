"""Rows of the reproduction: what is learned by which method, in which run directories, by which commands."""

import shlex
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from cooptions.errors import require
from cooptions.files import Json
from cooptions.runs.config import Config
from cooptions.runs.presets import DISCOVERY_SWAPS, LEARNING_SWAPS, Swaps, preset, with_parts
from cooptions.runs.stages import stage_configs

COMMANDS: dict[str, tuple[str, Swaps]] = {
    "walk": ("walk", DISCOVERY_SWAPS),
    "spectrum": ("discover", DISCOVERY_SWAPS),
    "options": ("discover", DISCOVERY_SWAPS),
    "learning": ("train", LEARNING_SWAPS),
}
"""The command that runs a scenario up to a stage, or up to the last one before it that has a command of its own."""

DISCOVERIES = 1
"""The seeds of a block share their options: to train those of each would take longer than all that is learned."""

RUNS = Path("runs/reproduction")
"""Where run directories go."""


@dataclass(frozen=True)
class Row:
    """One method in one scenario."""

    scenario: str
    """As the command line takes it: a scenario or a preset."""
    method: str
    num_options: int = 0
    """How many options are used, the first of the set; 0 for all."""
    until: str = "learning"
    """The stage it stops at: `learning`, or an earlier one for figures of discovery and options."""
    basis: str = ""
    """Another basis than the method's own."""

    def __post_init__(self) -> None:
        require(self.until in COMMANDS, f"until must be one of {', '.join(COMMANDS)}, not {self.until!r}")

    @property
    def learns(self) -> bool:
        return self.until == "learning"

    @property
    def place(self) -> str:
        """The scenario as files and tables call it."""
        return self.scenario.replace(":", "-")

    @property
    def label(self) -> str:
        return method_label(self.method, self.num_options)

    def __str__(self) -> str:
        return f"{self.place} {self.label}"


@dataclass(frozen=True)
class Block:
    """Seeds of a row that run side by side: the unit that can be made again, bit by bit, and one run directory."""

    row: Row
    first: int
    """The first seed."""
    num_seeds: int
    fraction: float = 1.0
    """How much of the row's steps of learning are taken. Discovery and the training of options stay as they are."""

    def __post_init__(self) -> None:
        require(0 < self.fraction <= 1, f"fraction must lie in (0, 1], not {self.fraction}")

    @property
    def seeds(self) -> range:
        return range(self.first, self.first + self.num_seeds)

    @property
    def place(self) -> Path:
        """Where its run directory lies among the runs of the reproduction."""
        return row_folder(self.row) / f"seeds-{self.first}-{self.seeds[-1]}{fraction_suffix(self.fraction)}"

    @cached_property
    def config(self) -> Config:
        """What its command makes."""
        row = self.row
        config = _preset(self._scenario)
        config = with_parts(config, COMMANDS[row.until][1]["method"].parts(row.method, config))
        config = replace(config, seed=self.first, seeds=self.num_seeds)
        if row.basis:
            config = replace(config, basis=row.basis)
        learning = config.learning
        learner = replace(learning.learner, steps=self._steps(config))
        macro = learning.macro
        if row.num_options:
            require(macro is not None, f"num_options: {row.method} has no options to take {row.num_options} of")
            macro = replace(macro, num_options=row.num_options)
        if row.learns and config.discovers:
            macro = replace(macro, discoveries=DISCOVERIES)
        return replace(config, learning=replace(learning, learner=learner, macro=macro))

    @property
    def stages(self) -> dict[str, Json]:
        """The configuration of each of its stages."""
        return stage_configs(self.config, self.row.until)

    @property
    def settings(self) -> Json:
        """What its scores depend on, whatever the seeds."""
        return settings_of(self.stages[self.row.until])

    def commands(self, runs: Path = RUNS) -> tuple[str, ...]:
        """The commands that make its run directory alone."""
        out = str(runs / self.place)
        first = ["cooptions", COMMANDS[self.row.until][0], self._scenario, "--method", self.row.method, *self._flags]
        commands = [shlex.join([*first, "--out", out])]
        if self.row.until == "options":
            commands.append(shlex.join(["cooptions", "options", out]))
        return tuple(commands)

    @property
    def _flags(self) -> list[str]:
        flags: dict[str, Any] = {"seed": self.first, "seeds": self.num_seeds}
        if self.row.basis:
            flags["basis"] = self.row.basis
        if self.row.num_options:
            flags["learning.macro.num-options"] = self.row.num_options
        macro = self.config.learning.macro
        if macro and macro.discoveries:
            flags["learning.macro.discoveries"] = macro.discoveries
        if self.fraction < 1:
            flags["learning.learner.steps"] = self.config.learning.learner.steps
        return [word for name, value in flags.items() for word in (f"--{name}", str(value))]

    def _steps(self, config: Config) -> int:
        return round(config.learning.learner.steps * self.fraction)

    @property
    def _scenario(self) -> str:
        """The scenario; shaped rewards fade over the same part of training, however short that is."""
        horizon = _preset(self.row.scenario).env.shaping_horizon
        if self.fraction == 1 or horizon == 0:
            return self.row.scenario
        options = [part for part in self.row.scenario.split(",") if not part.startswith("shaping_horizon=")]
        return ",".join([*options, f"shaping_horizon={round(horizon * self.fraction)}"])

    def __str__(self) -> str:
        return f"{self.row}, seeds {self.first} to {self.seeds[-1]}"


_preset = lru_cache(preset)
"""Each makes its environment, and many rows share one."""


def blocks(row: Row, num_seeds: int, size: int, fraction: float) -> tuple[Block, ...]:
    """The seeds from 0 on, in blocks of a size; the last may be smaller. A row that learns nothing has no fraction."""
    require(num_seeds >= 1, f"seeds must be at least 1, not {num_seeds}")
    require(size >= 1, f"block must be at least 1, not {size}")
    fraction = fraction if row.learns else 1.0
    return tuple(Block(row, first, min(size, num_seeds - first), fraction) for first in range(0, num_seeds, size))


def settings_of(stage: Json) -> Json:
    """What scores depend on, of the configuration of their stage: not the seeds, and how options are chosen only where
    there are any."""
    settings = {name: value for name, value in stage.items() if name not in ("seed", "seeds")}
    learning = settings.get("learning")
    if learning and learning["macro"] is None:
        learner = {name: value for name, value in learning["learner"].items() if name != "choice"}
        settings["learning"] = learning | {"learner": learner}
    return settings


def method_label(method: str, num_options: int) -> str:
    """The method, with the number of options if it is not all."""
    return f"{method}-{num_options}options" if num_options else method


def row_folder(row: Row) -> Path:
    """Where the run directories of a row lie among those of the reproduction."""
    folder = f"{row.label}-{row.basis}" if row.basis else row.label
    return Path(row.place) / folder


def fraction_suffix(fraction: float) -> str:
    return "" if fraction == 1 else f"-fraction-{fraction:g}"
