import itertools

import numpy as np
import pytest
import scipy.stats

from cooptions.errors import ArtifactError, ConfigError
from cooptions.scores.comparison import compare, markdown_comparison
from cooptions.scores.statistics import (
    Bootstrap,
    Scores,
    bootstrap_iqm,
    bootstrap_mean,
    final_iqm,
    final_scores,
    iqm,
    iqm_curve,
    load_scores,
    probability_of_improvement,
    save_scores,
    steps_to_reach,
)


def scores_of(values, *, name="IQL", scenario="lbf-8x8-2p-2f", metric="percent_eaten", steps=None):
    values = np.asarray(values, dtype=float)
    steps = np.arange(values.shape[1]) * 1000 if steps is None else np.asarray(steps)
    return Scores(name, scenario, metric, steps, values)


def drawn_scores(*shape, seed=0, **names):
    """Scores that vary between seeds and checkpoints, with many ties, like fractions of apples."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(shape[0], 1, 1)) + rng.normal(size=(1, shape[1], 1)) + rng.normal(size=shape)
    return scores_of(np.round(values, 1), **names)


def looped_draws(strata, bootstrap):
    """The definition: draw seeds with replacement, pool their episodes, trim a quarter at each end."""
    rng = np.random.default_rng(bootstrap.seed)
    size = bootstrap.num_resamples
    counts = [rng.multinomial(len(each), np.full(len(each), 1.0 / len(each)), size=size) for each in strata]
    draws = []
    for resample in range(size):
        picked = [np.repeat(each, count[resample], axis=0) for each, count in zip(strata, counts, strict=True)]
        draws.append(scipy.stats.trim_mean(np.concatenate([each.ravel() for each in picked]), 0.25))
    return np.array(draws)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 640])
def test_iqm_is_the_trimmed_mean(size):
    values = np.random.default_rng(size).normal(size=size)
    assert iqm(values) == pytest.approx(scipy.stats.trim_mean(values, 0.25))
    assert iqm(values[:, None]) == iqm(values)


@pytest.mark.parametrize("shape", [(2, 3, 1), (3, 2, 5), (10, 4, 8)])
def test_curve_is_that_of_a_plain_loop(shape):
    scores, bootstrap = drawn_scores(*shape), Bootstrap(300, seed=7)
    curve = iqm_curve(scores, bootstrap=bootstrap)
    for point in range(shape[1]):
        draws = looped_draws([scores.values[:, point]], bootstrap)
        expected = [
            scipy.stats.trim_mean(scores.values[:, point], 0.25, axis=None),
            *np.quantile(draws, [0.025, 0.975]),
        ]
        assert [curve.iqm[point], curve.low[point], curve.high[point]] == pytest.approx(expected, abs=1e-12)


def test_scenarios_are_resampled_separately():
    tasks = [drawn_scores(5, 3, 4, scenario="a"), drawn_scores(3, 3, 7, seed=1, scenario="b")]
    bootstrap = Bootstrap(300)
    found = final_iqm(*tasks, last=2, bootstrap=bootstrap)
    strata = [task.values[:, 1:].reshape(len(task.values), -1) for task in tasks]
    low, high = np.quantile(looped_draws(strata, bootstrap), [0.025, 0.975])
    pooled = np.concatenate([each.ravel() for each in strata])
    assert (found.value, found.low, found.high) == pytest.approx((scipy.stats.trim_mean(pooled, 0.25), low, high))
    curve = iqm_curve(*tasks, bootstrap=bootstrap)
    assert curve.iqm[-1] == pytest.approx(final_iqm(*tasks, bootstrap=bootstrap).value)
    assert curve.num_seeds == 8
    with pytest.raises(ConfigError, match="one method"):
        final_iqm(tasks[0], tasks[0])


@pytest.mark.parametrize(("num_seeds", "least"), [(5, 0.78), (10, 0.85), (20, 0.88)])
def test_interval_covers_the_truth(num_seeds, least):
    """300 experiments (as checkpoints) with equal variance of seeds and episodes. Resampling episodes covers half."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(num_seeds, 300, 1)) + rng.normal(0.0, 1.0, size=(num_seeds, 300, 16))
    curve = iqm_curve(scores_of(values), bootstrap=Bootstrap(1000))
    covered = np.mean((curve.low <= 0.0) & (curve.high >= 0.0))
    assert least <= covered <= 0.99


def test_interval_depends_on_its_seed_alone():
    scores = drawn_scores(10, 1, 8)
    assert final_iqm(scores) == final_iqm(scores)
    assert final_iqm(scores) != final_iqm(scores, bootstrap=Bootstrap(seed=1))


def test_seeds_that_diverged_or_were_not_scored_with_numbers_are_left_out_and_counted():
    whole = drawn_scores(6, 3, 4)
    values = whole.values.copy()
    values[2, 1:] = np.nan
    values[4, 2, 0] = np.inf
    broken, others = scores_of(values), scores_of(values[[0, 1, 3, 5]])
    curve, expected = iqm_curve(broken), iqm_curve(others)
    assert np.array_equal(curve.iqm, expected.iqm)
    assert np.array_equal(curve.low, expected.low)
    assert (curve.num_seeds, curve.num_diverged) == (4, 1)
    assert np.array_equal(final_scores(broken), final_scores(others))
    assert np.array_equal(broken.averaged().diverged, broken.diverged)
    assert np.array_equal(broken.averaged().unscored, broken.unscored)
    row = compare([broken])[0]
    assert (row.num_seeds, row.num_diverged, row.num_unscored) == (4, 1, 1)
    assert "4 (1 diverged, 1 with scores that are no numbers)" in markdown_comparison([row])


@pytest.mark.parametrize("num_seeds", [0, 1])
def test_too_few_seeds_have_no_interval(num_seeds):
    values = drawn_scores(3, 2, 4).values
    values[num_seeds:] = np.nan
    scores = scores_of(values)
    found = final_iqm(scores)
    assert np.isnan(found.low)
    assert np.isnan(found.high)
    assert np.isnan(found.value) == (num_seeds == 0)
    assert np.isnan(iqm_curve(scores).low).all()
    both = final_iqm(scores, drawn_scores(3, 2, 4, scenario="another"))
    assert np.isnan(both.value) == (num_seeds == 0)
    assert "[" not in str(found)
    assert np.isnan(probability_of_improvement([scores], [drawn_scores(3, 2, 4)]).low)


def test_averaged_trims_seeds_not_episodes():
    """Every seed fails in a quarter of its episodes, which only the mean of each seed shows."""
    scores = scores_of(np.tile([0.0, 1.0, 1.0, 1.0], (8, 1, 1)))
    assert final_iqm(scores).value == 1.0
    assert final_iqm(scores.averaged()).value == 0.75


def test_probability_of_improvement_is_mann_whitney():
    left = [drawn_scores(6, 2, 4, scenario="a", name="ours"), drawn_scores(4, 2, 4, seed=1, scenario="b", name="ours")]
    right = [drawn_scores(3, 2, 4, seed=2, scenario="b"), drawn_scores(5, 2, 4, seed=4, scenario="a")]
    pairs = [(left[0], right[1]), (left[1], right[0])]
    expected = [
        scipy.stats.mannwhitneyu(final_scores(ours), final_scores(theirs)).statistic
        / (len(ours.kept) * len(theirs.kept))
        for ours, theirs in pairs
    ]
    found = probability_of_improvement(left, right)
    assert found.value == pytest.approx(np.mean(expected))
    assert found.low < found.value < found.high
    with pytest.raises(ConfigError, match="ours and IQL"):
        probability_of_improvement(left, right[:1])


def test_probability_of_improvement_has_the_interval_of_a_plain_loop():
    left, right = drawn_scores(7, 1, 2, seed=5), drawn_scores(5, 1, 2, seed=6)
    ours, theirs = final_scores(left), final_scores(right)
    rng = np.random.default_rng(3)
    counts = [rng.multinomial(num, np.full(num, 1.0 / num), size=200) for num in (7, 5)]
    draws = []
    for mine, other in zip(*counts, strict=True):
        pairs = itertools.product(np.repeat(ours, mine), np.repeat(theirs, other))
        draws.append(np.mean([float(x > y) + 0.5 * float(x == y) for x, y in pairs]))
    found = probability_of_improvement([left], [right], bootstrap=Bootstrap(200, seed=3))
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(draws, [0.025, 0.975])))


def test_probability_of_improvement_at_its_ends():
    scores, better = drawn_scores(5, 1, 4), scores_of(drawn_scores(5, 1, 4).values + 100.0, name="better")
    assert probability_of_improvement([scores], [scores]).value == 0.5
    found = probability_of_improvement([better], [scores])
    assert (found.value, found.low, found.high) == (1.0, 1.0, 1.0)


def test_summaries_of_each_seed():
    values = np.array([[0.0, 1.0, 3.0], [0.0, 0.0, 0.5]])[:, :, None] + np.array([-0.25, 0.25])
    scores = scores_of(values, steps=[0, 100, 400])
    assert final_scores(scores, last=2).tolist() == [2.0, 0.25]
    assert steps_to_reach(scores, 1.0).tolist() == [100.0, np.inf]
    with pytest.raises(ConfigError, match="last must be between 1 and the 3"):
        final_scores(scores, last=4)


def test_scores_must_fit_together():
    with pytest.raises(ConfigError, match="steps of IQL must rise"):
        scores_of(np.zeros((2, 2, 3)), steps=[5, 5])
    with pytest.raises(ConfigError, match="values of IQL: shape"):
        scores_of(np.zeros((0, 2, 3)))


def test_saved_scores_come_back_and_damage_is_seen(tmp_path):
    scores, path = drawn_scores(3, 2, 4, name="IQL+ö"), tmp_path / "scores.safetensors"
    scores.values[1, 1, 1] = np.nan
    save_scores(path, scores)
    first = path.read_bytes()
    loaded = load_scores(path)
    assert (loaded.name, loaded.scenario, loaded.metric) == (scores.name, scores.scenario, scores.metric)
    np.testing.assert_array_equal(loaded.values, scores.values, strict=True)
    np.testing.assert_array_equal(loaded.steps, scores.steps, strict=True)
    save_scores(path, loaded)
    assert path.read_bytes() == first
    for position in (10, first.index(b"percent_eaten"), len(first) - 3):
        path.write_bytes(first[:position] + bytes([first[position] ^ 1]) + first[position + 1 :])
        with pytest.raises(ArtifactError, match="scores.safetensors"):
            load_scores(path)
    path.write_bytes(first[:-5])
    with pytest.raises(ArtifactError, match="scores.safetensors"):
        load_scores(path)


def test_other_files_are_refused(tmp_path):
    for content in (b"", b"not scores", b"\x02\0\0\0\0\0\0\0{}"):
        (tmp_path / "odd").write_bytes(content)
        with pytest.raises(ArtifactError, match="odd: not a whole file of scores"):
            load_scores(tmp_path / "odd")
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(ArtifactError, match=path.name):
            load_scores(path)


def test_single_scores_per_seed_have_an_interval():
    summary = final_scores(drawn_scores(10, 3, 4))
    found = bootstrap_iqm([summary[:, None]])
    assert found.low < found.value < found.high


def test_the_mean_of_one_teams_episodes_has_an_interval_of_these():
    values = np.arange(100.0)
    found = bootstrap_mean(values)
    assert found.value == 49.5
    error = values.std() / 10
    assert found.low == pytest.approx(49.5 - 1.96 * error, abs=0.5)
    assert found.high == pytest.approx(49.5 + 1.96 * error, abs=0.5)
    assert str(bootstrap_mean(np.array([3.0]))) == "3.0"
