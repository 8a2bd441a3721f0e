"""What has to run: the blocks of seeds that are missing, and which of them learn in one program."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cooptions.campaigns.groups import Group
from cooptions.campaigns.results import check_settings, read_result, result_paths
from cooptions.campaigns.rows import Block, Row, Seeding
from cooptions.campaigns.work import has_scores, is_finished
from cooptions.errors import require
from cooptions.files import encode


@dataclass(frozen=True)
class Places:
    """Where things are kept."""

    runs: Path
    """Run directories, large, on this machine."""
    results: Path
    """Scores and pictures, small, to be kept."""


@dataclass(frozen=True)
class Plan:
    """All blocks that were asked for, those that are missing, and how these are made."""

    blocks: tuple[Block, ...]
    groups: tuple[Group, ...]
    """Those that learn."""
    alone: tuple[Block, ...]
    """Those that stop before."""

    @property
    def missing(self) -> tuple[Block, ...]:
        return *(block for group in self.groups for block in group.blocks), *self.alone

    @property
    def rows(self) -> dict[Row, tuple[Block, ...]]:
        rows: dict[Row, tuple[Block, ...]] = {}
        for block in self.blocks:
            rows[block.row] = (*rows.get(block.row, ()), block)
        return rows


def make_plan(wanted: Mapping[Row, Seeding], places: Places, *, fraction: float = 1.0, members: int = 60) -> Plan:
    """The plan for these seeds of each row, less what is there already."""
    every = tuple(block for row, seeding in wanted.items() for block in seeding.blocks(row, fraction))
    largest = max((block.num_seeds for block in every), default=1)
    require(members >= largest, f"members must hold a block of {largest} seeds at least, not {members}")
    missing = [block for block in every if not is_done(block, places)]
    return Plan(
        every,
        groups([block for block in missing if block.row.learns], members),
        tuple(block for block in missing if not block.row.learns),
    )


def is_done(block: Block, places: Places) -> bool:
    """Whether a block need not run: its run directory is complete, or its seeds are among the results."""
    if not block.row.learns:
        return is_finished(block, places.runs)
    return has_scores(block, places.runs) or set(block.seeds) <= known_seeds(block, places.results)


def known_seeds(block: Block, results: Path) -> set[int]:
    """The seeds of a block's row whose scores are among the results, by every metric; other settings are refused."""
    known = []
    for path in result_paths(results, block.row, block.fraction):
        result = read_result(path)
        check_settings(block.settings, result.settings, path)
        known.append(set(result.seeds))
    return set.intersection(*known) if known else set()


def groups(missing: Sequence[Block], members: int) -> tuple[Group, ...]:
    """Blocks of the same program together, up to so many seeds; every row's first seeds before any one's next."""
    alike: dict[str, list[Block]] = {}
    for block in missing:
        alike.setdefault(program(block), []).append(block)
    return tuple(Group(part) for same in alike.values() for part in _parts(same, members))


def program(block: Block) -> str:
    """What the program of a block's learning depends on; its options are data, how many there are and of what shape
    is not."""
    config = block.config
    macro = config.learning.macro
    macro = replace(macro, discoveries=0) if macro else None
    learning = encode(replace(config.learning, name="", macro=macro))
    shape = [encode(config.options), config.laplacian.num_eigenfunctions] if config.discovers else []
    return json.dumps([config.scenario, learning, shape], sort_keys=True)


def _parts(same: Sequence[Block], members: int) -> list[tuple[Block, ...]]:
    parts: list[tuple[Block, ...]] = [()]
    for block in sorted(same, key=lambda block: block.first):
        if sum(each.num_seeds for each in parts[-1]) + block.num_seeds > members:
            parts.append(())
        parts[-1] = (*parts[-1], block)
    return [part for part in parts if part]
