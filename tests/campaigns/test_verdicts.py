"""Verdicts by the rule: by some measure, intervals are disjoint in favour of the claim, and by none against it."""

import numpy as np
import pytest
from made_up import result

from cooptions.campaigns.verdicts import (
    FAILS,
    HOLDS,
    UNDECIDED,
    UNMEASURED,
    Claim,
    Comparison,
    Verdict,
    area_iqm,
    better,
    decide,
    end_iqm,
    equal,
    summary,
)
from cooptions.errors import ConfigError
from cooptions.scores.statistics import Estimate

SIX = [70.0, 71.0, 72.0, 73.0, 74.0, 75.0]
LOW = [value - 50 for value in SIX]
PLACE = "lbf-15x15-4p-3f"
ABOVE, BELOW, SAME, WIDE = (
    ((5, 4, 6), (2, 1, 3)),
    ((2, 1, 3), (5, 4, 6)),
    ((5, 3, 7), (4, 2, 6)),
    ((5, 3, 7), (2, 1, 4)),
)
UNKNOWN = ((5, np.nan, np.nan), (2, 1, 4))


def _claim(left=("iql+iaro", "iql+hit"), right=("iql",), rule="better"):
    return Claim("H1", "options help", left, tuple((PLACE, each) for each in right), rule)


@pytest.mark.parametrize(
    ("rule", "pairs", "verdict"),
    [
        (better, [ABOVE, ABOVE], HOLDS),
        (better, [ABOVE, SAME], HOLDS),
        (better, [WIDE, ABOVE], HOLDS),
        (better, [ABOVE, BELOW], UNDECIDED),
        (better, [SAME, WIDE], UNDECIDED),
        (better, [BELOW, SAME], FAILS),
        (better, [BELOW, BELOW], FAILS),
        (better, [UNKNOWN, UNKNOWN], UNDECIDED),
        (equal, [SAME, SAME], HOLDS),
        (equal, [SAME, ABOVE], FAILS),
        (equal, [BELOW, SAME], FAILS),
        (equal, [SAME, WIDE], UNDECIDED),
        (equal, [UNKNOWN, SAME], UNDECIDED),
    ],
)
def test_rules(rule, pairs, verdict):
    assert rule([tuple(Estimate(*map(float, side)) for side in pair) for pair in pairs]) == verdict


def test_measures_are_the_last_evaluation_and_the_mean_of_all():
    scores = result("iql", SIX).scores  # after a first evaluation of 0
    assert (end_iqm(scores).value, area_iqm(scores).value) == (72.5, 36.25)


def test_with_equal_ends_earlier_learning_is_better():
    early, late = result("iql+hit", SIX), result("iql", SIX)
    early.means[:, 0] = 60.0
    (verdict,) = decide(_claim().comparisons[0], [early, late])
    assert verdict.verdict == HOLDS


def test_best_of_several_methods_counts_and_shares_of_training_are_not_mixed():
    lower, higher = ([value + step for value in SIX] for step in (-30, 20))
    results = [
        result("iql", SIX), result("iql+iaro", lower), result("iql+hit", higher),
        result("iql", higher, fraction=0.5), result("iql+iaro", lower, fraction=0.5),
        result("iql", SIX, scenario="lbf-15x15-4p-5f"), result("iql+hit", SIX, fraction=0.25),
    ]  # fmt: skip
    verdicts = decide(_claim().comparisons[0], results)
    assert [(each.fraction, each.left.method, each.verdict) for each in verdicts] == [
        (1.0, "iql+hit", HOLDS),
        (0.5, "iql+iaro", FAILS),
    ]


def test_few_seeds_decide_nothing():
    assert decide(_claim().comparisons[0], [result("iql", LOW[:4]), result("iql+hit", SIX)])[0].verdict == UNDECIDED
    assert decide(_claim().comparisons[0], [result("iql", LOW)])[0].verdict == UNMEASURED


def test_every_method_on_the_right_is_a_comparison():
    assert [(each.scenario, each.right) for each in _claim(right=("iql", "vdn")).comparisons] == [
        (PLACE, "iql"),
        (PLACE, "vdn"),
    ]
    with pytest.raises(ConfigError, match="rule must be one of better, equal, not 'larger'"):
        _claim(rule="larger")


def test_summary_holds_by_all_and_fails_by_any():
    def of(*verdicts):
        return summary(Verdict(Comparison(_claim(), PLACE, "iql"), 1.0, each) for each in verdicts)

    assert of() == of(UNMEASURED) == UNMEASURED
    assert of(HOLDS, UNMEASURED) == HOLDS
    assert of(HOLDS, UNDECIDED) == of(UNDECIDED) == UNDECIDED
    assert of(HOLDS, FAILS, UNDECIDED) == FAILS
