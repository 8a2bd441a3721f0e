"""How long a plan will take, and how much memory, from what was measured before; what was not is not guessed."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
from rich.table import Table
from rich.text import Text

from cooptions.campaigns.plan import Group, Plan
from cooptions.campaigns.rows import Block, Row
from cooptions.envs.base import AbstractEnv
from cooptions.files import Json, config_json
from cooptions.learners.networks import Network
from cooptions.options.train import option_set
from cooptions.runs.config import Config
from cooptions.runs.stages import untrained_options, with_options
from cooptions.training.memory import stage_bytes
from cooptions.training.progress import Progress


@dataclass(frozen=True)
class Speeds:
    """Measured milliseconds of an update for one seed among several, by family of scenarios and contestant."""

    milliseconds: dict[tuple[str, str], float]

    @classmethod
    def read(cls, folder: Path) -> "Speeds":
        """From the files of `benchmarks.learning_speed`."""
        found = {}
        for path in sorted(folder.glob("*.json")):
            measured = json.loads(path.read_text())
            for row in measured.get("rows", ()):
                found[row["scenario"], row["name"]] = row["ms_per_update"] / measured["seeds"]
        return cls(found)

    def seconds(self, contestant: str, scenario: str, learner: Json, num_seeds: int) -> float | None:
        """How long some seeds take to learn, at their share of a group; `None` where nothing like it was measured."""
        measured = self.milliseconds.get((scenario.partition("-")[0], contestant))
        if measured is None:
            return None
        return measured * (learner["steps"] // (learner["num_envs"] * learner["rollout"])) * num_seeds / 1e3

    def ours(self, block: Block) -> float | None:
        return self._block(contestant, block)

    def jaxmarl(self, block: Block) -> float | None:
        return self._block(jaxmarl, block)

    def _block(self, name: Callable[[Json], str], block: Block) -> float | None:
        learning = config_json(block.config.learning)
        return self.seconds(name(learning), block.row.place, learning["learner"], block.num_seeds)


def contestant(learning: Json) -> str:
    """What `benchmarks.learning_speed` calls our learner with these settings, be it timed there or not."""
    learner, macro = learning["learner"], learning["macro"]
    name = "ours" if learner["type"] == "QConfig" else {"local": "ippo", "joint": "mappo"}[learner["critic"]]
    if macro is None:
        return name
    if macro.get("option_set"):
        return f"{name}+given-options"
    return f"{name}+valued-options" if learner.get("choice", {}).get("valued") else f"{name}+options"


def jaxmarl(learning: Json) -> str:
    """The same for JaxMARL's script. It knows no options, which would cost it more; its PPO was not timed."""
    return "jaxmarl" if learning["learner"]["type"] == "QConfig" else "jaxmarl's ppo"


def group_bytes(group: Group) -> int:
    """What a group's learning takes of the device's memory."""
    config = group.blocks[0].config
    keys = jax.random.split(jax.random.key(0), group.num_seeds)
    return stage_bytes(config.learning.stage, like_task_env(config, group.num_seeds), keys)


def like_task_env(config: Config, num_seeds: int) -> AbstractEnv:
    """The shapes of `task_env`, of so many seeds, before anything was discovered."""
    if not config.discovers:
        return config.env

    def with_networks(network: Network) -> AbstractEnv:
        return with_options(config, option_set(config.options, network, config.eigenoptions, config.env))

    return jax.eval_shape(with_networks, untrained_options(config, num_seeds))


def plan_table(plan: Plan, speeds: Speeds, progress: Progress) -> Table:
    """What the plan holds, each scenario's rows below its name; minutes are a row's share of its groups."""
    table = Table("method", "steps", "done", "missing", "minutes", "group", "GB", box=None, pad_edge=False)
    for column in table.columns:
        column.no_wrap = True  # scenarios and all fit into 80 columns
    groups: dict[Block, tuple[int, str]] = {}
    with progress.stage("memory", len(plan.groups)) as show:
        for number, group in enumerate(plan.groups, 1):
            groups |= dict.fromkeys(group.blocks, (number, f"{group_bytes(group) / 1e9:.2g}"))
            show.advance(1, {})
    for place in dict.fromkeys(row.place for row in plan.rows):
        table.add_row(Text(place, style="bold"))
        for row, blocks in plan.rows.items():
            if row.place == place:
                missing = [block for block in blocks if block in plan.missing]
                done = [block for block in blocks if block not in missing]
                table.add_row(*_plan_cells(row, done, missing, groups, speeds))
    return table


def _plan_cells(
    row: Row, done: list[Block], missing: list[Block], groups: Mapping[Block, tuple[int, str]], speeds: Speeds
) -> list[str]:
    learners = sorted({groups[block] for block in missing if block in groups})
    steps = (done + missing)[0].config.learning.learner.steps
    return [
        f"  {row.label}",
        f"{steps / 1e6:g}M" if row.learns else f"to {row.until}",
        _spans(done),
        _spans(missing),
        _minutes([speeds.ours(block) if row.learns else None for block in missing]),
        ",".join(str(number) for number, _ in learners),
        ",".join(size for _, size in learners),
    ]


def plan_summary(plan: Plan, speeds: Speeds) -> str:
    """How long learning will take in all, and would take at JaxMARL's speed."""
    blocks = [block for group in plan.groups for block in group.blocks]
    ours, theirs = ([each(block) for block in blocks] for each in (speeds.ours, speeds.jaxmarl))
    timed = sum(each is not None for each in ours)
    both = [(mine, other) for mine, other in zip(ours, theirs, strict=True) if mine is not None and other is not None]
    lines = [f"{len(plan.missing)} of {len(plan.blocks)} blocks are missing; programs that learn: {len(plan.groups)}."]
    if timed:
        lines.append(
            f"Learning: {_sum(ours)} minutes for the {timed} of {len(blocks)} blocks whose speed was measured, "
            "on the device of results/speed."
        )
    if both:
        mine, other = (_sum([pair[index] for pair in both]) for index in (0, 1))
        lines.append(
            f"As many updates by JaxMARL's Q-learning, without options: {other} minutes, where ours take {mine}."
        )
    return "\n".join(lines)


def _spans(blocks: Sequence[Block]) -> str:
    """The seeds of blocks, from and to."""
    spans: list[list[int]] = []
    for block in sorted(blocks, key=lambda block: block.first):
        if spans and spans[-1][1] + 1 == block.first:
            spans[-1][1] = block.seeds[-1]
        else:
            spans.append([block.first, block.seeds[-1]])
    return ", ".join(f"{first}-{last}" for first, last in spans)


def _minutes(seconds: Sequence[float | None]) -> str:
    if not seconds:
        return ""
    return "?" if None in seconds else _sum(seconds)


def _sum(seconds: Sequence[float | None]) -> str:
    minutes = sum(each for each in seconds if each is not None) / 60
    return f"{minutes:.0f}" if minutes >= 100 else f"{minutes:.3g}"
