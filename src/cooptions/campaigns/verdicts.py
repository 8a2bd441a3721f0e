"""Decide claims by a rule that is fixed before anything is measured.

Each comparison uses two measures: the scores at the end of training, and the mean over all evaluations (the area under
the curve). Both are interquartile means over seeds with 95% intervals.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from cooptions.campaigns.results import Result
from cooptions.errors import require
from cooptions.scores.statistics import Estimate, Scores, final_iqm, over_training

HOLDS, FAILS, UNDECIDED, UNMEASURED = "holds", "does not hold", "undecided", "not measured"

MIN_SEEDS = 5
"""The minimum number of seeds per side for a decision. Intervals of fewer seeds are much too narrow (`Bootstrap`)."""


def end_iqm(*scores: Scores) -> Estimate:
    """The score at the end of training, in one scenario or pooled over several."""
    return final_iqm(*scores)


def area_iqm(*scores: Scores) -> Estimate:
    """The mean score over all evaluations, in one scenario or pooled over several."""
    return final_iqm(*map(over_training, scores))


MEASURES: dict[str, Callable[..., Estimate]] = {"end": end_iqm, "mean of all evaluations": area_iqm}

Pairs = Sequence[tuple[Estimate, Estimate]]
"""The estimates of the left and the right side, for each measure."""


def better(pairs: Pairs) -> str:
    """Whether the left side is better: above by some measure and below by none. Above means disjoint intervals."""
    above, below = _disjoint(pairs)
    if above == below:
        return UNDECIDED
    return HOLDS if above else FAILS


def equal(pairs: Pairs) -> str:
    """Whether the two sides are equal: by both measures, each interval contains the other side's IQM.

    They are not equal if the intervals of any measure are disjoint.
    """
    if any(_disjoint(pairs)):
        return FAILS
    alike = all(left.low <= right.value <= left.high and right.low <= left.value <= right.high for left, right in pairs)
    return HOLDS if alike else UNDECIDED


def _disjoint(pairs: Pairs) -> tuple[bool, bool]:
    """Whether the left side is above the right by any measure, and whether it is below by any."""
    above = any(left.low > right.high for left, right in pairs)
    return above, any(left.high < right.low for left, right in pairs)


@dataclass(frozen=True)
class Rule:
    """How a comparison is decided, and its sign in tables."""

    sign: str
    decide: Callable[[Pairs], str]


RULES: dict[str, Rule] = {"better": Rule(">", better), "equal": Rule("=", equal)}


@dataclass(frozen=True)
class Claim:
    """A claim about methods in some scenarios.

    If the left side has several methods, the one with the best final score counts. Each method on the right side is a
    comparison of its own.
    """

    name: str
    sentence: str
    left: tuple[str, ...]
    """The labels of the methods on the left side, as in tables."""
    against: tuple[tuple[str, str], ...]
    """Pairs of a scenario and a method with which the left side is compared there."""
    rule: str = "better"

    def __post_init__(self) -> None:
        require(self.rule in RULES, f"rule must be one of {', '.join(RULES)}, not {self.rule!r}")

    @property
    def scenarios(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(scenario for scenario, _ in self.against))

    @property
    def comparisons(self) -> tuple["Comparison", ...]:
        return tuple(Comparison(self, scenario, other) for scenario, other in self.against)


@dataclass(frozen=True)
class Comparison:
    """A claim in one scenario, against one method."""

    claim: Claim
    scenario: str
    right: str


@dataclass(frozen=True)
class Verdict:
    """The outcome of a comparison at one fraction of the steps."""

    comparison: Comparison
    fraction: float
    verdict: str
    left: Result | None = None
    right: Result | None = None

    @property
    def discoveries(self) -> int | None:
        """The number of discoveries of the side with fewer; None if neither side has discovered options."""
        sides = [side.discoveries for side in (self.left, self.right) if side and side.discoveries]
        return min(sides, default=None)


def decide(comparison: Comparison, results: Sequence[Result]) -> list[Verdict]:
    """The verdicts at every fraction of the steps at which both sides were measured, the largest first.

    If there is none, the only verdict is "not measured".
    """
    verdicts = []
    claim = comparison.claim
    for fraction in sorted({result.fraction for result in results}, reverse=True):
        here = (comparison.scenario, fraction)
        there = {each.label: each for each in results if (each.scenario, each.fraction) == here}
        candidates = [there[label] for label in claim.left if label in there and label != comparison.right]
        if candidates and comparison.right in there:
            left, right = max(candidates, key=_final_value), there[comparison.right]
            enough = min(len(side.scores.kept) for side in (left, right)) >= MIN_SEEDS
            pairs = [(measure(left.scores), measure(right.scores)) for measure in MEASURES.values()]
            verdict = RULES[claim.rule].decide(pairs) if enough else UNDECIDED
            verdicts.append(Verdict(comparison, fraction, verdict, left, right))
    return verdicts or [Verdict(comparison, 1.0, UNMEASURED)]


def summary(verdicts: Iterable[Verdict]) -> str:
    """Combine verdicts, ignoring unmeasured ones: all must hold for the claim to hold, and any failure fails it."""
    measured = {verdict.verdict for verdict in verdicts} - {UNMEASURED}
    if len(measured) < 2:
        return measured.pop() if measured else UNMEASURED
    return FAILS if FAILS in measured else UNDECIDED


def _final_value(result: Result) -> float:
    return float(np.nan_to_num(final_iqm(result.scores).value, nan=-np.inf))
