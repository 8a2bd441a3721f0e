"""Blocks for the tests of executors."""

from cooptions.campaigns.rows import Block, Row

GRID = "grid-4x4-2p,time_limit=10"


def blocks(*methods):
    return tuple(Block(Row(GRID, method), 0, 1) for method in methods)
