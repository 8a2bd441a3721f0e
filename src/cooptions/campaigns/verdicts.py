"""Claims decided by a rule that is fixed before anything is measured.

Each comparison looks at two measures: the scores at the end of training, and the mean of all evaluations (the area
under the curve). Both are interquartile means over seeds with 95% intervals.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from cooptions.campaigns.results import Result
from cooptions.errors import require
from cooptions.scores.statistics import Estimate, Scores, final_iqm, over_training

HOLDS, FAILS, UNDECIDED, UNMEASURED = "holds", "does not hold", "undecided", "not measured"

MIN_SEEDS = 5
"""With fewer on either side nothing is decided: intervals of fewer seeds are much too narrow (`Bootstrap`)."""


def end_iqm(scores: Scores) -> Estimate:
    """The score at the end of training."""
    return final_iqm(scores)


def area_iqm(scores: Scores) -> Estimate:
    """The mean of all evaluations."""
    return final_iqm(over_training(scores))


MEASURES: dict[str, Callable[[Scores], Estimate]] = {"end": end_iqm, "mean of all evaluations": area_iqm}

Pairs = Sequence[tuple[Estimate, Estimate]]
"""The left and the right of a comparison, by each measure."""


def better(pairs: Pairs) -> str:
    """Whether the left is better: above by either measure, and below by neither; above means disjoint intervals."""
    above, below = _disjoint(pairs)
    if above == below:
        return UNDECIDED
    return HOLDS if above else FAILS


def equal(pairs: Pairs) -> str:
    """Whether the two are alike: by both measures the interval of each holds the other's IQM. They are not if any
    intervals are disjoint."""
    if any(_disjoint(pairs)):
        return FAILS
    alike = all(left.low <= right.value <= left.high and right.low <= left.value <= right.high for left, right in pairs)
    return HOLDS if alike else UNDECIDED


def _disjoint(pairs: Pairs) -> tuple[bool, bool]:
    """Whether the left is above the right by any measure, and whether it is below by any."""
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
    """What is claimed of methods in some scenarios. Of several on the left, the one with the best end counts, and each
    on the right is a comparison."""

    name: str
    sentence: str
    left: tuple[str, ...]
    """Labels of methods, as tables show them."""
    against: tuple[tuple[str, str], ...]
    """Scenarios, and the methods that the left is compared with there."""
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
    """What became of a comparison, at one share of the steps."""

    comparison: Comparison
    fraction: float
    verdict: str
    left: Result | None = None
    right: Result | None = None

    @property
    def discoveries(self) -> int | None:
        """How many discoveries the side with the fewest rests on; `None` where neither has discovered options."""
        sides = [side.discoveries for side in (self.left, self.right) if side and side.discoveries]
        return min(sides, default=None)


def decide(comparison: Comparison, results: Sequence[Result]) -> list[Verdict]:
    """The verdict at every share of the steps at which both sides were measured, the largest first; one "not measured"
    if at none."""
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
    """One verdict of several: what holds holds in all that were measured, and what fails in one does not hold."""
    measured = {verdict.verdict for verdict in verdicts} - {UNMEASURED}
    if len(measured) < 2:
        return measured.pop() if measured else UNMEASURED
    return FAILS if FAILS in measured else UNDECIDED


def _final_value(result: Result) -> float:
    return float(np.nan_to_num(final_iqm(result.scores).value, nan=-np.inf))
