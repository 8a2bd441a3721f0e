"""Exact Laplacian eigenfunctions of a reversible chain, and the score of an estimate against them.

The starting point is the pair law `J[s, s']`, the symmetrised probability that a step goes from s to s'. Its row sums w
are the visitation weights. Then D_w^-1 J = (P + P*)/2, where P* is the time reversal, and the Laplacian is
L = I - (P + P*)/2 (paper, Section 2.2). Eigenvalues ascend, slowest first.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from jaxtyping import Float

from cooptions.errors import require


@dataclass(frozen=True)
class Spectrum:
    """Eigenfunctions of L without the constant, of unit length under `weights`: sum_s w(s) e(s)^2 = 1."""

    eigenvalues: Float[np.ndarray, " k"]
    eigenfunctions: Float[np.ndarray, "state k"]
    weights: Float[np.ndarray, " state"]


def pair_law(
    transitions: Float[np.ndarray, "state state"], weights: Float[np.ndarray, " state"]
) -> Float[np.ndarray, "state state"]:
    """The symmetrised pair law of a chain in its stationary distribution."""
    flow = weights[:, None] * transitions
    return (flow + flow.T) / 2.0


def laplacian_spectrum(pairs: Float[np.ndarray, "state state"], num_eigenfunctions: int | None = None) -> Spectrum:
    """The first eigenfunctions (by default all) of L for a symmetric pair law, in ascending order of eigenvalue.

    The component with the largest absolute value is positive. Within a cluster of equal eigenvalues the basis is
    arbitrary, so compare subspaces (`eigen_cosine`).
    """
    num_states = len(pairs)
    wanted = num_states - 1 if num_eigenfunctions is None else num_eigenfunctions
    require(0 < wanted < num_states, f"num_eigenfunctions: {wanted} of {num_states - 1} that are not constant")
    weights = pairs.sum(axis=1)
    require(bool(np.all(weights > 0.0)), "pairs: a state is never visited")
    require(bool(np.allclose(pairs, pairs.T)), "pairs: the pair law must be symmetric")
    root = np.sqrt(weights)
    # The constant's eigenvalue is shifted to -2, below [0, 2], so that it is dropped even if eigenvalue 0 is multiple.
    laplacian = np.eye(num_states) - pairs / np.outer(root, root) - 2.0 * np.outer(root, root) / weights.sum()
    eigenvalues, vectors = scipy.linalg.eigh(laplacian, subset_by_index=(0, wanted))
    functions = vectors[:, 1:] / root[:, None]
    largest = np.take_along_axis(functions, np.abs(functions).argmax(axis=0)[None], axis=0)
    return Spectrum(eigenvalues[1:], functions * np.sign(largest), weights)


def eigenvalue_clusters(eigenvalues: Float[np.ndarray, " k"], tolerance: float = 0.02) -> list[list[int]]:
    """Cluster ascending eigenvalues: neighbours whose relative difference is at most `tolerance` share a cluster.

    Pass a few more eigenvalues than are scored, so that the last cluster is complete.
    """
    clusters = [[0]]
    for index in range(1, len(eigenvalues)):
        gap = eigenvalues[index] - eigenvalues[index - 1]
        if gap <= tolerance * abs(eigenvalues[index]):
            clusters[-1].append(index)
        else:
            clusters.append([index])
    return clusters


def eigen_cosine(
    values: Float[np.ndarray, "state estimate"],
    weights: Float[np.ndarray, " state"],
    basis: Float[np.ndarray, "state k"],
    clusters: list[list[int]],
) -> Float[np.ndarray, " estimate"]:
    """The cosine between each estimated eigenfunction and the exact eigenspace of its cluster; 1 is perfect.

    Estimate j is scaled to unit length under `weights`, then projected on the exact eigenfunctions of the cluster that
    contains j. The norm of the projection is returned. The mean is not subtracted, so a constant part lowers the score.
    The states may also be a sample of visited states with equal weights. Estimates that are 0 everywhere score 0.
    """
    root = np.sqrt(weights)[:, None]
    lengths = np.linalg.norm(root * values, axis=0)
    unit = root * values / np.where(lengths > 0.0, lengths, 1.0)
    cosines = np.full(values.shape[1], np.nan)
    for cluster in clusters:
        members = [index for index in cluster if index < values.shape[1]]
        orthonormal, _ = np.linalg.qr(root * basis[:, cluster])
        cosines[members] = np.linalg.norm(orthonormal.T @ unit[:, members], axis=0)
    require(not np.isnan(cosines).any(), "clusters: they must cover every estimate")
    return np.minimum(cosines, 1.0)
