"""Parse a command line into a dataclass. Each field is a flag, `--field value` or `--field=value`."""

import dataclasses
import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, get_origin, get_type_hints

from cooptions.cli.help import command_help
from cooptions.errors import ConfigError, require
from cooptions.runs.values import read

Arguments = TypeVar("Arguments")

POSITIONAL = {"positional": True}
"""The metadata of a positional field."""
HELP = ("help", "help_all")


@dataclass(frozen=True)
class Given:
    """A flag and its values as typed."""

    name: str
    """The name of the field: dots are kept, hyphens become underscores."""
    values: tuple[str, ...]

    @property
    def typed(self) -> str:
        return flag(self.name)


def flag(name: str) -> str:
    """The flag of a field."""
    return f"--{name.replace('_', '-')}"


def parse(kind: type[Arguments], words: Sequence[str], command: str) -> Arguments:
    """Parse the arguments of a command without other flags. `--help` prints them and exits."""
    if asks_for_help(words):
        print(command_help(kind, command))
        raise SystemExit(0)
    return divide(kind, words, command, alone=True)[0]


def asks_for_help(words: Sequence[str]) -> bool:
    return "-h" in words or "--help" in words or "--help-all" in words


def divide(
    kind: type[Arguments], words: Sequence[str], command: str, *, alone: bool = False
) -> tuple[Arguments, list[Given]]:
    """Parse the arguments of a command. Returns them and all other flags, each with every word that follows it.

    With `alone`, other flags raise `ConfigError`.
    """
    fields = {field.name: field for field in dataclasses.fields(kind)}  # pyright: ignore[reportArgumentType]
    hints = get_type_hints(kind)
    places, given = _scan(words, {name: hints[name] for name, field in fields.items() if not field.metadata})
    values = _by_place([name for name, field in fields.items() if field.metadata], hints, places, command)
    others: list[Given] = []
    for each in given:
        name = each.name.removeprefix("no_")
        if name in fields and not fields[name].metadata:
            values[name] = (
                [*values.get(name, []), *each.values] if _is_many(hints[name]) else _only(each, hints, command)
            )
        else:
            others.append(each)
    refuse_unknown(command, others if alone else [], list(fields))
    return kind(**{name: read(hints[name], value, name) for name, value in values.items()}), others


def refuse_unknown(command: str, given: Iterable[Given], names: Sequence[str]) -> None:
    """Raise `ConfigError` for a flag without a field, with the closest flags."""
    for each in given:
        if each.name not in names:
            near = difflib.get_close_matches(each.name, names, n=3, cutoff=0.6)
            hint = f"did you mean {', '.join(map(flag, near))}? " if near else ""
            raise ConfigError(f"{command}: unknown flag {each.typed}; {hint}`cooptions {command} --help` shows all")


def _scan(words: Sequence[str], kinds: dict[str, Any]) -> tuple[list[str], list[Given]]:
    """The positional words, and the flags with their values."""
    places: list[str] = []
    given: list[Given] = []
    left = list(words)
    while left:
        word = left.pop(0).replace("-h", "--help") if left[0] == "-h" else left.pop(0)
        if not word.startswith("--"):
            places.append(word)
            continue
        name, equals, value = word[2:].partition("=")
        name = name.replace("-", "_")
        values = [value] if equals else []
        room = 0 if equals else _room(name, kinds)
        while len(values) < room and left and not left[0].startswith("--"):
            values.append(left.pop(0))
        given.append(Given(name, tuple(values)))
    return places, given


def _room(name: str, kinds: dict[str, Any]) -> float:
    """The maximum number of values of a flag."""
    kind = kinds.get(name, kinds.get(name.removeprefix("no_")))
    if kind is bool:
        return 0.0
    return float("inf") if kind is None or _is_many(kind) else 1.0


def _by_place(names: Sequence[str], hints: dict[str, Any], places: Sequence[str], command: str) -> dict[str, Any]:
    """The values of the positional fields, in order. A tuple as the last field takes all remaining words."""
    values: dict[str, Any] = dict(zip(names, places, strict=False))
    rest = places[len(names) :]
    if names and _is_many(hints[names[-1]]) and len(places) >= len(names):
        values[names[-1]] = [values[names[-1]], *rest]
        rest = []
    require(not rest, f"{command}: nothing takes {' '.join(map(repr, rest))}")
    return values


def _is_many(kind: Any) -> bool:
    return get_origin(kind) is tuple


def _only(given: Given, hints: dict[str, Any], command: str) -> str:
    """The single value of a flag. A bool flag needs none."""
    name = given.name.removeprefix("no_")
    if hints[name] is bool and not given.values:
        return "true" if given.name == name else "false"
    require(len(given.values) == 1, f"{command}: {given.typed} needs a value")
    return given.values[0]
