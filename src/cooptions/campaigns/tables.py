"""The tables of a campaign, computed from its results."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cooptions.campaigns.campaign import Campaign, Lineup
from cooptions.campaigns.results import Result, by_own_score, read_results
from cooptions.campaigns.verdicts import (
    FAILS,
    HOLDS,
    MEASURES,
    MIN_SEEDS,
    RULES,
    UNMEASURED,
    Verdict,
    area_iqm,
    decide,
    end_iqm,
    summary,
)
from cooptions.scores.statistics import Estimate, probability_of_improvement


@dataclass(frozen=True)
class Table:
    """A table as strings."""

    head: tuple[str, ...]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Evidence:
    """A campaign and its results, in the order of the campaign's rows."""

    campaign: Campaign
    results: Sequence[Result]

    @classmethod
    def read(cls, campaign: Campaign, folder: Path) -> "Evidence":
        """Read the results of the campaign's rows from a folder. Other results there are ignored."""
        order = {(row.place, row.label): index for index, row in enumerate(campaign.wanted)}
        found = [each for each in read_results(folder) if (each.scenario, each.label) in order]
        return cls(campaign, sorted(found, key=lambda each: order[each.scenario, each.label]))

    @property
    def scored(self) -> list[Result]:
        """One result per row, by the environment's own score."""
        return by_own_score(self.results)

    @property
    def verdicts(self) -> dict[str, list[list[Verdict]]]:
        """The verdicts of each claim's comparisons, at every fraction of the steps."""
        return {claim.name: [decide(each, self.scored) for each in claim.comparisons] for claim in self.campaign.claims}


def verdict_table(evidence: Evidence) -> Table:
    """The verdict on each claim, overall and by scenario.

    If a row was run over several fractions of its steps, the largest one counts.
    """
    scenarios = list(dict.fromkeys(place for claim in evidence.campaign.claims for place in claim.scenarios))
    rows = []
    for claim in evidence.campaign.claims:
        final = [each[0] for each in evidence.verdicts[claim.name]]
        cells = (with_caveat([each for each in final if each.comparison.scenario == place]) for place in scenarios)
        rows.append([f"{claim.name}: {claim.sentence}", f"**{with_caveat(final)}**", *cells])
    return Table(("claim", "verdict", *scenarios), rows)


def comparison_table(evidence: Evidence) -> Table:
    """One line for each comparison with results on both sides, by both measures."""
    rows = []
    for verdict in (verdict for each in evidence.verdicts.values() for one in each for verdict in one):
        comparison, left, right = verdict.comparison, verdict.left, verdict.right
        if left and right:
            sign = RULES[comparison.claim.rule].sign
            compared = [f"{measure(left.scores)} {sign} {measure(right.scores)}" for measure in MEASURES.values()]
            above = str(probability_of_improvement([left.scores], [right.scores]))
            methods = f"{left.label} {sign} {right.label}"
            start = [comparison.claim.name, comparison.scenario, methods, _millions(left)]
            rows.append([*start, *compared, above, with_caveat([verdict])])
    head = ("claim", "scenario", "claimed", "steps", *MEASURES, "first ends above second", "verdict")
    return Table(head, rows)


def with_caveat(verdicts: Sequence[Verdict]) -> str:
    """The summary of several verdicts, with a note if few discoveries or missing results weaken it.

    If seeds share discovered options, their interval does not include the variation between discoveries. A claim holds
    if all its comparisons do, so the fewest discoveries count; it fails if any fails, so the most count.
    """
    verdict = summary(verdicts) if verdicts else ""
    behind = [each.discoveries or MIN_SEEDS for each in verdicts if each.verdict == verdict]
    decisive = {HOLDS: min, FAILS: max}.get(verdict)
    missing = sum(each.verdict == UNMEASURED for each in verdicts)
    notes = [f"{missing} of {len(verdicts)} not measured"] if missing and verdict != UNMEASURED else []
    if decisive is not None and (num := decisive(behind)) < MIN_SEEDS:
        notes.append("one discovery" if num == 1 else f"{num} discoveries")
    return f"{verdict} ({'; '.join(notes)})" if notes else verdict


def coverage_table(evidence: Evidence, lineup: Lineup) -> Table:
    """The number of seeds of each method that have results, and of their discoveries."""
    wanted = len(lineup.seeding.seeds)

    def seeds(found: Result | None) -> str:
        if found is None:
            return f"0 of {wanted}"
        share = "" if found.fraction == 1 else f" at {found.fraction:.3g} of the steps"
        return f"{len(found.seeds)} of {wanted}{_discoveries(found)}{share}"

    return _by_scenario("seeds", evidence, lineup, seeds)


def end_table(evidence: Evidence, lineup: Lineup) -> Table:
    """Each method's score at the end of training."""
    return _by_scenario("end, IQM [95% interval]", evidence, lineup, _score_of(end_iqm))


def area_table(evidence: Evidence, lineup: Lineup) -> Table:
    """Each method's mean score over all evaluations."""
    return _by_scenario("mean of all evaluations, IQM [95% interval]", evidence, lineup, _score_of(area_iqm))


def _score_of(measure: Callable[..., Estimate]) -> Callable[[Result | None], str]:
    def score(found: Result | None) -> str:
        if found is None:
            return UNMEASURED
        share = "" if found.fraction == 1 else f" at {found.fraction:.3g} of the steps"
        return f"{measure(found.scores)}{share}"

    return score


def _longest(evidence: Evidence) -> dict[tuple[str, str], Result]:
    """For each scenario and label, the result over the largest fraction of the steps."""
    return {(each.scenario, each.label): each for each in sorted(evidence.scored, key=lambda each: each.fraction)}


def _by_scenario(corner: str, evidence: Evidence, lineup: Lineup, text: Callable[[Result | None], str]) -> Table:
    """A table of the line-up's methods by scenario, from the results over the largest fraction of the steps."""
    longest = _longest(evidence)
    wanted = {(row.place, row.label) for row in lineup.rows}

    def cell(place: str, label: str) -> str:
        return text(longest.get((place, label))) if (place, label) in wanted else "-"

    rows = [[label, *(cell(place, label) for place in lineup.places)] for label in lineup.labels]
    return Table((corner, *lineup.places), rows)


def method_table(evidence: Evidence) -> Table:
    """The scores of every method of the campaign in every scenario, by both measures."""
    wanted = [(row.place, row.label) for row in evidence.campaign.wanted if row.learns]
    longest = _longest(evidence)
    places, labels = (list(dict.fromkeys(names)) for names in zip(*wanted, strict=True))

    def cell(place: str, label: str) -> str:
        if (place, label) not in wanted:
            return "-"
        scores = [_score_of(measure)(longest.get((place, label))) for measure in MEASURES.values()]
        return " / ".join(dict.fromkeys(scores))

    rows = [[label, *(cell(place, label) for place in places)] for label in labels]
    return Table((" / ".join(MEASURES), *places), rows)


def pooled_table(evidence: Evidence) -> Table:
    """The scores of every method that was measured in all scenarios, pooled over these. Seeds are resampled within
    each scenario."""
    longest = _longest(evidence)
    places = list(dict.fromkeys(row.place for row in evidence.campaign.wanted if row.learns))
    labels = dict.fromkeys(row.label for row in evidence.campaign.wanted if row.learns)
    everywhere = [label for label in labels if all((place, label) in longest for place in places)]
    rows = []
    for label in everywhere:
        found = [longest[place, label] for place in places]
        seeds = sum(len(each.scores.kept) for each in found)
        pooled = (str(measure(*(each.scores for each in found))) for measure in MEASURES.values())
        rows.append([label, *pooled, str(seeds)])
    return Table(("method", *MEASURES, "seeds"), rows)


def score_table(evidence: Evidence) -> Table:
    """The scores of every row, and how it was made."""
    rows = []
    for each in evidence.scored:
        made = [block["made_by"] | {"day": block["made_by"]["date"][:10]} for block in each.blocks]
        devices, days, commits = (_once(made_by[key] for made_by in made) for key in ("device", "day", "commit"))
        commands = " && ".join(command for block in each.blocks for command in block["commands"])
        rows.append([each.metric, *_cells(each), _minutes(_seconds(each)), devices, days, commits, f"`{commands}`"])
    return Table(("score", *_HEAD, "minutes", "device", "date", "commit", "commands"), rows)


def return_table(evidence: Evidence) -> Table:
    """The episodic return of every row."""
    return Table(_HEAD, [_cells(each) for each in evidence.results if each.metric == "return"])


def time_table(evidence: Evidence) -> Table:
    """The measured time of the rows, by device."""
    times: dict[str, list[tuple[int, float, float]]] = {}
    for block in (block for each in evidence.scored for block in each.blocks):
        seconds = _learning_seconds(block)
        if seconds is not None:
            one = len(block["seeds"]), seconds, seconds + block["discovery_seconds"]
            times.setdefault(block["made_by"]["device"], []).append(one)
    rows = []
    for device, each in times.items():
        seeds, learned, whole = (sum(values) for values in zip(*each, strict=True))
        rows.append([device, str(seeds), _minutes(whole), _minutes(learned)])
    return Table(("device", "seeds", "minutes in all", "learning"), rows)


WHOLE_TABLES: dict[str, Callable[[Evidence], Table]] = {
    "verdicts": verdict_table,
    "comparisons": comparison_table,
    "methods": method_table,
    "pooled": pooled_table,
    "scores": score_table,
    "returns": return_table,
    "time": time_table,
}
"""Tables of a whole campaign."""

LINEUP_TABLES: dict[str, Callable[[Evidence, Lineup], Table]] = {
    "coverage": coverage_table,
    "ends": end_table,
    "areas": area_table,
}
"""Tables of one line-up."""

_HEAD = ("scenario", "method", *MEASURES, "seeds", "steps")


def _cells(result: Result) -> list[str]:
    lost = result.scores.left_out
    seeds = f"{len(result.seeds)} ({lost})" if lost else str(len(result.seeds))
    scores = [str(measure(result.scores)) for measure in MEASURES.values()]
    return [result.scenario, result.label, *scores, f"{seeds}{_discoveries(result)}", _millions(result)]


def _discoveries(result: Result) -> str:
    if not result.discoveries:
        return ""
    return f", {result.discoveries} discover{'y' if result.discoveries == 1 else 'ies'}"


def _once(values: Iterable[str]) -> str:
    """The distinct values, joined by commas."""
    return ", ".join(dict.fromkeys(values))


def _millions(result: Result) -> str:
    steps = f"{result.steps[-1] / 1e6:.3g}M"
    return steps if result.fraction == 1 else f"{steps} ({result.fraction:g} of all)"


def _seconds(result: Result) -> float | None:
    learning = [_learning_seconds(block) for block in result.blocks]
    known = [each for each in learning if each is not None]
    return sum(known) + sum(block["discovery_seconds"] for block in result.blocks) if known == learning else None


def _learning_seconds(block: dict) -> float | None:
    """A block's share of its group's training time; None if that was not measured."""
    return None if block["seconds"] is None else block["seconds"] * len(block["seeds"]) / block["members"]


def _minutes(seconds: float | None) -> str:
    return "?" if seconds is None else f"{seconds / 60:.1f}"
