"""The transition operator on relative states: joint states lumped by their spreads (paper, Section 3.2).

The lumped process is not Markov in general. Graph-drawing objectives (ALLO) estimate the operator of its pair law from
pairs (z, z'). This module computes that operator, by counting in walks or exactly for open grids.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, Real

from cooptions.discovery.oracles.distances import spread
from cooptions.discovery.oracles.spectrum import Spectrum, laplacian_spectrum
from cooptions.discovery.oracles.walks import count_pairs
from cooptions.errors import require


@dataclass(frozen=True)
class LumpedOperator:
    """The symmetric pair law on the sorted distinct spread tuples; see `oracles.spectrum`."""

    tuples: Real[np.ndarray, "tuple feature"]
    pairs: Float[np.ndarray, "tuple tuple"]

    @property
    def weights(self) -> Float[np.ndarray, " tuple"]:
        """The visitation probability of each tuple."""
        return self.pairs.sum(axis=1)

    def spectrum(self, num_eigenfunctions: int | None = None) -> Spectrum:
        """Eigenfunctions of L = I - (P + P*)/2 on the tuples, slowest first, without the constant."""
        return laplacian_spectrum(self.pairs, num_eigenfunctions)

    def index(self, spreads: Real[np.ndarray, "*batch feature"], decimals: int = 6) -> Int[np.ndarray, "*batch"]:
        """The row of each spread tuple, to look up eigenfunctions. Raises `ConfigError` for unknown tuples."""
        flat = spreads.reshape(-1, spreads.shape[-1])
        known = np.round(self.tuples.astype(float), decimals)
        rows, inverse = np.unique(np.round(flat.astype(float), decimals), axis=0, return_inverse=True)
        numbers = {tuple(row): number for number, row in enumerate(known)}
        found = np.array([numbers.get(tuple(row), -1) for row in rows], dtype=int)
        require(bool(np.all(found >= 0)), "spreads: the operator does not know some of these tuples")
        return found[inverse.reshape(-1)].reshape(spreads.shape[:-1])


def counted_lumped(
    before: Real[np.ndarray, "transition feature"], after: Real[np.ndarray, "transition feature"], decimals: int = 6
) -> LumpedOperator:
    """The operator from counts of the spread tuples, rounded to `decimals`, before and after each transition.

    Transitions count in both directions, which makes the pair law symmetric and its row sums the mean visitation of
    both ends. This works for any environment, with the collisions, walls and resets in the data.
    """
    require(len(before) == len(after) > 0, "before and after: as many rows in each, and at least one")
    both = np.round(np.concatenate([before, after]).astype(float), decimals)
    tuples, index = np.unique(both, axis=0, return_inverse=True)
    first, second = index.reshape(2, -1)
    counts = count_pairs(first, second, len(tuples))
    return LumpedOperator(tuples, (counts + counts.T) / (2.0 * len(before)))


def open_grid_lumped(
    height: int,
    width: int,
    num_agents: int,
    *,
    stand_still: bool = False,
    agent_features: Bool[np.ndarray, "agent 2"] | None = None,
) -> LumpedOperator:
    """The exact operator for stationary independent random walkers on an open grid without collisions.

    One agent's stationary walk over available actions is uniform on the directed edges and loops of the grid: the
    weight of a cell is its number of actions, each drawn with the inverse probability. So its steps are a mixture of
    three kinds (noop, x-move, y-move), and GIVEN the kind, its x-pair and y-pair are independent. The coupling of the
    axes at the boundary is entirely in the mixture. Given which agents move along which axis, the spreads of the two
    axes are independent too, and each depends only on the number of agents that move along it. Nothing is approximated.

    With `stand_still` the kinds have probabilities 1/5, 2/5, 2/5, and blocked moves are loops. An agent without a
    feature (`agent_features`) does not move along that axis, as in the heterogeneous grid. Data can differ from this
    operator, because episodes that start uniformly are not stationary and collisions couple the agents.
    """
    has = np.ones((num_agents, 2), bool) if agent_features is None else agent_features
    sizes = (height, width)
    laws = [_kind_probabilities(sizes, row, stand_still) for row in has]
    mixture: dict[tuple[int, int], float] = {}
    for kinds in itertools.product(range(3), repeat=num_agents):  # 0 noop, 1 x-move, 2 y-move
        key = (kinds.count(1), kinds.count(2))
        mixture[key] = mixture.get(key, 0.0) + math.prod(law[kind] for law, kind in zip(laws, kinds, strict=True))
    members = has.sum(axis=0)
    axes = [
        [_axis_pairs(sizes[axis], int(members[axis]), movers, stand_still) for movers in range(members[axis] + 1)]
        for axis in range(2)
    ]
    pairs = sum(
        probability * np.kron(axes[0][rows], axes[1][columns])
        for (rows, columns), probability in mixture.items()
        if probability > 0.0
    )
    tuples = np.array(list(itertools.product(*(range(len(axis[0])) for axis in axes))))
    return LumpedOperator(tuples, np.asarray(pairs))


def enumerated_lumped(
    transitions: Float[np.ndarray, "state state"],
    stationary: Float[np.ndarray, " state"],
    agent_states: Int[np.ndarray, "state feature"],
    num_agents: int,
) -> LumpedOperator:
    """The exact operator for independent stationary agents on any map, by enumerating all joint steps.

    `agent_states[s]` are the features of single-agent state s, integers from 0. The cost grows with (number of possible
    steps)^N / N!. On 15 x 15, two agents take a second and three some minutes; four agents are feasible on small maps.
    """
    require(num_agents >= 2, f"num_agents must be at least 2, not {num_agents}")
    source, target = np.nonzero(transitions)
    weight = stationary[source] * transitions[source, target]
    left, right = np.triu_indices(len(source))
    shape = tuple(int(size) for size in num_agents // 2 * agent_states.max(axis=0) + 1)
    size = math.prod(shape)
    totals = np.zeros(size**2)
    for others in itertools.combinations_with_replacement(range(len(source)), num_agents - 2):
        keep = left >= max(others, default=0)
        steps = np.stack(np.broadcast_arrays(*others, left[keep], right[keep]), axis=-1)  # each multiset once
        before, after = (_tuple_numbers(agent_states[ends[steps]], shape) for ends in (source, target))
        probability = weight[steps].prod(axis=-1) * _num_orderings(steps)
        totals += np.bincount(before * size + after, probability, minlength=size**2)
    pairs = totals.reshape(size, size)
    pairs = (pairs + pairs.T) / 2.0
    visited = np.flatnonzero(pairs.sum(axis=1))
    tuples = np.stack(np.unravel_index(visited, shape), axis=-1)
    return LumpedOperator(tuples, pairs[np.ix_(visited, visited)])


def _kind_probabilities(sizes: tuple[int, int], has: Bool[np.ndarray, "2"], stand_still: bool) -> list[float]:
    """The probabilities that one agent's stationary step is a noop, an x-move, a y-move."""
    if stand_still:
        counts = [1.0, 2.0 * has[0], 2.0 * has[1]]
    else:
        rows, columns = sizes
        counts = [float(rows * columns), 2.0 * (rows - 1) * columns * has[0], 2.0 * (columns - 1) * rows * has[1]]
    return [float(count / sum(counts)) for count in counts]


def _axis_pairs(size: int, members: int, movers: int, stand_still: bool) -> Float[np.ndarray, "spread spread"]:
    """Pr(spread, spread') on one axis of `size` cells if `movers` of its `members` agents move along it."""
    num_spreads = members // 2 * (size - 1) + 1
    cells = np.arange(size)
    move_before = np.concatenate([cells[:-1], cells[1:]])
    move_after = np.concatenate([cells[1:], cells[:-1]])
    if stand_still:  # a blocked move at either end
        ends = np.array([0, size - 1])
        move_before, move_after = np.concatenate([move_before, ends]), np.concatenate([move_after, ends])
    if members == 0 or (movers > 0 and len(move_before) == 0):
        return np.ones((num_spreads, num_spreads))
    before = _teams([move_before] * movers + [cells] * (members - movers))
    after = _teams([move_after] * movers + [cells] * (members - movers))
    first, second = (_tuple_numbers(team[..., None], (num_spreads,)) for team in (before, after))
    return count_pairs(first, second, num_spreads) / len(before)


def _teams(choices: list[Int[np.ndarray, " _"]]) -> Int[np.ndarray, "team agent"]:
    """All combinations of one entry per agent, in the same order for lists of the same lengths."""
    return np.stack([grid.ravel() for grid in np.meshgrid(*choices, indexing="ij")], axis=-1)


def _tuple_numbers(
    agent_states: Int[np.ndarray, "team agent feature"], shape: tuple[int, ...]
) -> Int[np.ndarray, " team"]:
    """The spread tuple of each team, as one number."""
    spreads = spread(agent_states).astype(int)
    return np.asarray(np.ravel_multi_index(tuple(np.moveaxis(spreads, -1, 0)), shape))


def _num_orderings(steps: Int[np.ndarray, "team agent"]) -> Float[np.ndarray, " team"]:
    """The number of orderings of each ascending list of steps: N! divided by the factorials of its repeats."""
    repeats = np.ones(len(steps))
    run = np.ones(len(steps))
    for agent in range(1, steps.shape[1]):
        run = np.where(steps[:, agent] == steps[:, agent - 1], run + 1.0, 1.0)
        repeats *= run
    return math.factorial(steps.shape[1]) / repeats
