"""A basis that means the same in two runs: which function is the first, which way it points.

Where eigenvalues are (nearly) equal, as those of x and y on a square grid, eigenfunctions are determined up to a
rotation, and a data set picks one at random. Clusters with a threshold would move the problem to the threshold:
two data sets would disagree on the clusters. So nothing here is cut. In the span of the learned functions the operator

    M = log(eigenvalues) - g B * closeness,    B = sum_r w_r c_r c_r^T,    closeness_ij = exp(-(log l_i/l_j)^2 / tau^2)

is diagonalised: c_r are the correlations of reference r with the functions, w_r its weight, g large, so that the noise
in close eigenvalues does not turn the functions away from their references. Far apart, eigenvalues
decide, and the functions stay as they are; close together, the references do; in between the outcome changes smoothly.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from cooptions.discovery.laplacian.base import AbstractLaplacian, Pairs
from cooptions.discovery.laplacian.moments import Moments, moments, slowest

Basis = Literal["symmetric", "axes", "learned"]
"""`symmetric`: all features together first, then one against the other. `axes`: one feature at a time. `learned`: the
estimator's own functions in its own order, only standardised: for baselines, and for z without a sense of together."""

PULL = 5.0
"""g. At 1, functions of one feature held up to 6% of the other's (open 15x15 grid, 4 agents, 500k transitions)."""
CLOSENESS = 0.05
"""tau, where eigenvalues are known exactly: those that differ by much less are taken for equal."""
NUM_DEVIATIONS = 2.5
"""By how many standard errors of the eigenvalues tau is widened."""
RANK_WEIGHT, DEGREE_WEIGHT = 0.6, 0.8
"""Factors of w_r from a reference to the next, and to the next degree: B must have no close eigenvalues of its own."""
PRIORITY = 0.08
"""By how much log(eigenvalue) must differ to overrule the order of two neighbouring references."""
MAX_REFERENCES = 45
MAX_DEGREE = 8


class Canonical(eqx.Module):
    """`values @ matrix - offset`: zero mean, unit variance, no correlations but those in `_unmixed`. For one seed."""

    matrix: Float[Array, "*seed function k"]
    offset: Float[Array, "*seed k"]
    eigenvalues: Float[Array, "*seed k"]
    """Of the combinations; where the order of references overruled them, they need not ascend."""
    reference: Int[Array, "*seed k"]
    """The reference each is most like, as a number in `References.names`: a name that survives a change of order.
    -1 in the basis `learned`."""

    def __call__(self, values: Float[Array, " function"]) -> Float[Array, " k"]:
        return values @ self.matrix - self.offset


def canonicalise(
    laplacian: AbstractLaplacian, solution: Any, data: Pairs, num_eigenfunctions: int, basis: Basis = "symmetric"
) -> Canonical:
    """The canonical `num_eigenfunctions` of a fitted Laplacian, for one seed; can be jitted and vmapped.

    Fit some more than are kept (`num_to_fit`), so that no cluster is cut in two.
    """
    if basis == "learned":
        return _standardised(moments(lambda z: laplacian.eigenfunctions(solution, z), data), num_eigenfunctions)
    references = References.of(data.z.shape[-1], basis)

    def functions(z: Float[Array, " z"]) -> Float[Array, " function"]:
        return jnp.concatenate([laplacian.eigenfunctions(solution, z), references(z)])

    return canonical_of_moments(moments(functions, data), data.z.shape[0], references, num_eigenfunctions)


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
    degree: np.ndarray
    """[reference]"""
    rank: np.ndarray
    """[reference]: the place among those of the same degree."""
    single_features: bool
    """Whether each reference is a monomial of its own, not a sum over features."""

    @classmethod
    def of(cls, num_features: int, basis: Basis) -> "References":
        import scipy.linalg  # late: it takes a third of a second

        degrees = range(1, MAX_DEGREE + 1)
        most = max(d for d in degrees if d == 1 or math.comb(d + num_features, d) - 1 <= MAX_REFERENCES)
        exponents, blocks, degree, rank = [], [], [], []
        for d in range(1, most + 1):
            types = [_monomials(parts, num_features) for parts in _partitions(d, num_features)]
            blocks += [_helmert(len(rows)) if basis == "symmetric" else np.eye(len(rows)) for rows in types]
            exponents += [row for rows in types for row in rows]
            num = sum(len(rows) for rows in types)
            degree += [d] * num
            rank += range(num)
        combination = np.asarray(scipy.linalg.block_diag(*blocks))
        return cls(np.array(exponents), combination, np.array(degree), np.array(rank), basis == "axes")

    @property
    def weights(self) -> np.ndarray:
        return RANK_WEIGHT**self.rank * DEGREE_WEIGHT ** (self.degree - 1)

    @property
    def priorities(self) -> np.ndarray:
        """Lower is earlier. Grows slowly, so that the last of many references still gives way to the eigenvalues."""
        slow = np.where(self.rank < 2, self.rank, 1 + np.log2(np.maximum(self.rank, 1)))
        return slow + np.where(self.degree > 1, 1.5, 0.0)

    def names(self, z_names: Sequence[str]) -> tuple[str, ...]:
        """In terms of togetherness: `x + y`, `x - y`, `x y`, `x^2 + y^2` and so on; then each monomial alone."""
        powers = [
            [f"{n}^{e}" if e > 1 else n for n, e in zip(z_names, row, strict=True) if e] for row in self.exponents
        ]
        monomials = [" ".join(factors) for factors in powers]
        names = []
        for row in self.combination:
            counts = np.rint(row / np.abs(row[row != 0]).min()).astype(int)
            terms = [(c, m) for c, m in zip(counts, monomials, strict=True) if c]
            text = "".join(f" {'-' if c < 0 else '+'} {abs(c) if abs(c) > 1 else ''}{m}" for c, m in terms)
            names.append(text.removeprefix(" + "))
        return (*names, *monomials)

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


def _standardised(found: Moments, num_eigenfunctions: int) -> Canonical:
    variance = jnp.diagonal(found.covariance)[:num_eigenfunctions]
    scale = jnp.where(variance > 1e-6, jax.lax.rsqrt(jnp.maximum(variance, 1e-6)), 0.0)
    matrix = jnp.eye(found.mean.size, num_eigenfunctions) * scale
    eigenvalues = jnp.diagonal(found.energy)[:num_eigenfunctions] * scale**2
    return Canonical(matrix, found.mean @ matrix, eigenvalues, jnp.full(num_eigenfunctions, -1))


def canonical_of_moments(
    found: Moments, num_transitions: int, references: References, num_eigenfunctions: int
) -> Canonical:
    """`found` are the moments of the learned functions, followed by the references."""
    num = found.mean.size - references.rank.size
    ritz = slowest(found.covariance[:num, :num], found.energy[:num, :num], num, tolerance=1e-3)
    correlations = _reference_correlations(found.covariance, num) @ ritz.weights
    rotation = _rotation(ritz.eigenvalues, num_transitions, correlations, references)
    if references.single_features:
        own = _scaled_references(found.covariance, num)[0] @ ritz.weights @ rotation
        rotation = rotation @ _unmixed(ritz.eigenvalues @ rotation**2, num_transitions, own, references)
    rotation = rotation[:, :num_eigenfunctions]
    matrix = ritz.weights @ rotation
    loadings = correlations @ rotation
    # Where eigenvalues keep two features apart, a single monomial describes a function better than their sum.
    nearest = jnp.argmax(jnp.abs(jnp.concatenate([loadings, references.combination.T @ loadings])), axis=0)
    return Canonical(matrix, found.mean[:num] @ matrix, ritz.eigenvalues @ rotation**2, nearest)


def _reference_correlations(covariance: Float[Array, "all all"], num: int) -> Float[Array, "reference function"]:
    """Of functions with references made orthonormal one after the other; a reference that adds nothing is shrunk."""
    with_functions, among = _scaled_references(covariance, num)
    triangle = jnp.linalg.cholesky(among + 1e-3 * jnp.eye(len(among)))
    return jax.scipy.linalg.solve_triangular(triangle, with_functions, lower=True)


def _scaled_references(
    covariance: Float[Array, "all all"], num: int
) -> tuple[Float[Array, "reference function"], Float[Array, "reference reference"]]:
    """Covariances of references of unit variance with the functions, and among themselves."""
    deviation = jnp.sqrt(jnp.diagonal(covariance)[num:])
    scale = jnp.where(deviation > 1e-3, 1 / jnp.maximum(deviation, 1e-3), 0.0)
    return scale[:, None] * covariance[num:, :num], scale[:, None] * covariance[num:, num:] * scale


def _unmixed(
    eigenvalues: Float[Array, " function"],
    num_transitions: int,
    own: Float[Array, "reference function"],
    references: References,
) -> Float[Array, "function function"]:
    """Makes each function that stands for one feature as much like that feature alone as its equals allow.

    In a data set the features are a little correlated (up to 7% on the open grid). Functions without correlation then
    hold some of each other's feature, and an option would bring both together; unit variance is kept, that is not.
    """
    num = len(eigenvalues)
    linear = np.flatnonzero(references.degree == 1)
    nearest = jnp.argmax(jnp.abs(own), axis=0)
    likeness = own[nearest] * _closeness(eigenvalues, num_transitions)
    likeness *= jnp.sign(jnp.diagonal(likeness))[:, None]
    likeness /= jnp.maximum(jnp.linalg.norm(likeness, axis=1, keepdims=True), 1e-6)
    return jnp.where(jnp.isin(nearest, linear)[:, None], likeness, jnp.eye(num)).T


def _rotation(
    eigenvalues: Float[Array, " function"],
    num_transitions: int,
    correlations: Float[Array, "reference function"],
    references: References,
) -> Float[Array, "function function"]:
    """The eigenvectors of M (see the module), in their canonical order and with their signs."""
    log = jnp.log(jnp.maximum(eigenvalues, 1e-6))
    closeness = _closeness(eigenvalues, num_transitions)
    weights = jnp.asarray(references.weights, log.dtype)
    pull = correlations.T @ (weights[:, None] * correlations)
    _, vectors = jnp.linalg.eigh(jnp.diag(log) - PULL * pull * closeness)
    loadings = correlations @ vectors
    shares = loadings**2
    priorities = jnp.asarray(references.priorities, log.dtype)
    unexplained = jnp.maximum(1 - shares.sum(axis=0), 0.0)
    place = log @ vectors**2 + PRIORITY * (priorities @ shares + priorities.max() * unexplained)
    sign = jnp.where(weights @ (loadings * jnp.abs(loadings)) < 0, -1.0, 1.0)
    return (vectors * sign)[:, jnp.argsort(place)]


def _closeness(eigenvalues: Float[Array, " function"], num_transitions: int) -> Float[Array, "function function"]:
    """1 for eigenvalues that may well be equal, 0 for those that differ."""
    log = jnp.log(jnp.maximum(eigenvalues, 1e-6))
    # A function of eigenvalue l forgets in 1 / l steps: n transitions hold about n l independent values of it.
    error = jnp.sqrt(2 / (num_transitions * jnp.exp(log)))
    tau = CLOSENESS + NUM_DEVIATIONS * jnp.hypot(error[:, None], error)
    return jnp.exp(-(((log[:, None] - log) / tau) ** 2))
