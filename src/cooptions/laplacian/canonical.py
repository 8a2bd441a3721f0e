"""A basis that means the same in two runs: which function is the first, which way it points.

Where eigenvalues are (nearly) equal, as those of x and y on a square grid, eigenfunctions are determined up to a
rotation, and a data set picks one at random. Clusters with a threshold would move the problem to the threshold:
two data sets would disagree on the clusters. So nothing here is cut. In the span of the learned functions the operator

    M = log(eigenvalues) - B * closeness,    B = sum_r w_r c_r c_r^T,    closeness_ij = exp(-(log l_i/l_j)^2 / tau^2)

is diagonalised: c_r are the correlations of reference r with the functions, w_r its weight. Far apart, eigenvalues
decide, and the functions stay as they are; close together, the references do; in between the outcome changes smoothly.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float

from cooptions.laplacian.base import AbstractLaplacian, Pairs
from cooptions.laplacian.moments import Moments, moments, slowest

Basis = Literal["symmetric", "axes"]
"""`symmetric`: all features together first, then one against the other. `axes`: one feature at a time."""

CLOSENESS = 0.1
"""tau: eigenvalues that differ by much less are taken for equal. 500k transitions estimate them to about 1%."""
WEIGHT_RATIO = 0.6
"""w_r from one reference of a degree to the next: far from 1, so that B has no close eigenvalues of its own."""
PRIORITY = 0.12
"""By how much log(eigenvalue) must differ to overrule the order of two references."""
MAX_REFERENCES = 45
MAX_DEGREE = 8


class Canonical(eqx.Module):
    """`values @ matrix - offset`: zero mean, unit variance, no correlations. For one seed; seeds lead outside."""

    matrix: Float[Array, "*seed function k"]
    offset: Float[Array, "*seed k"]
    eigenvalues: Float[Array, "*seed k"]
    """Of the combinations; where the order of references overruled them, they need not ascend."""

    def __call__(self, values: Float[Array, " function"]) -> Float[Array, " k"]:
        return values @ self.matrix - self.offset


def canonicalise(
    laplacian: AbstractLaplacian[Any], state: Any, data: Pairs, num_eigenfunctions: int, basis: Basis = "symmetric"
) -> Canonical:
    """The canonical `num_eigenfunctions` of a fitted Laplacian, for one seed; can be jitted and vmapped.

    Fit some more than are kept (`num_to_fit`), so that no cluster is cut in two.
    """
    references = References.of(data.z.shape[-1], basis)

    def functions(z: Float[Array, " z"]) -> Float[Array, " function"]:
        return jnp.concatenate([laplacian.eigenfunctions(state, z), references(z)])

    return canonical_of_moments(moments(functions, data), references, num_eigenfunctions)


def num_to_fit(num_eigenfunctions: int) -> int:
    """How many eigenfunctions to fit in order to keep `num_eigenfunctions` of them."""
    return num_eigenfunctions + 4


@dataclass(frozen=True)
class References:
    """Known functions of z to compare with: products of Chebyshev polynomials of single components, by degree.

    They are polynomials in tanh(-z_f / 2), which outliers do not dominate and which nears 1 where the team is together;
    there every polynomial is 1. This makes the sign: positive means together.
    """

    exponents: np.ndarray
    """[monomial, z]"""
    combination: np.ndarray
    """[reference, monomial]"""
    rank: np.ndarray
    """[reference]: the place among those of the same degree."""

    @classmethod
    def of(cls, num_features: int, basis: Basis) -> "References":
        degrees = range(1, MAX_DEGREE + 1)
        most = max(d for d in degrees if d == 1 or math.comb(d + num_features, d) - 1 <= MAX_REFERENCES)
        exponents, blocks, rank = [], [], []
        for d in range(1, most + 1):
            types = [_monomials(parts, num_features) for parts in _partitions(d, num_features)]
            blocks += [_helmert(len(rows)) if basis == "symmetric" else np.eye(len(rows)) for rows in types]
            exponents += [row for rows in types for row in rows]
            rank += range(sum(len(rows) for rows in types))
        combination = np.asarray(scipy.linalg.block_diag(*blocks))
        return cls(np.array(exponents), combination, np.array(rank))

    @property
    def weights(self) -> np.ndarray:
        return WEIGHT_RATIO**self.rank

    @property
    def priorities(self) -> np.ndarray:
        """Lower is earlier. Grows slowly, so that the last of many references still gives way to the eigenvalues."""
        return np.log2(1 + self.rank)

    def __call__(self, z: Float[Array, " z"]) -> Float[Array, " reference"]:
        together = jnp.tanh(-z / 2)
        chebyshev = [jnp.ones_like(together), together]
        for _ in range(2, self.exponents.max() + 1):
            chebyshev.append(2 * together * chebyshev[-1] - chebyshev[-2])
        factors = jnp.stack(chebyshev)[self.exponents, np.arange(z.size)]
        return jnp.asarray(self.combination, z.dtype) @ jnp.prod(factors, axis=-1)


def _partitions(total: int, num_parts: int) -> list[tuple[int, ...]]:
    """Ways to write `total` as a sum of at most `num_parts`, those of most parts first: products before powers."""
    ways = itertools.combinations_with_replacement(range(total, -1, -1), num_parts)
    return sorted((way for way in ways if sum(way) == total), key=lambda way: (-np.count_nonzero(way), way))


def _monomials(parts: tuple[int, ...], num_features: int) -> list[tuple[int, ...]]:
    """Every way to give these exponents to the features, the first feature's highest first."""
    return sorted(set(itertools.permutations(parts, num_features)), reverse=True)


def _helmert(num: int) -> np.ndarray:
    """The sum of all, then the first against the second, both against the third, and so on; orthonormal rows."""
    rows = np.ones((num, num))
    for row in range(1, num):
        rows[row] = np.where(np.arange(num) < row, 1.0, 0.0)
        rows[row, row] = -row
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def canonical_of_moments(found: Moments, references: References, num_eigenfunctions: int) -> Canonical:
    """`found` are the moments of the learned functions, followed by the references."""
    num = found.mean.size - references.rank.size
    ritz = slowest(found.covariance[:num, :num], found.energy[:num, :num], num, tolerance=1e-3)
    correlations = _reference_correlations(found.covariance, num) @ ritz.weights
    rotation = _rotation(ritz.eigenvalues, correlations, references)
    matrix = (ritz.weights @ rotation)[:, :num_eigenfunctions]
    eigenvalues = ritz.eigenvalues @ rotation**2
    return Canonical(matrix, found.mean[:num] @ matrix, eigenvalues[:num_eigenfunctions])


def _reference_correlations(covariance: Float[Array, "all all"], num: int) -> Float[Array, "reference function"]:
    """Of functions with references made orthonormal one after the other; a reference that adds nothing is shrunk."""
    deviation = jnp.sqrt(jnp.diagonal(covariance)[num:])
    scale = jnp.where(deviation > 1e-3, 1 / jnp.maximum(deviation, 1e-3), 0.0)
    among = scale[:, None] * covariance[num:, num:] * scale
    triangle = jnp.linalg.cholesky(among + 1e-3 * jnp.eye(scale.size))
    return jax.scipy.linalg.solve_triangular(triangle, scale[:, None] * covariance[num:, :num], lower=True)


def _rotation(
    eigenvalues: Float[Array, " function"],
    correlations: Float[Array, "reference function"],
    references: References,
) -> Float[Array, "function function"]:
    """The eigenvectors of M (see the module), in their canonical order and with their signs."""
    log = jnp.log(jnp.maximum(eigenvalues, 1e-6))
    closeness = jnp.exp(-(((log[:, None] - log) / CLOSENESS) ** 2))
    weights = jnp.asarray(references.weights, log.dtype)
    pull = correlations.T @ (weights[:, None] * correlations)
    _, vectors = jnp.linalg.eigh(jnp.diag(log) - pull * closeness)
    loadings = correlations @ vectors
    shares = loadings**2
    priorities = jnp.asarray(references.priorities, log.dtype)
    unexplained = jnp.maximum(1 - shares.sum(axis=0), 0.0)
    place = log @ vectors**2 + PRIORITY * (priorities @ shares + priorities.max() * unexplained)
    sign = jnp.where(weights @ (loadings * jnp.abs(loadings)) < 0, -1.0, 1.0)
    return (vectors * sign)[:, jnp.argsort(place)]
