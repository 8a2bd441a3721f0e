"""Scores of a learned n-distance z_f against exact spreads: rank correlation, and leaks between features."""

import numpy as np
from jaxtyping import Float, Int, Real


def spearman(left: Real[np.ndarray, " sample"], right: Real[np.ndarray, " sample"]) -> float:
    """Spearman's rank correlation, with ties at their mean rank. 0 if either side is constant."""
    ranks = [_ranks(side) for side in (left, right)]
    centred = [rank - rank.mean() for rank in ranks]
    scale = np.sqrt(np.prod([np.sum(rank**2) for rank in centred]))
    return float(centred[0] @ centred[1] / scale) if scale > 0.0 else 0.0


def _ranks(values: Real[np.ndarray, " sample"]) -> Float[np.ndarray, " sample"]:
    """Ranks from 1. Equal values share their mean rank."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place]


def explained_r2(target: Real[np.ndarray, " sample"], own: Real[np.ndarray, " sample"], *, max_bins: int = 64) -> float:
    """The fraction of the variance of z_f that a function of its own feature's spread can explain, in [0, 1]."""
    total = float(np.sum((target - np.mean(target)) ** 2))
    residual = _without_bin_means(np.asarray(target, dtype=float)[:, None], _bins(own, max_bins))
    return float(np.clip(1.0 - np.sum(residual**2) / total, 0.0, 1.0)) if total > 0.0 else 0.0


def partial_r2(
    target: Real[np.ndarray, " sample"],
    own: Real[np.ndarray, " sample"],
    others: Real[np.ndarray, "sample other"],
    *,
    interactions: bool = False,
    max_bins: int = 64,
) -> float:
    """The leak of other features into z_f: 1 - SSE(own and others) / SSE(own), in [0, 1].

    Both models are regressions on one-hot bins: an arbitrary function of the own spread, plus an arbitrary function of
    each other spread (with `interactions`, an arbitrary function of all spreads together). A spread with more than
    `max_bins` distinct values is binned at its quantiles. If the own spread leaves no error, the leak is 0.
    """
    own_bins = _bins(own, max_bins)
    other_bins = [_bins(column, max_bins) for column in others.T]
    residual = _without_bin_means(np.asarray(target, dtype=float)[:, None], own_bins)
    own_error = float(np.sum(residual**2))
    if own_error <= 1e-12 * float(np.sum((target - np.mean(target)) ** 2)) or not other_bins:
        return 0.0
    if interactions:
        _, cells = np.unique(np.stack([own_bins, *other_bins], axis=-1), axis=0, return_inverse=True)
        remaining = _without_bin_means(residual, cells.reshape(-1))
    else:  # Frisch-Waugh: regress the residual on the others' one-hot bins without their means over the own bins
        columns = np.concatenate([np.eye(bins.max() + 1)[bins] for bins in other_bins], axis=1)
        design = _without_bin_means(columns, own_bins)
        coefficients = np.linalg.pinv(design.T @ design, hermitian=True) @ (design.T @ residual)
        remaining = residual - design @ coefficients
    return float(np.clip(1.0 - np.sum(remaining**2) / own_error, 0.0, 1.0))


def _bins(values: Real[np.ndarray, " sample"], max_bins: int) -> Int[np.ndarray, " sample"]:
    """Consecutive bin numbers: one per distinct value (to 6 decimals), or quantiles if those exceed `max_bins`."""
    distinct, index = np.unique(np.round(np.asarray(values, dtype=float), 6), return_inverse=True)
    if len(distinct) > max_bins:
        edges = np.quantile(values, np.linspace(0.0, 1.0, max_bins + 1)[1:-1])
        _, index = np.unique(np.searchsorted(edges, values, side="right"), return_inverse=True)
    return index.reshape(-1)


def _without_bin_means(
    columns: Float[np.ndarray, "sample column"], bins: Int[np.ndarray, " sample"]
) -> Float[np.ndarray, "sample column"]:
    """Subtract from every column its mean within each bin."""
    counts = np.bincount(bins)[:, None]
    sums = np.stack([np.bincount(bins, column) for column in columns.T], axis=-1)
    return columns - (sums / counts)[bins]
