"""Scenario names, read from the source files of environments, so that listing or checking them does not import JAX.

A scenario is `family-stem[,field=value...]`. A family is an environment's class. Its `pattern` is a regular expression
for stems, with fields as named groups. `form` describes the stems to users, and `examples` are the scenarios that
`cooptions list` shows. All three are literals in the class.
"""

import ast
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cooptions.errors import require
from cooptions.parts import Registry, nearest

ENVIRONMENTS = Registry("environment", "cooptions.envs")
"""The environments of the package. This registry only reads; environments register in `cooptions.envs.base`."""

CLOSE = 0.75
"""The minimum similarity between a mistyped word and the intended one."""


@dataclass(frozen=True)
class Family:
    """The declarations of an environment's class about its scenario names."""

    name: str
    summary: str = ""
    pattern: str = ""
    form: str = ""
    examples: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    """The fields that `field=value` can set."""

    @property
    def scenarios(self) -> tuple[str, ...]:
        """The scenarios to list. A family without a stem is a scenario itself."""
        return self.examples or (() if self.pattern else (self.name,))

    @property
    def spelled_out(self) -> tuple[str, ...]:
        """The scenarios of all stems, if the pattern is a list of stems."""
        listed = re.fullmatch(r"\(\?P<\w+>([\w|]+)\)", self.pattern)
        return tuple(f"{self.name}-{stem}" for stem in listed[1].split("|")) if listed else ()

    def takes(self, name: str) -> bool:
        """Whether the part of a scenario before its first comma belongs to this family."""
        return f"{name}-".startswith(f"{self.name}-")

    def stem(self, name: str) -> str:
        return name.removeprefix(self.name).removeprefix("-")

    def fits(self, name: str) -> bool:
        return re.fullmatch(self.pattern, self.stem(name)) is not None


Families = Mapping[str, Family]


@cache
def families() -> dict[str, Family]:
    """The families of the package, by name. Those of other libraries come last."""
    entries = sorted(ENVIRONMENTS.entries.items(), key=lambda item: ".adapted." in item[1].module)
    return {name: _read(name, entry.module, entry.attribute) for name, entry in entries}


def scenario_names() -> tuple[str, ...]:
    """The scenarios to list: the examples of all families, and families without a stem."""
    return tuple(name for family in families().values() for name in family.scenarios)


def summaries() -> dict[str, str]:
    """A one-line description of each family, with the form of its scenarios."""
    return {
        name: f"{family.summary} Scenarios: {family.form}" if family.form else family.summary
        for name, family in families().items()
    }


def family_of(scenario: str, known: Families, others: Iterable[str] = ()) -> Family:
    """The family of a valid scenario name. Raises `ConfigError` for others, with suggestions that include `others`.

    The values of fields are not checked here; the environment checks them.
    """
    name, *pairs = scenario.split(",")
    family = max((each for each in known.values() if each.takes(name)), key=lambda each: len(each.name), default=None)
    if family is None or not family.fits(name):
        require(False, _unknown(scenario, family, known, others))
    assert family is not None
    for field in (_field(pair) for pair in pairs):
        require(field in family.fields, f"scenario: unknown option {field}; {nearest(field, family.fields)}")
    return family


def _field(pair: str) -> str:
    field, equals, _ = pair.partition("=")
    require(bool(equals), f"scenario: {pair!r} is not of the form field=value")
    return field


def _unknown(scenario: str, family: Family | None, known: Families, others: Iterable[str]) -> str:
    names = [*others, *(name for each in known.values() for name in (*each.scenarios, *each.spelled_out))]
    of_family = family.scenarios if family is not None else ()
    alike = difflib.get_close_matches(scenario, names, n=3, cutoff=0.5)
    meant = list(dict.fromkeys([*_repaired(scenario, known), *alike]))[:3] or [*of_family, *names][:3]
    form = f", which is not of the form {family.form}" if family is not None and family.form else ""
    return f"scenario: unknown {scenario!r}{form}; did you mean {', '.join(meant)}? `cooptions list` shows all"


def _repaired(scenario: str, known: Families) -> Iterator[str]:
    """Valid names close to this one: with its family spelled correctly, and its numbers in the family's form."""
    name, comma, fields = scenario.partition(",")
    words = name.split("-")
    for family in known.values():
        num = family.name.count("-") + 1
        typed, stem = "-".join(words[:num]), "-".join(words[num:])
        if difflib.SequenceMatcher(None, typed, family.name).ratio() >= CLOSE:
            for meant in dict.fromkeys([stem, *_with_numbers_of(stem, family)]):
                if re.fullmatch(family.pattern, meant):
                    yield "-".join(filter(None, [family.name, meant])) + comma + fields


def _with_numbers_of(stem: str, family: Family) -> Iterator[str]:
    """The stems of a family's examples that have as many numbers as `stem`, with the numbers of `stem`."""
    numbers = re.findall(r"\d+", stem)
    for example in family.examples:
        form = re.sub(r"\d+", "{}", family.stem(example.partition(",")[0]))
        if numbers and form.count("{}") == len(numbers):
            yield form.format(*numbers)


def _read(name: str, module: str, attribute: str) -> Family:
    """A family, read from the source of its class and of base classes in the same file."""
    source = Path(__file__).parents[1].joinpath(*module.split(".")[1:])
    file = source / "__init__.py" if source.is_dir() else source.with_suffix(".py")
    classes = {
        node.name: node for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)
    }
    said: dict[str, Any] = {}
    fields: list[str] = []
    for body in _with_bases(classes, attribute):
        said |= dict(_literals(body))
        fields += [field for field in _fields(body) if field not in fields]
    summary = (ast.get_docstring(classes[attribute]) or "").partition("\n")[0]
    told = {key: said[key] for key in ("pattern", "form", "examples") if key in said}
    return Family(name, summary, fields=tuple(fields), **told)


def _with_bases(classes: dict[str, ast.ClassDef], name: str) -> Iterator[ast.ClassDef]:
    """A class, after those of its bases that are in the same file."""
    if name in classes:
        for base in classes[name].bases:
            yield from _with_bases(classes, base.id if isinstance(base, ast.Name) else "")
        yield classes[name]


def _literals(body: ast.ClassDef) -> Iterator[tuple[str, Any]]:
    for node in body.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            try:
                yield node.target.id, ast.literal_eval(node.value)
            except ValueError:  # computed, so it is none of the declarations
                continue


def _fields(body: ast.ClassDef) -> Iterator[str]:
    """The names of a dataclass's fields."""
    for node in body.body:
        named = isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        if named and "ClassVar" not in ast.unparse(node.annotation):  # pyright: ignore[reportAttributeAccessIssue]
            yield node.target.id  # pyright: ignore[reportAttributeAccessIssue]
