import numpy as np
import pytest
import scipy.stats

from cooptions.discovery.oracles import scores


def test_spearman_agrees_with_scipy_under_ties():
    rng = np.random.default_rng(0)
    left = rng.integers(6, size=300)
    right = left + rng.normal(size=300)
    assert scores.spearman(left, right) == pytest.approx(scipy.stats.spearmanr(left, right).statistic)
    assert scores.spearman(left, -np.exp(left.astype(float))) == pytest.approx(-1.0)
    assert scores.spearman(left, np.ones(300)) == 0.0


def test_partial_r2_is_the_share_of_the_residual_variance():
    rng = np.random.default_rng(1)
    own, other = rng.integers(8, size=(2, 100_000))
    leak, noise = (other - 3.5) ** 2, rng.normal(size=100_000)
    target = np.exp(own / 3.0) + 0.2 * leak + noise
    expected = 0.04 * leak.var() / (0.04 * leak.var() + 1.0)
    assert scores.partial_r2(target, own, other[:, None]) == pytest.approx(expected, abs=0.01)
    assert scores.partial_r2(np.exp(own / 3.0) + noise, own, other[:, None]) < 1e-3


def test_partial_r2_agrees_with_two_plain_regressions_when_spreads_are_correlated():
    rng = np.random.default_rng(2)
    own = rng.integers(5, size=400)
    others = np.stack([(own + rng.integers(3, size=400)) % 6, rng.integers(4, size=400)], axis=-1)
    target = own * 0.5 + np.sin(others[:, 0]) + rng.normal(size=400)
    small = np.eye(5)[own]
    large = np.concatenate([small, np.eye(6)[others[:, 0]], np.eye(4)[others[:, 1]]], axis=1)
    errors = [np.sum((target - x @ np.linalg.lstsq(x, target, rcond=None)[0]) ** 2) for x in (small, large)]
    assert scores.partial_r2(target, own, others) == pytest.approx(1 - errors[1] / errors[0])


def test_a_leak_that_only_interacts_needs_interactions():
    rng = np.random.default_rng(3)
    own, other = rng.integers(2, size=(2, 20_000))
    target = (2.0 * own - 1.0) * (2.0 * other - 1.0) + rng.normal(size=20_000)
    assert scores.partial_r2(target, own, other[:, None]) < 0.01
    assert scores.partial_r2(target, own, other[:, None], interactions=True) == pytest.approx(0.5, abs=0.02)


def test_nothing_left_to_explain_is_no_leak_and_a_hijacked_head_leaks_all():
    rng = np.random.default_rng(4)
    own, other = rng.integers(9, size=(2, 5000))
    assert scores.partial_r2(own**2, own, other[:, None]) == 0.0
    assert scores.partial_r2(np.zeros(5000), own, other[:, None]) == 0.0
    assert scores.partial_r2(other**2, own, other[:, None]) == pytest.approx(1.0)


def test_continuous_spreads_are_cut_into_quantiles():
    rng = np.random.default_rng(5)
    own, other = rng.random((2, 50_000))
    target = np.sin(6 * own) + other
    assert scores.partial_r2(target, own, other[:, None]) > 0.95
    assert scores.partial_r2(np.sin(6 * own), own, other[:, None]) < 0.01
