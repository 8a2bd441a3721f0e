"""Rows of a campaign (a method in a scenario), their blocks of seeds, run directories and commands."""

import shlex
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from cooptions.campaigns.overrides import Override, has_path, with_overrides
from cooptions.errors import require
from cooptions.files import Json
from cooptions.runs.config import Config
from cooptions.runs.presets import DISCOVERY_SWAPS, LEARNING_SWAPS, Swap, preset, with_parts
from cooptions.runs.stages import STAGES, stage_configs


@dataclass(frozen=True)
class Command:
    """The command that runs a scenario up to a stage, or to the last earlier stage that has a command."""

    name: str
    methods: Swap
    """The methods that its rows may name."""
    takes_method: bool = True


COMMANDS: dict[str, Command] = {
    "walk": Command("walk", DISCOVERY_SWAPS["method"], takes_method=False),
    "spectrum": Command("discover", DISCOVERY_SWAPS["method"]),
    "options": Command("discover", DISCOVERY_SWAPS["method"]),
    "learning": Command("train", LEARNING_SWAPS["method"]),
}
"""The stages at which a row may stop, each with its command."""


class _Plain:
    """A frozen dataclass that is pickled without its cached properties."""

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True)
class Row(_Plain):
    """One method in one scenario."""

    scenario: str
    """A scenario or preset, as on the command line."""
    method: str
    num_options: int = 0
    """The number of options used, the first of the set; 0 for all."""
    until: str = "learning"
    """The stage at which it stops: `learning`, or an earlier one for figures of discovery and options."""
    overrides: tuple[Override, ...] = ()
    """Configuration fields with other values than the method's."""
    variant: str = ""
    """The name of these overrides, to distinguish the row from the same method with other settings."""

    def __post_init__(self) -> None:
        require(self.until in COMMANDS, f"until must be one of {', '.join(COMMANDS)}, not {self.until!r}")

    @property
    def learns(self) -> bool:
        return self.until == "learning"

    @property
    def place(self) -> str:
        """The scenario's name in files and tables."""
        return self.scenario.replace(":", "-").replace("/", "-")

    @property
    def label(self) -> str:
        return method_label(self.method, self.num_options, self.variant)

    @cached_property
    def config(self) -> Config:
        """The configuration of one seed over all steps."""
        config = scenario_preset(self.scenario)
        config = with_parts(config, COMMANDS[self.until].methods.parts(self.method, config))
        config = with_overrides(config, self.overrides)
        learning, macro = config.learning, config.learning.macro
        if self.num_options:
            require(macro is not None, f"num_options: {self.method} has no options to take {self.num_options} of")
            config = replace(config, learning=replace(learning, macro=replace(macro, num_options=self.num_options)))
        return config

    def uses(self, path: str) -> bool:
        """Whether its configuration has this field and one of its stages uses it."""
        config = self.config
        stages = (*STAGES[self.until].after(config), self.until)
        looked_at = {field for stage in stages for field in STAGES[stage].fields}
        return path.partition(".")[0] in looked_at and has_path(config, path)

    def __str__(self) -> str:
        return f"{self.place} {self.label}"


@dataclass(frozen=True)
class Block(_Plain):
    """Consecutive seeds of a row that share a run directory. A block can be reproduced bit for bit."""

    row: Row
    first: int
    """The first seed."""
    num_seeds: int
    fraction: float = 1.0
    """The fraction of the row's learning steps. Discovery and option training are not shortened."""
    discoveries: int = field(default=1, compare=False)
    """The number of seeds, from the first, that discover options; the others share these. 0: every seed discovers."""

    def __post_init__(self) -> None:
        require(0 < self.fraction <= 1, f"fraction must lie in (0, 1], not {self.fraction}")

    @property
    def seeds(self) -> range:
        return range(self.first, self.first + self.num_seeds)

    @property
    def place(self) -> Path:
        """The path of its run directory within the campaign's runs."""
        return row_folder(self.row) / f"seeds-{self.first}-{self.seeds[-1]}{fraction_suffix(self.fraction)}"

    @cached_property
    def config(self) -> Config:
        """The configuration of its command."""
        config = replace(self.row.config, seed=self.first, seeds=self.num_seeds)
        if self._scenario != self.row.scenario:
            config = replace(config, scenario=self._scenario)
        learning, macro = config.learning, config.learning.macro
        learner = replace(learning.learner, steps=round(learning.learner.steps * self.fraction))
        if self.row.learns and config.discovers:
            macro = replace(macro, discoveries=min(self.discoveries, self.num_seeds))
        return replace(config, learning=replace(learning, learner=learner, macro=macro))

    @property
    def stages(self) -> dict[str, Json]:
        """The configuration of each of its stages."""
        return stage_configs(self.config, self.row.until)

    @property
    def settings(self) -> Json:
        """The configuration that its scores depend on, without the seeds."""
        return settings_of(self.stages[self.row.until])

    def commands(self, runs: Path = Path("runs")) -> tuple[str, ...]:
        """The commands that make its run directory without a campaign."""
        out = str(runs / self.place)
        command = COMMANDS[self.row.until]
        method = ["--method", self.row.method] if command.takes_method else []
        words = ["cooptions", command.name, self._scenario, *method, *self._flags, "--out", out]
        commands = [shlex.join(words)]
        if self.row.until == "options":
            commands.append(shlex.join(["cooptions", "options", out]))
        return tuple(commands)

    @property
    def _flags(self) -> list[str]:
        flags: dict[str, Any] = {"seed": self.first, "seeds": self.num_seeds}
        flags |= {path: value for path, value in self.row.overrides if has_path(self.config, path)}
        if self.row.num_options:
            flags["learning.macro.num_options"] = self.row.num_options
        macro = self.config.learning.macro
        if macro and macro.discoveries:
            flags["learning.macro.discoveries"] = macro.discoveries
        if self.fraction < 1:
            flags["learning.learner.steps"] = self.config.learning.learner.steps
        return [word for path, value in flags.items() for word in _words(path, value)]

    @property
    def _scenario(self) -> str:
        """The scenario, with the horizon of shaped rewards multiplied by the fraction."""
        horizon = self.row.config.env.shaping_horizon
        if self.fraction == 1 or horizon == 0:
            return self.row.scenario
        options = [part for part in self.row.scenario.split(",") if not part.startswith("shaping_horizon=")]
        return ",".join([*options, f"shaping_horizon={round(horizon * self.fraction)}"])

    def __str__(self) -> str:
        return f"{self.row}, seeds {self.first} to {self.seeds[-1]}"


MOST_SEEDS = 1_000_000
"""The maximum number of seeds of a row."""


@dataclass(frozen=True)
class Seeding:
    """The seeds of a row, and how they are divided into blocks."""

    seeds: range
    block: int = 5
    """Seeds per run directory. The last block may be smaller."""
    discoveries: int = 1
    """The number of seeds of a block that discover options."""

    def __post_init__(self) -> None:
        require(len(self.seeds) >= 1, f"seeds must be at least 1, not {len(self.seeds)}")
        require(len(self.seeds) <= MOST_SEEDS, f"seeds must be at most {MOST_SEEDS}, not {len(self.seeds)}")
        require(self.block >= 1, f"block must be at least 1, not {self.block}")

    def blocks(self, row: Row, fraction: float) -> tuple[Block, ...]:
        """The blocks of a row. The fraction applies only to rows that train a learner."""
        share = fraction if row.learns else 1.0
        end = self.seeds[-1] + 1
        starts = range(self.seeds[0], end, self.block)
        return tuple(Block(row, at, min(self.block, end - at), share, self.discoveries) for at in starts)

    def widened(self, other: "Seeding") -> "Seeding":
        """This seeding, extended to the seeds of both."""
        return replace(self, seeds=range(min(self.seeds[0], other.seeds[0]), max(self.seeds[-1], other.seeds[-1]) + 1))


scenario_preset = lru_cache(preset)
"""The configuration of a scenario. Cached, because it makes an environment that many rows share."""


def known_methods(until: str) -> list[str]:
    """The names of the methods for rows that stop at a stage: each learner, alone and with every kind of options."""
    names = COMMANDS[until].methods.names()
    alone = [name for name in names if "+" not in name]
    added = [name.partition("+")[2] for name in names if "+" in name]
    return [*alone, *(f"{learner}+{options}" for learner in alone for options in added)]


def settings_of(stage: Json) -> Json:
    """The part of a stage's configuration that scores depend on.

    The seeds are left out, and the exploration of options is left out if there are no options.
    """
    settings = {name: value for name, value in stage.items() if name not in ("seed", "seeds")}
    learning = settings.get("learning")
    if learning and learning["macro"] is None:
        learner = {name: value for name, value in learning["learner"].items() if name != "choice"}
        settings["learning"] = learning | {"learner": learner}
    return settings


def method_label(method: str, num_options: int = 0, variant: str = "") -> str:
    """The method's label: its name, the number of options if it is not all, and the variant if there is one."""
    counted = f"{method}-{num_options}options" if num_options else method
    return f"{counted}@{variant}" if variant else counted


def row_folder(row: Row) -> Path:
    """The folder of a row's run directories within the campaign's runs."""
    return Path(row.place) / row.label


def fraction_suffix(fraction: float) -> str:
    return "" if fraction == 1 else f"-fraction-{fraction:g}"


def _words(path: str, value: Any) -> list[str]:
    """An override as a command-line flag."""
    *parents, name = path.replace("_", "-").split(".")
    if isinstance(value, bool):
        return ["--" + ".".join([*parents, name if value else f"no-{name}"])]
    values = value if isinstance(value, tuple) else (value,)
    return ["--" + ".".join([*parents, name]), *map(str, values)]
