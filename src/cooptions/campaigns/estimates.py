"""How long a plan will take, and how much memory, from what was measured before; what was not is not guessed."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import jax
from rich.table import Table
from rich.text import Text

from cooptions.campaigns.groups import Group
from cooptions.campaigns.plan import Plan
from cooptions.campaigns.rows import Block, Row
from cooptions.files import encode
from cooptions.runs.config import Config, LearningConfig
from cooptions.training.memory import tree_bytes

ESTIMATE_SECONDS = 1.0
"""How long a plan may compute sizes of states; learners that are left have no estimate."""

Contestant = tuple[str, str]
"""A family of scenarios, and what files of speeds call a learner."""


@dataclass(frozen=True)
class Speeds:
    """What was measured of one seed among several."""

    milliseconds: dict[Contestant, float] = field(default_factory=dict)
    """Of an update."""
    gigabytes: dict[Contestant, float] = field(default_factory=dict)
    """Of the device's memory."""

    @classmethod
    def read(cls, folder: Path) -> "Speeds":
        """From the files of `benchmarks.learning_speed`."""
        speeds = cls()
        for path in sorted(folder.glob("learning_speed*.json")):
            measured = json.loads(path.read_text())
            for row in measured.get("rows", ()):
                contestant = row["scenario"], row["name"]
                speeds.milliseconds[contestant] = row["ms_per_update"] / measured["seeds"]
                if row.get("gigabytes"):
                    speeds.gigabytes[contestant] = row["gigabytes"] / measured["seeds"]
        return speeds

    def seconds(self, block: Block) -> float | None:
        """How long a block takes to learn, at its share of a group; `None` where nothing like it was measured."""
        measured = self.milliseconds.get(contestant(block))
        updates = block.config.learning.learner.num_updates
        return None if measured is None else measured * updates * block.num_seeds / 1e3

    def memory(self, group: Group) -> float | None:
        """Gigabytes of a group; `None` where nothing like it was measured."""
        measured = self.gigabytes.get(contestant(group.blocks[0]))
        return None if measured is None else measured * group.num_seeds


def contestant(block: Block) -> Contestant:
    """What files of speeds call a block, be it timed there or not."""
    return block.row.place.partition("-")[0], speed_name(block.config.learning)


def speed_name(learning: LearningConfig) -> str:
    """The learner's name in files of speeds, and that of the options it learns with."""
    learner, macro = learning.learner, learning.macro
    if macro is None:
        return learner.speed_name
    if macro.option_set:
        return f"{learner.speed_name}+given-options"
    return f"{learner.speed_name}+{'valued-options' if learner.intra_option else 'options'}"


def state_bytes(config: Config) -> int:
    """What one seed keeps through training: networks, replay, environments. What a step holds for a while, and what
    options add, comes on top."""
    stage = config.learning.stage
    return tree_bytes(jax.eval_shape(lambda key: stage.init(config.env, key=key), jax.random.key(0)))


def state_key(config: Config) -> tuple[str, str]:
    """What `state_bytes` depends on: other fields of a learner change no sizes."""
    learner = encode(config.learning.learner)
    return config.scenario, str([learner.get(name) for name in ("type", "num_envs", "rollout", "capacity", "network")])


def memories(groups: Sequence[Group], speeds: Speeds) -> list[str]:
    """Gigabytes of each group: as measured, or at least those of its state."""
    states: dict[tuple[str, str], int] = {}
    end = time.monotonic() + ESTIMATE_SECONDS

    def told(group: Group) -> str:
        measured = speeds.memory(group)
        if measured is not None:
            return f"{measured:.2g}"
        config = group.blocks[0].config
        key = state_key(config)
        if key not in states and time.monotonic() < end:
            states[key] = state_bytes(config)
        return f">{states[key] * group.num_seeds / 1e9:.2g}" if key in states else "?"

    return [told(group) for group in groups]


def plan_table(plan: Plan, speeds: Speeds) -> Table:
    """What the plan holds, each scenario's rows below its name; minutes are a row's share of its groups."""
    table = Table("method", "steps", "done", "missing", "minutes", "group", "GB", box=None, pad_edge=False)
    for column in table.columns:
        column.no_wrap = True  # scenarios and all fit into 80 columns
    groups: dict[Block, tuple[int, str]] = {}
    for number, (group, gigabytes) in enumerate(zip(plan.groups, memories(plan.groups, speeds), strict=True), 1):
        groups |= dict.fromkeys(group.blocks, (number, gigabytes))
    missing = set(plan.missing)
    for place in dict.fromkeys(row.place for row in plan.rows):
        table.add_row(Text(place, style="bold"))
        for row, blocks in plan.rows.items():
            if row.place == place:
                left = [block for block in blocks if block in missing]
                table.add_row(*_plan_cells(row, blocks, left, groups, speeds))
    return table


def _plan_cells(
    row: Row,
    blocks: Sequence[Block],
    missing: Sequence[Block],
    groups: Mapping[Block, tuple[int, str]],
    speeds: Speeds,
) -> list[str]:
    learners = sorted({groups[block] for block in missing if block in groups})
    steps = blocks[0].config.learning.learner.steps
    return [
        f"  {row.label}",
        f"{steps / 1e6:g}M" if row.learns else f"to {row.until}",
        spans([block for block in blocks if block not in missing]),
        spans(missing),
        _minutes([speeds.seconds(block) if row.learns else None for block in missing]),
        ",".join(str(number) for number, _ in learners),
        ",".join(size for _, size in learners),
    ]


def plan_summary(plan: Plan, speeds: Speeds) -> str:
    """How much is missing, and how long it will take to learn."""
    blocks = [block for group in plan.groups for block in group.blocks]
    seconds = [speeds.seconds(block) for block in blocks]
    timed = sum(each is not None for each in seconds)
    lines = [f"{len(plan.missing)} of {len(plan.blocks)} blocks are missing; programs that learn: {len(plan.groups)}."]
    if timed:
        lines.append(
            f"Learning: {_sum(seconds)} minutes for the {timed} of {len(blocks)} blocks whose speed was measured, one "
            "after the other, on the device of --speed. Discovery comes on top."
        )
    return "\n".join(lines)


def spans(blocks: Sequence[Block]) -> str:
    """The seeds of blocks, from and to."""
    found: list[list[int]] = []
    for block in sorted(blocks, key=lambda block: block.first):
        if found and found[-1][1] + 1 == block.first:
            found[-1][1] = block.seeds[-1]
        else:
            found.append([block.first, block.seeds[-1]])
    return ", ".join(f"{first}-{last}" for first, last in found)


def _minutes(seconds: Sequence[float | None]) -> str:
    if not seconds:
        return ""
    return "?" if None in seconds else _sum(seconds)


def _sum(seconds: Sequence[float | None]) -> str:
    minutes = sum(each for each in seconds if each is not None) / 60
    return f"{minutes:.0f}" if minutes >= 100 else f"{minutes:.3g}"
