"""A plan as jobs: discoveries, each made once, and the programs that learn from them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cooptions.campaigns.plan import Plan
from cooptions.campaigns.rows import Block
from cooptions.campaigns.work import Work, discover_blocks, learn_blocks, stages_made
from cooptions.files import Json


@dataclass(frozen=True)
class Job:
    """What is made in one go, once others are made."""

    name: str
    work: Work
    blocks: tuple[Block, ...]
    after: frozenset[str] = frozenset()
    """The names of those it waits for. Blocks that failed there are left out."""


def jobs(plan: Plan, runs: Path) -> list[Job]:
    """Discoveries that are missing, each right before the first that learns from it; what learns from none need not
    wait."""
    todo: list[Job] = []
    discoveries: dict[str, Job] = {}
    for group in plan.groups:
        found = [block for block in group.blocks if _before_learning(block).keys() - stages_made(block, runs)]
        for block in found:
            if _discovery(block) not in discoveries:
                discoveries[_discovery(block)] = Job(_name("discover", [block]), discover_blocks, (block,))
                todo.append(discoveries[_discovery(block)])
        needs = frozenset(discoveries[_discovery(block)].name for block in found)
        todo.append(Job(_name("learn", group.blocks), learn_blocks, group.blocks, needs))
    return [*todo, *(Job(_name("make", [block]), discover_blocks, (block,)) for block in plan.alone)]


def _discovery(block: Block) -> str:
    """What tells discoveries apart: blocks that agree in it take over each other's."""
    return f"{block.row.place} {_before_learning(block)}"


def _before_learning(block: Block) -> dict[str, Json]:
    return {stage: config for stage, config in block.stages.items() if stage != "learning"}


def _name(what: str, blocks: Sequence[Block]) -> str:
    """The first block, and how many others."""
    others = f".and-{len(blocks) - 1}-more" if len(blocks) > 1 else ""
    return ".".join([what, *blocks[0].place.parts]) + others
