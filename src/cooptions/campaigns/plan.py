"""Plan a campaign: find the missing blocks of seeds, and group those that train in one program."""

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
    """The folders of a campaign."""

    runs: Path
    """Run directories, which are large and local."""
    results: Path
    """Scores and pictures, which are small and meant to be kept."""


@dataclass(frozen=True)
class Plan:
    """All requested blocks, and the missing ones divided into groups and single blocks."""

    blocks: tuple[Block, ...]
    groups: tuple[Group, ...]
    """The missing blocks that train a learner, by program."""
    alone: tuple[Block, ...]
    """The missing blocks that stop at an earlier stage."""

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
    """The plan for these seeds of each row, without blocks that are done."""
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
    """Whether a block's run directory is complete or all its seeds are among the results."""
    if not block.row.learns:
        return is_finished(block, places.runs)
    return has_scores(block, places.runs) or set(block.seeds) <= known_seeds(block, places.results)


def known_seeds(block: Block, results: Path) -> set[int]:
    """The seeds of a block's row that have results for every metric.

    Raises `ArtifactError` if those results were made with other settings.
    """
    known = []
    for path in result_paths(results, block.row, block.fraction):
        result = read_result(path)
        check_settings(block.settings, result.settings, path)
        known.append(set(result.seeds))
    return set.intersection(*known) if known else set()


def groups(missing: Sequence[Block], members: int) -> tuple[Group, ...]:
    """Group blocks of the same program, with at most `members` seeds per group.

    The first block of every row comes before the second block of any row.
    """
    alike: dict[str, list[Block]] = {}
    for block in missing:
        alike.setdefault(program(block), []).append(block)
    return tuple(Group(part) for same in alike.values() for part in _parts(same, members))


def program(block: Block) -> str:
    """The key of a block's training program. Options are data, but their number and shape belong to the key."""
    config = block.config
    macro = config.learning.macro
    macro = replace(macro, discoveries=0) if macro else None
    learning = encode(replace(config.learning, name="", macro=macro))
    options = [encode(config.options), config.laplacian.num_eigenfunctions, config.members]
    shape = options if config.discovers else []
    return json.dumps([config.scenario, learning, shape], sort_keys=True)


def _parts(same: Sequence[Block], members: int) -> list[tuple[Block, ...]]:
    parts: list[tuple[Block, ...]] = [()]
    for block in sorted(same, key=lambda block: block.first):
        if sum(each.num_seeds for each in parts[-1]) + block.num_seeds > members:
            parts.append(())
        parts[-1] = (*parts[-1], block)
    return [part for part in parts if part]
