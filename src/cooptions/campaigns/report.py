"""The page of the reproduction: its tables are made from the results, everything else is left as it was written."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cooptions.campaigns.estimates import Speeds, contestant, jaxmarl
from cooptions.campaigns.figures import PAPER, REPRODUCTIONS
from cooptions.campaigns.results import Result, by_own_score, read_results
from cooptions.campaigns.rows import Row
from cooptions.campaigns.verdicts import FAILS, HOLDS, MIN_SEEDS, UNMEASURED, Verdict, claims, decide, summary
from cooptions.errors import ArtifactError
from cooptions.files import write_bytes
from cooptions.scores.statistics import final_iqm, probability_of_improvement

CLAIMS = {
    "H1": "H1: joint options beat having none",
    "H2": "H2: options from relative representations beat those from Kronecker products and raw joint states",
    "H3": "H3: the multi-dimensional representation beats the scalar one in Overcooked, and equals it in foraging",
    "few": "Few options already help: 2 in foraging, 10 in Overcooked",
    "H1-ns": "H1 for agents that share no network (`-ns`)",
    "H2-ns": "H2 for agents that share no network",
    "H1-ln": "H1 for learners with layer normalisation (`-ln`, ours)",
    "H2-ln": "H2 for learners with layer normalisation",
    "H1-vdn": "H1 for options added to VDN, not IQL (ours)",
    "H1-ippo": "H1 for options added to IPPO, not IQL (ours)",
    "control": "Joint options beat wandering together for as long (ours)",
}


@dataclass(frozen=True)
class Evidence:
    """Everything that the page is made from; rows in the order of the figures."""

    results: Sequence[Result]
    speeds: Speeds
    pictures: Sequence[Path]
    """As the page's links name them."""

    @classmethod
    def read(cls, results: Path, speed: Path, page: Path) -> "Evidence":
        order = list(dict.fromkeys((row.place, row.label) for figure in REPRODUCTIONS.values() for row in figure.rows))

        def place(result: Result) -> int:
            row = result.scenario, result.label
            return order.index(row) if row in order else len(order)

        found = sorted(read_results(results), key=place)
        pictures = [Path(os.path.relpath(path, page.parent)) for path in sorted(results.glob("*.png"))]
        return cls(found, Speeds.read(speed), pictures)

    @property
    def scored(self) -> list[Result]:
        """Each row once."""
        return by_own_score(self.results)


def write_page(page: Path, results: Path, speed: Path) -> None:
    """Write the generated parts of the page anew."""
    try:
        text = page.read_text()
    except OSError as error:
        raise ArtifactError(
            f"{page}: cannot be read: {error.strerror}; run this in a checkout or give --page"
        ) from None
    try:
        written = with_parts(text, Evidence.read(results, speed, page))
    except ArtifactError as error:
        raise ArtifactError(f"{page}: {error}") from None
    write_bytes(page, written.encode())


def with_parts(text: str, evidence: Evidence) -> str:
    """The page, with every part that it has markers for made from the results."""
    parts = [name for name in PARTS if any(marker in text for marker in _markers(name))]
    if not parts:
        raise ArtifactError(f"no part to write; there are {', '.join(PARTS)}, each between markers like {_SAMPLE}")
    for name in parts:
        begin, end = _markers(name)
        if text.count(begin) != 1 or text.count(end) != 1 or text.index(end) < text.index(begin):
            raise ArtifactError(f"needs {begin} and {end}, once each and in this order")
        before, rest = text.split(begin)
        text = f"{before}{begin}\n{PARTS[name](evidence)}\n{end}{rest.split(end)[1]}"
    return text


def _markers(part: str) -> tuple[str, str]:
    return f"<!-- begin {part} -->", f"<!-- end {part} -->"


_SAMPLE = " and ".join(_markers("verdicts"))


def verdict_table(evidence: Evidence) -> str:
    """Each claim: over all scenarios, and in each where it is made. Of several shares of the paper's steps the largest
    counts."""
    scenarios = list(dict.fromkeys(claim.scenario for claim in claims()))
    lines = []
    for name, sentence in CLAIMS.items():
        final = [decide(claim, evidence.scored)[0] for claim in claims() if claim.hypothesis == name]
        cells = (_with_caveat([each for each in final if each.claim.scenario == scenario]) for scenario in scenarios)
        lines.append([sentence, f"**{_with_caveat(final)}**", *cells])
    return _table(["claim", "verdict", *scenarios], lines)


def comparison_table(evidence: Evidence) -> str:
    """One line for each comparison that could be made."""
    lines = []
    for verdict in (verdict for claim in claims() for verdict in decide(claim, evidence.scored)):
        claim, left, right = verdict.claim, verdict.left, verdict.right
        if left and right:
            told = f"{_told(left)} {claim.sign} {_told(right)}"
            above = probability_of_improvement([left.scores], [right.scores])
            lines.append([claim.hypothesis, claim.scenario, _millions(left), told, str(above), _with_caveat([verdict])])
    head = ["claim", "scenario", "steps", "claimed, with IQM and 95% interval", "first ends above second", "verdict"]
    return _table(head, lines)


def _with_caveat(verdicts: Sequence[Verdict]) -> str:
    """One verdict of several. What was decided by the options of few discoveries says so: how much discoveries differ
    the interval of seeds that share them does not know. A claim holds by all of its comparisons, and fails by any."""
    told = summary(verdicts) if verdicts else ""
    behind = [_discoveries_behind(each) for each in verdicts if each.verdict == told]
    decisive = {HOLDS: min, FAILS: max}.get(told)
    if decisive is None or (num := decisive(behind)) >= MIN_SEEDS:
        return told
    return f"{told} ({'one discovery' if num == 1 else f'{num} discoveries'})"


def _discoveries_behind(verdict: Verdict) -> int:
    """How many discoveries the side with the fewest rests on; enough, where neither has discovered options."""
    sides = (side for side in (verdict.left, verdict.right) if side and side.discoveries)
    return min((side.discoveries for side in sides), default=MIN_SEEDS)


def coverage_table(evidence: Evidence) -> str:
    """Of the paper's comparison, how many seeds of each method there are."""

    def seeds(found: Result | None) -> str:
        if found is None:
            return "none"
        return str(len(found.seeds)) if found.fraction == 1 else f"{len(found.seeds)} over {found.fraction:g}"

    return _comparison_of_the_paper("seeds", evidence, seeds)


def end_table(evidence: Evidence) -> str:
    """Of the paper's comparison, what each method scores at the end."""

    def end(found: Result | None) -> str:
        if found is None:
            return UNMEASURED
        share = "" if found.fraction == 1 else f" over {found.fraction:g}"
        return f"{final_iqm(found.scores)}{share}"

    return _comparison_of_the_paper("IQM [95% interval]", evidence, end)


def _comparison_of_the_paper(corner: str, evidence: Evidence, tell: Callable[[Result | None], str]) -> str:
    """Every method of the paper's comparison in every scenario, over the largest share of the steps there is."""
    longest = {(each.scenario, each.label): each for each in sorted(evidence.scored, key=lambda each: each.fraction)}

    def cell(scenario: str, method: str) -> str:
        there = Row(scenario, method) in PAPER.rows_in(scenario)
        return tell(longest.get((scenario, method))) if there else "-"

    lines = [[method, *(cell(scenario, method) for scenario in PAPER.scenarios)] for method in PAPER.methods]
    return _table([corner, *PAPER.scenarios], lines)


def score_table(evidence: Evidence) -> str:
    """What every row scored at the end, and how it was made."""
    lines = []
    for each in evidence.scored:
        made = [block["made_by"] | {"day": block["made_by"]["date"][:10]} for block in each.blocks]
        devices, days, commits = (_once(made_by[key] for made_by in made) for key in ("device", "day", "commit"))
        commands = " && ".join(command for block in each.blocks for command in block["commands"])
        lines.append([each.metric, *_cells(each), _minutes(_seconds(each)), devices, days, commits, f"`{commands}`"])
    head = ["score", *_HEAD, "minutes", "device", "date", "commit", "commands"]
    return _table(head, lines)


def return_table(evidence: Evidence) -> str:
    """The same rows by episodic return."""
    return _table(list(_HEAD), [_cells(each) for each in evidence.results if each.metric == "return"])


def time_table(evidence: Evidence) -> str:
    """How long the rows took whose time was measured, by device, and would take alone and with JaxMARL's scripts."""
    devices = dict.fromkeys(block["made_by"]["device"] for each in evidence.scored for block in each.blocks)
    head = ["device", "seeds", "minutes in all", "learning", "learning by Q-learning"]
    return _table(
        [*head, "by our measured speed, alone", "as many updates of JaxMARL's IQL"],
        [_time_line(device, evidence) for device in devices],
    )


def _time_line(device: str, evidence: Evidence) -> list[str]:
    seeds, whole, learned, by_q, alone, theirs = 0, 0.0, 0.0, 0.0, 0.0, 0.0
    for each in evidence.scored:
        learning = each.settings["learning"]
        for block in each.blocks:
            mine = _learning_seconds(block)
            if block["made_by"]["device"] == device and mine is not None:
                num = len(block["seeds"])
                seeds, whole, learned = seeds + num, whole + mine + block["discovery_seconds"], learned + mine
                expected, other = (
                    evidence.speeds.seconds(name(learning), each.scenario, learning["learner"], num)
                    for name in (contestant, jaxmarl)
                )
                if other is not None:
                    by_q, alone, theirs = by_q + mine, alone + (expected or 0.0), theirs + other
    return [device, str(seeds), *(_minutes(each) for each in (whole, learned, by_q, alone, theirs))]


def picture_list(evidence: Evidence) -> str:
    """The figures there are."""
    return "\n".join(f"![{path.stem}]({path.as_posix()})" for path in evidence.pictures) or "None yet."


PARTS: dict[str, Callable[[Evidence], str]] = {
    "verdicts": verdict_table,
    "comparisons": comparison_table,
    "coverage": coverage_table,
    "ends": end_table,
    "scores": score_table,
    "returns": return_table,
    "time": time_table,
    "figures": picture_list,
}
"""The generated parts of the page."""

_HEAD = ("scenario", "method", "IQM [95% interval]", "seeds", "steps")


def _cells(result: Result) -> list[str]:
    lost = int(result.scores.diverged.sum())
    seeds = f"{len(result.seeds)} ({lost} diverged)" if lost else str(len(result.seeds))
    if result.discoveries:
        seeds += f", {result.discoveries} discover{'y' if result.discoveries == 1 else 'ies'}"
    return [result.scenario, result.label, str(final_iqm(result.scores)), seeds, _millions(result)]


def _once(values: Iterable[str]) -> str:
    """What all blocks of a row have in common, or each of what they have."""
    return ", ".join(dict.fromkeys(values))


def _told(result: Result) -> str:
    return f"{result.label} {final_iqm(result.scores)}"


def _millions(result: Result) -> str:
    steps = f"{result.steps[-1] / 1e6:.3g}M"
    return steps if result.fraction == 1 else f"{steps} ({result.fraction:g} of the paper's)"


def _seconds(result: Result) -> float | None:
    learning = [_learning_seconds(block) for block in result.blocks]
    known = [each for each in learning if each is not None]
    return sum(known) + sum(block["discovery_seconds"] for block in result.blocks) if known == learning else None


def _learning_seconds(block: dict) -> float | None:
    """A block's share of the time that its group learned; `None` where that was not measured."""
    return None if block["seconds"] is None else block["seconds"] * len(block["seeds"]) / block["members"]


def _minutes(seconds: float | None) -> str:
    return "?" if seconds is None else f"{seconds / 60:.1f}"


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    if not lines:
        return "Nothing was measured yet."
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
