"""Estimates of a plan's time and memory from earlier measurements. Rows without measurements have no estimate."""

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
"""The time limit for computing state sizes of a plan. Learners beyond it have no estimate."""

Contestant = tuple[str, str]
"""A family of scenarios, and a learner's name in speed files."""


@dataclass(frozen=True)
class Speeds:
    """Measured time and memory per seed, when several seeds train together."""

    milliseconds: dict[Contestant, float] = field(default_factory=dict)
    """Milliseconds per update."""
    gigabytes: dict[Contestant, float] = field(default_factory=dict)
    """Gigabytes of the device's memory."""

    @classmethod
    def read(cls, folder: Path) -> "Speeds":
        """Read the files that `benchmarks.learning_speed` wrote."""
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
        """The training time of a block within its group; None if its learner was not measured."""
        measured = self.milliseconds.get(contestant(block))
        updates = block.config.learning.learner.num_updates
        return None if measured is None else measured * updates * block.num_seeds / 1e3

    def memory(self, group: Group) -> float | None:
        """The memory of a group in gigabytes; None if its learner was not measured."""
        measured = self.gigabytes.get(contestant(group.blocks[0]))
        return None if measured is None else measured * group.num_seeds


def contestant(block: Block) -> Contestant:
    """The key of a block in speed files."""
    return block.row.place.partition("-")[0], speed_name(block.config.learning)


def speed_name(learning: LearningConfig) -> str:
    """The name in speed files of the learner and the kind of options it uses."""
    learner, macro = learning.learner, learning.macro
    if macro is None:
        return learner.speed_name
    if macro.option_set:
        return f"{learner.speed_name}+given-options"
    return f"{learner.speed_name}+{'valued-options' if learner.intra_option else 'options'}"


def state_bytes(config: Config) -> int:
    """Bytes of one seed's training state: networks, replay, environments.

    The temporary memory of a step and the memory of options are not included.
    """
    stage = config.learning.stage
    return tree_bytes(jax.eval_shape(lambda key: stage.init(config.env, key=key), jax.random.key(0)))


def state_key(config: Config) -> tuple[str, str]:
    """The fields that `state_bytes` depends on, as a key for caching."""
    learner = encode(config.learning.learner)
    return config.scenario, str([learner.get(name) for name in ("type", "num_envs", "rollout", "capacity", "network")])


def memories(groups: Sequence[Group], speeds: Speeds) -> list[str]:
    """The gigabytes of each group in words: measured, or the size of its state as a lower bound."""
    states: dict[tuple[str, str], int] = {}
    end = time.monotonic() + ESTIMATE_SECONDS

    def estimate(group: Group) -> str:
        measured = speeds.memory(group)
        if measured is not None:
            return f"{measured:.2g}"
        config = group.blocks[0].config
        key = state_key(config)
        if key not in states and time.monotonic() < end:
            states[key] = state_bytes(config)
        return f">{states[key] * group.num_seeds / 1e9:.2g}" if key in states else "?"

    return [estimate(group) for group in groups]


def plan_table(plan: Plan, speeds: Speeds) -> Table:
    """The plan as a table with rows sorted by scenario. The minutes are a row's share of its groups' time."""
    table = Table("method", "steps", "done", "missing", "minutes", "group", "GB", box=None, pad_edge=False)
    for column in table.columns:
        column.no_wrap = True  # the table fits into 80 columns
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
    """The number of missing blocks and the estimated training time, in words."""
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
    """The ranges of seeds in these blocks, in words."""
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
