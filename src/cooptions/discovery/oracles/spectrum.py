"""Exact Laplacian eigenfunctions of a reversible chain, and how an estimate is scored against them.

Everything starts from the pair law `J[s, s']`: the probability that a step goes from s to s', made symmetric, with
row sums w, the visitation weights. Then D_w^-1 J = (P + P*)/2, P* the time reversal, and the Laplacian is
L = I - (P + P*)/2 (paper, Section 2.2). Ascending eigenvalues mean slowest first.
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
    """The first eigenfunctions (all, by default) of L for a symmetric pair law, in order of eigenvalue.

    Signs are such that the largest component in size is positive. Within a cluster of equal eigenvalues the basis is
    arbitrary: compare subspaces (`eigen_cosine`).
    """
    num_states = len(pairs)
    wanted = num_states - 1 if num_eigenfunctions is None else num_eigenfunctions
    require(0 < wanted < num_states, f"num_eigenfunctions: {wanted} of {num_states - 1} that are not constant")
    weights = pairs.sum(axis=1)
    require(bool(np.all(weights > 0.0)), "pairs: a state is never visited")
    require(bool(np.allclose(pairs, pairs.T)), "pairs: the pair law must be symmetric")
    root = np.sqrt(weights)
    # The constant is moved to -2, below all of [0, 2]: it is dropped exactly, even where eigenvalue 0 is multiple.
    laplacian = np.eye(num_states) - pairs / np.outer(root, root) - 2.0 * np.outer(root, root) / weights.sum()
    eigenvalues, vectors = scipy.linalg.eigh(laplacian, subset_by_index=(0, wanted))
    functions = vectors[:, 1:] / root[:, None]
    largest = np.take_along_axis(functions, np.abs(functions).argmax(axis=0)[None], axis=0)
    return Spectrum(eigenvalues[1:], functions * np.sign(largest), weights)


def eigenvalue_clusters(eigenvalues: Float[np.ndarray, " k"], tolerance: float = 0.02) -> list[list[int]]:
    """Group ascending eigenvalues: a cluster goes on while the next is larger by at most `tolerance`, relatively.

    Pass a few more eigenvalues than are scored, so that the last cluster is not cut short.
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
    """How much of each estimated eigenfunction lies in the exact eigenspace of its own cluster: 1 is perfect.

    Estimate j is scaled to unit length under `weights` (nothing is subtracted, so a constant part counts against it)
    and projected on the exact eigenfunctions of the cluster that holds j; the projection's norm is returned. "State"
    may also be a sample of visited states with equal weights. Estimates that are 0 everywhere score 0.
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
