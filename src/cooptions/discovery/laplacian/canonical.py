"""A canonical basis of eigenfunctions: an order and signs that are the same in different runs.

If eigenvalues are (nearly) equal, like those of x and y on a square grid, eigenfunctions are only determined up to a
rotation, which then depends on the data set. Clustering eigenvalues with a threshold would not help, because data sets
would disagree on the clusters. Instead, the following operator is diagonalised in the span of the learned functions:

    M = log(eigenvalues) - g B * closeness,    B = sum_r w_r c_r c_r^T,    closeness_ij = exp(-(log l_i/l_j)^2 / tau^2)

Here c_r are the correlations of reference function r with the learned functions, and w_r is its weight. g is large, so
that noise in close eigenvalues does not rotate the functions away from their references. If eigenvalues are far apart,
they decide and the functions stay as they are. If they are close, the references decide. In between, the result changes
smoothly.
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
"""`symmetric`: the sum of all features first, then differences between features. `axes`: one feature at a time.
`learned`: the estimator's functions in their own order, only standardised; for baselines, and for z in which small
values do not mean that the team is together."""

PULL = 5.0
"""g. At 1, functions of one feature contained up to 6% of the other (open 15x15 grid, 4 agents, 500k transitions)."""
CLOSENESS = 0.05
"""tau for exact eigenvalues. Those whose logarithms differ by much less count as equal."""
NUM_DEVIATIONS = 2.5
"""The number of standard errors of the eigenvalues by which tau is widened."""
RANK_WEIGHT, DEGREE_WEIGHT = 0.6, 0.8
"""The ratios of w_r between consecutive ranks, and between consecutive degrees. B must not have close eigenvalues."""
PRIORITY = 0.08
"""The difference in log(eigenvalue) that overrules the order of two neighbouring references."""
MAX_REFERENCES = 45
MAX_DEGREE = 8


class Canonical(eqx.Module):
    """`values @ matrix - offset`, for one seed: zero mean, unit variance, uncorrelated except through `_unmixed`."""

    matrix: Float[Array, "*seed function k"]
    offset: Float[Array, "*seed k"]
    eigenvalues: Float[Array, "*seed k"]
    """The eigenvalues of the combinations. They need not ascend where the order of references overrules them."""
    reference: Int[Array, "*seed k"]
    """The index in `References.names` of the reference that each function is most similar to, which does not depend on
    the order of the functions. -1 in the basis `learned`."""

    def __call__(self, values: Float[Array, " function"]) -> Float[Array, " k"]:
        return values @ self.matrix - self.offset


def canonicalise(
    laplacian: AbstractLaplacian, solution: Any, data: Pairs, num_eigenfunctions: int, basis: Basis = "symmetric"
) -> Canonical:
    """The first `num_eigenfunctions` of a fitted Laplacian in the canonical basis. For one seed; can be vmapped.

    Fit a few more functions than are kept (`num_to_fit`), so that no group of close eigenvalues is cut in two.
    """
    if basis == "learned":
        return _standardised(moments(lambda z: laplacian.eigenfunctions(solution, z), data), num_eigenfunctions)
    references = References.of(data.z.shape[-1], basis)

    def functions(z: Float[Array, " z"]) -> Float[Array, " function"]:
        return jnp.concatenate([laplacian.eigenfunctions(solution, z), references(z)])

    return canonical_of_moments(moments(functions, data), data.z.shape[0], references, num_eigenfunctions)


def num_to_fit(num_eigenfunctions: int) -> int:
    """The number of eigenfunctions to fit in order to keep `num_eigenfunctions`."""
    return num_eigenfunctions + 4


@dataclass(frozen=True)
class References:
    """Reference functions of z: products of Chebyshev polynomials of single components, ordered by degree.

    They are polynomials in tanh(-z_f / 2), which is robust to outliers and approaches 1 where the team is together.
    Every polynomial is 1 there, which fixes the sign: positive means together.
    """

    exponents: np.ndarray
    """[monomial, z]"""
    combination: np.ndarray
    """[reference, monomial]"""
    degree: np.ndarray
    """[reference]"""
    rank: np.ndarray
    """[reference]: the position among those of the same degree."""
    single_features: bool
    """Whether each reference is a single monomial instead of a combination of several."""

    @classmethod
    def of(cls, num_features: int, basis: Basis) -> "References":
        import scipy.linalg  # imported late because it takes a third of a second

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
        """The priority of each reference, lower first. It grows slowly, so that eigenvalues can overrule late ones."""
        slow = np.where(self.rank < 2, self.rank, 1 + np.log2(np.maximum(self.rank, 1)))
        return slow + np.where(self.degree > 1, 1.5, 0.0)

    def names(self, z_names: Sequence[str]) -> tuple[str, ...]:
        """The names of the references, for example `x + y`, `x - y`, `x y`, `x^2 + y^2`, then those of the monomials.

        The letters stand for tanh(-z_f / 2), which is large where the team is together.
        """
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
    """The partitions of `total` into at most `num_parts` parts. Those with most parts (products) come first."""
    ways = itertools.combinations_with_replacement(range(total, -1, -1), num_parts)
    return sorted((way for way in ways if sum(way) == total), key=lambda way: (-np.count_nonzero(way), way))


def _monomials(parts: tuple[int, ...], num_features: int) -> list[tuple[int, ...]]:
    """All assignments of these exponents to the features, with the largest exponent of the first feature first."""
    return sorted(set(itertools.permutations(parts, num_features)), reverse=True)


def _helmert(num: int) -> np.ndarray:
    """The orthonormal Helmert matrix: the sum, then the first minus the second, both minus the third, and so on."""
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
    """The canonical basis from `found`, the moments of the learned functions followed by the references."""
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
    # If eigenvalues separate two features, a single monomial describes a function better than their sum.
    nearest = jnp.argmax(jnp.abs(jnp.concatenate([loadings, references.combination.T @ loadings])), axis=0)
    return Canonical(matrix, found.mean[:num] @ matrix, ritz.eigenvalues @ rotation**2, nearest)


def _reference_correlations(covariance: Float[Array, "all all"], num: int) -> Float[Array, "reference function"]:
    """The correlations of the functions with the references after Gram-Schmidt. Redundant references shrink to 0."""
    with_functions, among = _scaled_references(covariance, num)
    triangle = jnp.linalg.cholesky(among + 1e-3 * jnp.eye(len(among)))
    return jax.scipy.linalg.solve_triangular(triangle, with_functions, lower=True)


def _scaled_references(
    covariance: Float[Array, "all all"], num: int
) -> tuple[Float[Array, "reference function"], Float[Array, "reference reference"]]:
    """The covariances of the references, scaled to unit variance, with the functions and with each other."""
    deviation = jnp.sqrt(jnp.diagonal(covariance)[num:])
    scale = jnp.where(deviation > 1e-3, 1 / jnp.maximum(deviation, 1e-3), 0.0)
    return scale[:, None] * covariance[num:, :num], scale[:, None] * covariance[num:, num:] * scale


def _unmixed(
    eigenvalues: Float[Array, " function"],
    num_transitions: int,
    own: Float[Array, "reference function"],
    references: References,
) -> Float[Array, "function function"]:
    """A matrix that makes each function of one feature depend as little as possible on the other features.

    It combines functions with close eigenvalues. In a data set, features are slightly correlated (up to 7% on the open
    grid). Uncorrelated functions then contain some of each other's feature, and an option would bring both together.
    The result has unit variance, but its functions may be correlated.
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
    """The eigenvectors of M (see the module's docstring), in canonical order and with canonical signs."""
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
    """The closeness of pairs of eigenvalues: 1 if they may be equal, 0 if they clearly differ."""
    log = jnp.log(jnp.maximum(eigenvalues, 1e-6))
    # A function of eigenvalue l decorrelates in 1 / l steps: n transitions have about n l independent values of it.
    error = jnp.sqrt(2 / (num_transitions * jnp.exp(log)))
    tau = CLOSENESS + NUM_DEVIATIONS * jnp.hypot(error[:, None], error)
    return jnp.exp(-(((log[:, None] - log) / tau) ** 2))
