"""Split a plan into jobs: discoveries, each run once, and the training programs that depend on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cooptions.campaigns.plan import Plan
from cooptions.campaigns.rows import Block
from cooptions.campaigns.work import Work, discover_blocks, learn_blocks, stages_made
from cooptions.files import Json


@dataclass(frozen=True)
class Job:
    """A unit of work that runs after the jobs it depends on."""

    name: str
    work: Work
    blocks: tuple[Block, ...]
    after: frozenset[str] = frozenset()
    """The names of the jobs it depends on. Blocks that failed in them are left out."""


def jobs(plan: Plan, runs: Path) -> list[Job]:
    """The missing jobs of a plan, in order.

    Each missing discovery comes right before the first job that learns from it. Other jobs depend on nothing.
    """
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
    """The key of a block's discovery. Blocks with the same key share their discovery's artefacts."""
    return f"{block.row.place} {_before_learning(block)}"


def _before_learning(block: Block) -> dict[str, Json]:
    return {stage: config for stage, config in block.stages.items() if stage != "learning"}


def _name(what: str, blocks: Sequence[Block]) -> str:
    """A job's name: the first block and the number of others."""
    others = f".and-{len(blocks) - 1}-more" if len(blocks) > 1 else ""
    return ".".join([what, *blocks[0].place.parts]) + others
