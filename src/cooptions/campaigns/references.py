"""Read the claims and figures of a campaign file, which refer to its rows."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cooptions.campaigns.campaign import Lineup
from cooptions.campaigns.document import Entry
from cooptions.campaigns.figures import SCORE_FIGURES, AbstractFigure, Curves, FromRun
from cooptions.campaigns.rows import Block, Row, method_label
from cooptions.campaigns.verdicts import RULES, Claim
from cooptions.figures.base import FIGURES

CLAIM = ("claim", "left", "right", "rule", "lineup", "scenarios")
FIGURE = ("kind", "lineup", "methods", "scenarios", "metric", "panels")

Fields = Mapping[str, Entry]


@dataclass(frozen=True)
class _Pool:
    """The rows that a claim or a figure may refer to."""

    rows: tuple[Row, ...]
    plain: bool
    """Whether methods are named without the variant of their line-up."""

    def label(self, row: Row) -> str:
        return method_label(row.method, row.num_options) if self.plain else row.label

    @functools.cached_property
    def labels(self) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = {}
        for row in self.rows:
            found.setdefault(self.label(row), []).append(row)
            if row.label != self.label(row):
                found.setdefault(row.label, []).append(row)
        return found

    def chosen(self, entry: Entry) -> list[str]:
        """The labels in tables of the methods that an entry names."""
        labels = [each.chosen(self.labels, "method") for each in entry.items()]
        return list(dict.fromkeys(row.label for label in labels for row in self.labels[label]))

    def places(self, entry: Entry | None) -> list[str]:
        """The names in tables of the scenarios that an entry names, or of all."""
        known = {row.scenario: row.place for row in self.rows}
        if entry is None:
            return list(dict.fromkeys(known.values()))
        return [known[each.chosen(known, "scenario")] for each in entry.items()]


def _pool(fields: Fields, lineups: Sequence[Lineup]) -> _Pool:
    if "lineup" not in fields:
        return _Pool(tuple(row for lineup in lineups for row in lineup.rows), plain=False)
    names = {lineup.name: lineup for lineup in lineups}
    return _Pool(names[fields["lineup"].chosen(names)].rows, plain=True)


def read_claim(name: str, entry: Entry, lineups: Sequence[Lineup]) -> Claim:
    fields = entry.fields(CLAIM)
    for needed in ("left", "right"):
        if needed not in fields:
            entry.refuse(f"needs {needed}")
    whole = _pool(fields, lineups)
    pool = _Pool(tuple(row for row in whole.rows if row.learns), whole.plain)
    left, right = pool.chosen(fields["left"]), pool.chosen(fields["right"])
    if set(left) >= set(right):
        fields["right"].refuse("must differ from left")
    there = {(row.place, row.label) for row in pool.rows}
    places = pool.places(fields.get("scenarios"))
    possible = [place for place in places if _meet(place, left, right, there)]
    if not possible:
        entry.refuse(f"impossible: no scenario has both {' or '.join(left)} and {' or '.join(right)}")
    for place in places:
        if "scenarios" in fields and place not in possible:
            fields["scenarios"].refuse(f"impossible: {place} has no row for one of the sides")
    rule = fields["rule"].chosen(RULES) if "rule" in fields else "better"
    sentence = fields["claim"].text() if "claim" in fields else name
    against = tuple((place, other) for place in possible for other in right if (place, other) in there)
    return Claim(name, sentence, tuple(left), against, rule)


def _meet(place: str, left: Sequence[str], right: Sequence[str], there: set[tuple[str, str]]) -> bool:
    return all(any((place, label) in there for label in side) for side in (left, right))


def read_figure(name: str, entry: Entry, lineups: Sequence[Lineup]) -> AbstractFigure:
    fields = entry.fields(FIGURE)
    if "kind" not in fields:
        entry.refuse(f"needs kind: one of {', '.join(SCORE_FIGURES)}, or a figure of `cooptions list`")
    kind = fields["kind"].chosen([*SCORE_FIGURES, *FIGURES])
    pool = _pool(fields, lineups)
    labels = pool.chosen(fields["methods"]) if "methods" in fields else None
    places = pool.places(fields.get("scenarios"))
    here = (row for row in pool.rows if row.place in places)
    rows = tuple(dict.fromkeys(row for row in here if labels is None or row.label in labels))
    if kind not in SCORE_FIGURES:
        return FromRun(name, _rows_for(kind, rows, fields["kind"]), kind)
    rows = tuple(row for row in rows if row.learns)
    if not rows:
        entry.refuse("no rows that learn are left for it")
    given = {"metric": fields["metric"].text()} if "metric" in fields else {}
    if kind == "curves":
        return Curves(name, rows, panels=_panels(fields.get("panels"), pool), **given)
    return SCORE_FIGURES[kind](name, rows, **given)


def _rows_for(kind: str, rows: Sequence[Row], entry: Entry) -> tuple[Row, ...]:
    """The rows whose runs have the artefacts that a figure needs."""
    needs = FIGURES[kind].needs
    fit = tuple(row for row in rows if set(needs) <= set(Block(row, 0, 1).stages))
    if not fit:
        entry.refuse(f"{kind} needs {', '.join(needs)}; give a lineup whose `until` reaches that")
    return fit


def _panels(entry: Entry | None, pool: _Pool) -> tuple[tuple[str, tuple[str, ...]], ...]:
    entries = entry.entries() if entry else {}
    return tuple((title, tuple(pool.chosen(each))) for title, each in entries.items())
