"""The paper's claims, decided by a rule that was stated before the numbers were there."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from cooptions.campaigns.figures import COUNTED, COUNTS, FORAGING, LINEUPS, Lineup
from cooptions.campaigns.results import Result
from cooptions.campaigns.rows import method_label
from cooptions.scores.statistics import Estimate, final_iqm

HOLDS, FAILS, UNDECIDED, UNMEASURED = "holds", "does not hold", "undecided", "not measured"

MIN_SEEDS = 5
"""With fewer on either side nothing is decided: intervals of fewer seeds are much too narrow (`Bootstrap`)."""

Rule = Callable[[Estimate, Estimate], str]


def better(left: Estimate, right: Estimate) -> str:
    """Whether the left is above the right: their intervals do not overlap."""
    if left.low > right.high:
        return HOLDS
    return FAILS if left.high < right.low else UNDECIDED


def equal(left: Estimate, right: Estimate) -> str:
    """Whether the two are alike: the interval of each holds the other's IQM. It does not hold if they are disjoint."""
    if left.low <= right.value <= left.high and right.low <= left.value <= right.high:
        return HOLDS
    return FAILS if left.low > right.high or left.high < right.low else UNDECIDED


SIGNS: dict[Rule, str] = {better: ">", equal: "="}


@dataclass(frozen=True)
class Claim:
    """One comparison that the paper makes in one scenario. Of several methods on the left, the best one counts."""

    hypothesis: str
    scenario: str
    left: tuple[str, ...]
    right: str
    rule: Rule = better

    @property
    def sign(self) -> str:
        return SIGNS[self.rule]


@dataclass(frozen=True)
class Verdict:
    """What became of a claim, at one share of the paper's steps."""

    claim: Claim
    fraction: float
    verdict: str
    left: Result | None = None
    right: Result | None = None


def claims() -> list[Claim]:
    """All of them, in the order of the paper; then the first two, or the first, of every other line-up."""
    paper, *more = LINEUPS.values()
    return [
        *_options_beat(paper),
        *(
            Claim("H3", scenario, ("iql+iaro",), "iql+iaro-scalar", equal if scenario in FORAGING else better)
            for scenario in paper.scenarios
        ),
        *(
            Claim("few", scenario, tuple(method_label(method, counts[0]) for method in COUNTED), "iql")
            for scenario, counts in COUNTS.items()
        ),
        *(claim for lineup in more for claim in _options_beat(lineup)),
    ]


def _options_beat(lineup: Lineup) -> list[Claim]:
    """That options from relative representations beat the baselines, and other options."""
    return [
        Claim(name, row.scenario, lineup.relative, row.method)
        for name, beaten in ((lineup.beats_none, lineup.baselines), (lineup.beats_others, lineup.others))
        for row in lineup.rows
        if row.method in beaten
    ]


def decide(claim: Claim, results: Sequence[Result]) -> list[Verdict]:
    """The verdict at every share of the steps at which both sides were measured, the largest first; one "not measured"
    if at none."""
    verdicts = []
    for fraction in sorted({result.fraction for result in results}, reverse=True):
        there = {each.label: each for each in results if (each.scenario, each.fraction) == (claim.scenario, fraction)}
        candidates = [there[label] for label in claim.left if label in there]
        if candidates and claim.right in there:
            left, right = max(candidates, key=_final_value), there[claim.right]
            enough = min(len(side.scores.kept) for side in (left, right)) >= MIN_SEEDS
            verdict = claim.rule(final_iqm(left.scores), final_iqm(right.scores)) if enough else UNDECIDED
            verdicts.append(Verdict(claim, fraction, verdict, left, right))
    return verdicts or [Verdict(claim, 1.0, UNMEASURED)]


def _final_value(result: Result) -> float:
    return float(np.nan_to_num(final_iqm(result.scores).value, nan=-np.inf))


def summary(verdicts: Iterable[Verdict]) -> str:
    """One verdict of several: what holds holds in all that were measured, and what fails in one does not hold."""
    measured = {verdict.verdict for verdict in verdicts} - {UNMEASURED}
    if len(measured) < 2:
        return measured.pop() if measured else UNMEASURED
    return FAILS if FAILS in measured else UNDECIDED
