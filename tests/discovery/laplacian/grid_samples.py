"""Walks of a team on an open grid, as pairs of standardised exact spreads."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cooptions.discovery.laplacian.base import AbstractLaplacian, Pairs
from cooptions.discovery.oracles import (
    counted_lumped,
    eigen_cosine,
    eigenvalue_clusters,
    grid_cells,
    grid_transitions,
    simulate_walk,
    spread,
)
from cooptions.training.fitting import fit

EPISODE = 100


@dataclass(frozen=True)
class Sample:
    cells: np.ndarray
    """[time, episode, agent, 2]"""

    @property
    def spreads(self) -> tuple[np.ndarray, np.ndarray]:
        """The spreads before and after each transition, as integers."""
        values = spread(self.cells)
        return values[:-1].reshape(-1, 2), values[1:].reshape(-1, 2)

    @property
    def joint(self) -> tuple[np.ndarray, np.ndarray]:
        """All agents' coordinates before and after each transition, in [-1, 1]."""
        scaled = 2.0 * self.cells / self.cells.max(axis=(0, 1, 2)) - 1.0
        width = self.cells.shape[2] * 2
        return scaled[:-1].reshape(-1, width), scaled[1:].reshape(-1, width)


def walk(height: int, width: int, num_agents: int, num_transitions: int, seed: int) -> Sample:
    """Episodes of 100 steps from uniform starts, uniform over available actions, without collisions."""
    rng = np.random.default_rng(seed)
    free = np.ones((height, width), bool)
    start = rng.integers(height * width, size=(num_transitions // EPISODE, num_agents))
    return Sample(grid_cells(free)[simulate_walk(grid_transitions(free), start, EPISODE, rng)])


def standardised(before: np.ndarray, after: np.ndarray) -> Pairs:
    mean, scale = before.mean(axis=0), before.std(axis=0)
    z, next_z = ((end - mean) / scale for end in (before, after))
    return Pairs(jnp.asarray(z, jnp.float32), jnp.asarray(next_z, jnp.float32))


def cosines(laplacian: AbstractLaplacian, solution: object, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """The cosines of each estimated eigenfunction with the exact eigenspace of its cluster in the same data."""
    operator = counted_lumped(before, after)
    k = laplacian.num_eigenfunctions
    exact = operator.spectrum(min(k + 6, len(operator.tuples) - 1))
    z = jnp.asarray((operator.tuples - before.mean(axis=0)) / before.std(axis=0), jnp.float32)
    values = jax.vmap(lambda z: laplacian.eigenfunctions(solution, z))(z)
    clusters = eigenvalue_clusters(exact.eigenvalues, tolerance=0.04)
    return eigen_cosine(np.asarray(values, float), exact.weights, exact.eigenfunctions, clusters)


def fit_one(laplacian: AbstractLaplacian, data: Pairs, seed: int = 0) -> Any:
    """The solution."""
    states = fit(laplacian, jax.tree.map(lambda leaf: leaf[None], data), jax.random.key(seed)[None], name="laplacian")
    return laplacian.solution(jax.tree.map(lambda leaf: leaf[0], states))
