"""Random walks of one agent: transition matrices, exact for grids and counted elsewhere (paper, Section 3.1).

A transition matrix is dense, `P[state, next]`, with rows that sum to 1. The cells of a grid are numbered row by row.
The feature x of a cell is its row, y its column.
"""

import numpy as np
from jaxtyping import Bool, Float, Int, Real
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from cooptions.errors import require

MOVES = np.array([(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)])  # noop, up, down, left, right


def grid_cells(free: Bool[np.ndarray, "height width"]) -> Int[np.ndarray, "cell 2"]:
    """The (row, column) of every free cell, in the order of the cell numbers of all oracles."""
    return np.argwhere(free)


def cell_indices(
    free: Bool[np.ndarray, "height width"], positions: Real[np.ndarray, "*batch 2"]
) -> Int[np.ndarray, "*batch"]:
    """The cell numbers of `positions`, the inverse of `grid_cells`."""
    numbers = np.where(free, np.cumsum(free).reshape(free.shape) - 1, -1)
    rows, columns = np.moveaxis(np.asarray(positions).astype(int), -1, 0)
    require(bool(np.all((rows >= 0) & (columns >= 0))), "positions: rows and columns must not be negative")
    indices = numbers[rows, columns]
    require(bool(np.all(indices >= 0)), "positions: at least one lies in a wall")
    return indices


def grid_transitions(
    free: Bool[np.ndarray, "height width"], *, stand_still: bool = False
) -> Float[np.ndarray, "cell cell"]:
    """The transition matrix of the uniform random walk over noop and four moves.

    Moves into walls or off the grid are unavailable and not drawn, as in `cooptions.envs.grid`. With `stand_still` they
    are drawn and have no effect.
    """
    cells = grid_cells(free)
    walkable = np.pad(free, 1)
    matrix = np.zeros((len(cells), len(cells)))
    for move in MOVES:
        target = cells + move
        possible = walkable[target[:, 0] + 1, target[:, 1] + 1]
        matrix[np.flatnonzero(possible), cell_indices(free, target[possible])] += 1.0
        if stand_still:
            matrix[~possible, ~possible] += 1.0
    return matrix / matrix.sum(axis=1, keepdims=True)


def counted_transitions(
    states: Real[np.ndarray, "transition feature"],
    next_states: Real[np.ndarray, "transition feature"],
    last: Bool[np.ndarray, " transition"] | None = None,
) -> tuple[Real[np.ndarray, "state feature"], Float[np.ndarray, "state state"]]:
    """The sorted distinct states of one agent, and the counted transition matrix between them.

    `last` marks transitions whose `next_states` row belongs to the next episode; they are ignored. Leave it out for
    outcomes of `cooptions.envs.rollout.advance`, which keep the final state. A state that is entered but never left
    gets a self-loop.
    """
    keep = slice(None) if last is None else ~last
    both = np.concatenate([states[keep], next_states[keep]])
    distinct, index = np.unique(both, axis=0, return_inverse=True)
    before, after = index.reshape(2, -1)
    counts = count_pairs(before, after, len(distinct))
    never_left = np.flatnonzero(counts.sum(axis=1) == 0)
    counts[never_left, never_left] = 1.0
    return distinct, counts / counts.sum(axis=1, keepdims=True)


def count_pairs(
    before: Int[np.ndarray, " transition"], after: Int[np.ndarray, " transition"], num_states: int
) -> Float[np.ndarray, "state state"]:
    """The number of occurrences of each pair of states."""
    flat = np.bincount(before * num_states + after, minlength=num_states**2)
    return flat.reshape(num_states, num_states).astype(float)


def stationary_distribution(transitions: Float[np.ndarray, "state state"]) -> Float[np.ndarray, " state"]:
    """The distribution pi = pi P. Raises `ConfigError` if it is not unique, for example on a map of two rooms."""
    num_classes, labels = connected_components(csr_array(transitions), connection="strong")
    leaves = (transitions > 0) & (labels[:, None] != labels[None, :])
    num_closed = num_classes - len(np.unique(labels[leaves.any(axis=1)]))
    require(num_closed == 1, f"transitions: {num_closed} closed classes, so no unique stationary distribution")
    equations = np.eye(len(transitions)) - transitions.T
    equations[-1] = 1.0  # one balance equation is redundant; the probabilities must sum to 1
    return np.linalg.solve(equations, np.eye(len(transitions))[-1])


def simulate_walk(
    transitions: Float[np.ndarray, "state state"],
    start: Int[np.ndarray, "*batch"],
    num_steps: int,
    rng: np.random.Generator,
) -> Int[np.ndarray, "time *batch"]:
    """The states of independent walkers from `start` at times 0 .. num_steps. A team is an axis of `start`."""
    width = int((transitions > 0).sum(axis=1).max())
    successors = np.argsort(-transitions, axis=1, kind="stable")[:, :width]
    cumulative = np.take_along_axis(transitions, successors, axis=1).cumsum(axis=1)
    cumulative[:, -1] = np.inf  # so that rounding never makes a draw exceed it
    # A row with fewer than `width` successors reaches 1 up to rounding before its impossible successors.
    cumulative[cumulative > 1.0 - 1e-9] = np.inf
    walk = np.empty((num_steps + 1, *start.shape), dtype=np.int64)
    walk[0] = start
    for step in range(num_steps):
        draws = rng.random(start.shape)[..., None]
        choice = (draws >= cumulative[walk[step]]).sum(axis=-1)
        walk[step + 1] = successors[walk[step], choice]
    return walk
