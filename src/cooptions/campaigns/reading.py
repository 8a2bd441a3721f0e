"""Read and check a campaign file completely before anything runs. Errors name the line."""

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from cooptions.campaigns.campaign import Campaign, Lineup
from cooptions.campaigns.document import Entry, parse_document, read_document
from cooptions.campaigns.overrides import RESERVED, explain_missing
from cooptions.campaigns.references import read_claim, read_figure
from cooptions.campaigns.rows import COMMANDS, MOST_SEEDS, Row, Seeding, known_methods, scenario_preset
from cooptions.errors import ConfigError
from cooptions.runs.values import shown

Kind = TypeVar("Kind")

ROWS = ("scenarios", "methods", "options", "seeds", "until", "set", "variant")
"""Fields of a line-up."""
SHARED = ("steps", "block", "discoveries")
"""Fields that all line-ups share."""
FILE = ("name", "runs", "results", "pages", "fraction", "lineups", "compare", "figures", *ROWS[:-1], *SHARED)

Fields = Mapping[str, Entry]
Overrides = dict[str, Entry]
"""Values by dotted path."""

STEPS = "learning.learner.steps"
MOST_ROWS = 10_000
"""The maximum number of rows of a line-up."""


def read_campaign(path: Path, *, trust: bool = False) -> Campaign:
    """Read a campaign file. Code from outside that it names is imported only if `trust` is true."""
    return campaign_of(read_document(path), path.stem, trust=trust)


def parse_campaign(content: bytes, file: str = "campaign.yaml", *, trust: bool = False) -> Campaign:
    """Read a campaign from YAML text."""
    return campaign_of(parse_document(content, file), Path(file).stem, trust=trust)


def campaign_of(document: Entry, stem: str, *, trust: bool = False) -> Campaign:
    """The campaign of a parsed document. `stem` is its name if the document gives none."""
    fields = document.fields(FILE)
    if not trust:
        _refuse_outside(fields)
    name = fields["name"].text() if "name" in fields else stem
    lineups = _lineups(document, fields, name)
    paths = {each: Path(fields[each].text()) if each in fields else Path(each) / name for each in ("runs", "results")}
    return Campaign(
        name=name,
        lineups=lineups,
        claims=_named(fields, "compare", lambda name, entry: read_claim(name, entry, lineups)),
        figures=_named(fields, "figures", lambda name, entry: read_figure(name, entry, lineups)),
        fraction=_fraction(fields["fraction"]) if "fraction" in fields else 1.0,
        pages=tuple(Path(each.text()) for each in fields["pages"].items()) if "pages" in fields else (),
        **paths,
    )


def _refuse_outside(fields: Fields) -> None:
    """Raise `ConfigError` if the file names code from outside, since the file may not be trustworthy."""
    lineups = [entry.fields(ROWS) for entry in fields["lineups"].entries().values()] if "lineups" in fields else []
    for each in (fields, *lineups):
        for entry in (item for name in ("scenarios", "methods") if name in each for item in each[name].items()):
            if ":" in entry.text():
                entry.refuse(f"{entry.text()!r} is code from outside, which a file cannot ask to run: add --trust")


def _fraction(entry: Entry) -> float:
    value = entry.number()
    if not 0 < value <= 1:
        entry.refuse(f"must lie in (0, 1], not {value:g}")
    return value


def _named(fields: Fields, field: str, make: Callable[[str, Entry], Kind]) -> tuple[Kind, ...]:
    """The results of `make(name, entry)` for the entries of a field, in order."""
    entries = fields[field].entries() if field in fields else {}
    return tuple(make(name, entry) for name, entry in entries.items())


def _lineups(document: Entry, fields: Fields, name: str) -> tuple[Lineup, ...]:
    """The line-ups of a file, or a single one made from the file's top-level fields."""
    if "lineups" not in fields:
        found = (_lineup(name, document, fields, {}),)
        _require_used(_overrides(fields), found[0].rows)
        return found
    for only in ("scenarios", "methods", "options", "until"):
        if only in fields:
            fields[only].refuse("belongs into each of the lineups here")
    found = _named(fields, "lineups", lambda name, entry: _lineup(name, entry, entry.fields(ROWS), fields))
    if not found:
        fields["lineups"].refuse("must not be empty")
    _require_used(_overrides(fields), [row for lineup in found for row in lineup.rows])
    _require_distinct(found, fields["lineups"])
    return found


def _require_distinct(lineups: Sequence[Lineup], entry: Entry) -> None:
    """Raise `ConfigError` if rows with the same label and scenario, which share files, have different settings."""
    seen: dict[tuple[str, str], tuple[Row, str]] = {}
    for lineup in lineups:
        for row in lineup.rows:
            other, where = seen.setdefault((row.place, row.label), (row, lineup.name))
            if other.overrides != row.overrides:
                entry.entries()[lineup.name].refuse(
                    f"{row} has other settings in {where}; give one of the two another `variant`"
                )


def _lineup(name: str, entry: Entry, fields: Fields, file: Fields) -> Lineup:
    """A line-up from its own fields and those of the file. Rows that its own `set` changes become a variant."""
    for needed in ("scenarios", "methods"):
        if needed not in fields:
            entry.refuse(f"needs {needed}")
    everything = {**file, **fields}
    until = fields["until"].chosen(COMMANDS) if "until" in fields else "learning"
    shared = _overrides(file or fields)
    own = _overrides({"set": fields["set"]}) if file and "set" in fields else {}
    variant = _variant(fields["variant"]) if "variant" in fields else re.sub(r"[^\w-]", "-", name)
    scenarios = [_scenario(each) for each in fields["scenarios"].items()]
    chosen = {_method(each, until): each for each in fields["methods"].items()}
    counts = [each.integer() for each in fields["options"].items()] if "options" in fields else [0]
    if (num := len(scenarios) * len(chosen) * len(counts)) > MOST_ROWS:
        entry.refuse(f"makes {num} rows, more than the {MOST_ROWS} there may be")
    rows: dict[Row, Entry] = {}
    for scenario, (method, at), count in itertools.product(scenarios, chosen.items(), counts):
        with _errors_at(at, {**shared, **own}):
            plain = Row(scenario, method, count if "+" in method else 0, until)
            row = _varied(plain, shared, own, variant)
            _check(row)
        rows.setdefault(row, at)
    _require_used(own, list(rows))
    return Lineup(name, tuple(rows), _seeding(everything))


def _require_used(overrides: Overrides, rows: Sequence[Row]) -> None:
    """Raise `ConfigError` for overrides that no row uses, since they would have no effect."""
    for path, at in overrides.items():
        if not any(row.uses(path) for row in rows):
            at.refuse(explain_missing(rows[0].config, path))


def _varied(row: Row, shared: Overrides, own: Overrides, variant: str) -> Row:
    """A row with the overrides of the file and of its line-up. The latter make it a variant.

    Overrides that the row does not use are left out, so that equivalent rows compare equal.
    """
    values = {path: _value(path, each) for path, each in {**shared, **own}.items() if row.uses(path)}
    name = variant if any(path in values for path in own) else ""
    return replace(row, overrides=tuple(values.items()), variant=name)


def _variant(entry: Entry) -> str:
    """A variant's name, which must be valid in file names and labels; empty for `none`."""
    name = entry.text()
    if not re.fullmatch(r"[\w-]+", name):
        entry.refuse(f"must be of letters, digits, - and _, not {name!r}")
    return "" if name == "none" else name


def _value(path: str, entry: Entry) -> Any:
    return entry.integer(1) if path == STEPS else entry.value()


def _overrides(fields: Fields) -> Overrides:
    """The overrides by dotted path, from `steps` and from `set`, whose names may be dotted or nested."""
    found = {STEPS: fields["steps"]} if "steps" in fields else {}
    found |= dict(_leaves(fields["set"], "")) if "set" in fields else {}
    for path, each in found.items():
        if path in RESERVED:
            each.refuse(f"is set by {RESERVED[path]!r} of the campaign")
    return found


def _leaves(entry: Entry, prefix: str) -> list[tuple[str, Entry]]:
    found = []
    for name, each in entry.entries().items():
        found += _leaves(each, f"{prefix}{name}.") if each.is_mapping else [(f"{prefix}{name}", each)]
    return found


def _check(row: Row) -> None:
    """Raise `ConfigError` for a row whose parts are incompatible. Each part checks its own fields."""
    _ = row.config.discovery


@contextlib.contextmanager
def _errors_at(entry: Entry, overrides: Overrides | None = None) -> Iterator[None]:
    """Give a `ConfigError` the line of the override that it names, or else of `entry`."""
    try:
        yield
    except ConfigError as error:
        message = str(error).splitlines()[0]
        if message.startswith(f"{entry.file}:"):
            raise
        named = [each for path, each in (overrides or {}).items() if path.rpartition(".")[2] in message]
        (named or [entry])[0].refuse(message)


def _method(entry: Entry, until: str) -> str:
    """The name of a method. One with parts from outside is checked when it is used."""
    return entry.text() if ":" in entry.text() else entry.chosen(known_methods(until), "method")


def _scenario(entry: Entry) -> str:
    """The name of a scenario or preset. Its environment is made once, to check it."""
    name = entry.text()
    with _errors_at(entry):
        _ = scenario_preset(name).env
    return name


def _seeding(fields: Fields) -> Seeding:
    seeds = _seeds(fields["seeds"]) if "seeds" in fields else range(1)
    given = {each: fields[each].integer(least) for each, least in (("block", 1), ("discoveries", 0)) if each in fields}
    return Seeding(seeds, **given)


def _seeds(entry: Entry) -> range:
    """The seeds: `first..last`, or a number of seeds from 0 on."""
    word = entry.text()
    first, dots, last = word.partition("..")
    if not dots:
        return range(entry.integer(1, MOST_SEEDS))
    if not (re.fullmatch(r"[0-9]{1,10}", first) and re.fullmatch(r"[0-9]{1,10}", last) and int(first) <= int(last)):
        entry.refuse(f"must be a number, or first..last, not {shown(word)}")
    if int(last) >= 2**32 or int(last) - int(first) >= MOST_SEEDS:
        entry.refuse(f"must be at most {MOST_SEEDS} seeds, the last below {2**32}, not {word}")
    return range(int(first), int(last) + 1)
