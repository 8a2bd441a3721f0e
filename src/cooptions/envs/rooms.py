"""Rooms: the cells that an agent can reach, and the coordinates along which walls separate two agents."""

import numpy as np
from jaxtyping import Bool


def reachable(walls: Bool[np.ndarray, "height width"], start: int) -> Bool[np.ndarray, "height width"]:
    """The cells that an agent can reach from cell number `start`. Cells are numbered row by row."""
    reached = np.zeros_like(walls)
    reached.flat[start] = True
    while True:
        around = np.pad(reached, 1)
        beside = around[:-2, 1:-1] | around[2:, 1:-1] | around[1:-1, :-2] | around[1:-1, 2:]
        grown = reached | (beside & ~walls)
        if np.array_equal(grown, reached):
            return reached
        reached = grown


def apart(first: Bool[np.ndarray, "height width"], second: Bool[np.ndarray, "height width"]) -> tuple[bool, bool]:
    """Whether two agents in these rooms can never have the same value of x, and of y.

    If so, no walk crosses the wall between them, and distances along that coordinate would be noise.
    """
    if np.any(first & second):
        return False, False
    over_x, over_y = (bool(np.any(first.any(axis) & second.any(axis))) for axis in (0, 1))
    return not over_x, not over_y
