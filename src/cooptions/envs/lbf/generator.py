"""Initial positions for foraging, drawn without sorting, so that a reset costs no more than a step.

Each item takes one random number and a few comparisons.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray, UInt32


def draw_places(
    key: PRNGKeyArray, *, grid_size: int, num_agents: int, num_apples: int
) -> tuple[Int[Array, "agent 2"], Int[Array, "apple 2"]]:
    """Draw positions. Apples are neither at the edge nor on neighbouring cells; agents are on any other cell."""
    draws = jax.random.bits(key, (num_apples + num_agents,))
    apples = _place_apples(draws[:num_apples], grid_size)
    agents = _place_agents(draws[num_apples:], apples, grid_size)
    return _position(agents, grid_size), _position(apples, grid_size)


def _place_apples(draws: UInt32[Array, " apple"], grid_size: int) -> Int[Array, " apple"]:
    """Draw each apple among the inner cells that are neither occupied by nor next to an earlier apple."""
    inner = grid_size - 2
    taken = jnp.zeros(0, jnp.int32)
    cells = []
    for draw in draws:
        cell = _nth_free(draw, taken, inner**2)
        cells.append(cell)
        taken = jnp.concatenate([taken, _with_neighbours(cell, inner)])
    cell = jnp.stack(cells)
    return (cell // inner + 1) * grid_size + cell % inner + 1


def _place_agents(draws: UInt32[Array, " agent"], apples: Int[Array, " apple"], grid_size: int) -> Int[Array, " agent"]:
    """Draw each agent among the cells without an apple or an earlier agent.

    `gap` counts the free cells before each taken one. The number of taken cells before the n-th free cell is the number
    of gaps that are at most n. Once the cell is taken, its own gap is n.
    """
    gap = apples - jnp.sum(apples[None] < apples[:, None], axis=1)
    cells = []
    for draw in draws:
        nth = (draw % (grid_size**2 - gap.size)).astype(jnp.int32)
        cells.append(nth + jnp.sum(gap <= nth))
        gap = jnp.append(gap - (gap > nth), nth)
    return jnp.stack(cells)


def _nth_free(draw: UInt32[Array, ""], taken: Int[Array, " taken"], num_cells: int) -> Int[Array, ""]:
    """Draw uniformly one of `num_cells` cells that is not in `taken`.

    `taken` may repeat cells, and has the value `num_cells` for cells that do not exist. With the distinct taken cells
    t_0 < t_1 < ..., the n-th free cell is n + #{i : t_i - i <= n}. Ranks are counted by comparing all pairs, without a
    sort, a scan or a random number per cell.
    """
    repeated = jnp.any(jnp.tril(taken[:, None] == taken[None], -1), axis=1)
    taken = jnp.where(repeated, num_cells, taken)
    num_free = num_cells - jnp.sum(taken < num_cells)
    nth = (draw % num_free.astype(jnp.uint32)).astype(jnp.int32)
    rank = jnp.sum(taken[None] < taken[:, None], axis=1)
    return nth + jnp.sum(taken - rank <= nth)


def _with_neighbours(cell: Int[Array, ""], width: int) -> Int[Array, " 5"]:
    """A cell of a square and its four neighbours, with the value width² for those outside."""
    row, column = cell // width, cell % width
    rows = row + jnp.array([0, -1, 1, 0, 0])
    columns = column + jnp.array([0, 0, 0, -1, 1])
    inside = (rows >= 0) & (rows < width) & (columns >= 0) & (columns < width)
    return jnp.where(inside, rows * width + columns, width**2)


def _position(cell: Int[Array, " item"], grid_size: int) -> Int[Array, "item 2"]:
    return jnp.stack([cell // grid_size, cell % grid_size], axis=1)
