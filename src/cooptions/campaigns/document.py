"""YAML with line numbers: errors about a value name the file, line and field."""

import difflib
import math
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import yaml

from cooptions.errors import ConfigError
from cooptions.files import LARGEST_EXACT
from cooptions.runs.yaml_nodes import compose, read_text

Scalar = bool | int | float | str


@dataclass(frozen=True, eq=False)
class Entry:
    """A value of a YAML file, with its position and name."""

    node: yaml.Node
    file: str
    name: str
    """The dotted name of the field, for example `lineups.main.methods`."""

    def refuse(self, message: str) -> NoReturn:
        raise ConfigError(f"{self.file}:{self.node.start_mark.line + 1}: {self.name}: {message}")

    def fields(self, known: Collection[str]) -> dict[str, "Entry"]:
        """The entries of a mapping. Raises `ConfigError` for a name that is not in `known`."""
        found = self.entries()
        for name, entry in found.items():
            if name not in known:
                self._at(entry.key).refuse(unknown(name, known, "field"))
        return dict(found)

    def entries(self) -> dict[str, "Field"]:
        """The entries of a mapping with any names."""
        if not isinstance(self.node, yaml.MappingNode):
            self.refuse("must be a mapping of names to values")
        found: dict[str, Field] = {}
        for key, value in self.node.value:
            if not isinstance(key, yaml.ScalarNode) or not key.value or not key.value.isprintable():
                self._at(key).refuse("a name must be a word")
            name = f"{self.name}.{key.value}" if self.name != WHOLE else key.value
            if key.value in found:
                self._at(key).refuse(f"{key.value!r} stands here twice")
            found[key.value] = Field(value, self.file, name, key)
        return found

    @property
    def is_mapping(self) -> bool:
        return isinstance(self.node, yaml.MappingNode)

    def items(self) -> list["Entry"]:
        """The items of a list. A single value counts as a list of one."""
        if isinstance(self.node, yaml.ScalarNode):
            return [self]
        if not isinstance(self.node, yaml.SequenceNode):
            self.refuse("must be a list")
        if not self.node.value:
            self.refuse("must not be empty")
        return [self._at(item) for item in self.node.value]

    def text(self) -> str:
        if not isinstance(self.node, yaml.ScalarNode) or not self.node.value.strip():
            self.refuse("must be a word or a sentence")
        if not self.node.value.strip().isprintable():
            self.refuse("must be one line, without control characters")
        return self.node.value.strip()

    def chosen(self, choices: Collection[str], kind: str = "") -> str:
        """The value as a word, which must be one of `choices`."""
        word = self.text()
        if word not in choices:
            self.refuse(unknown(word, choices, kind))
        return word

    def number(self) -> float:
        value = _number(self.text())
        if value is None:
            self.refuse(f"must be a number, not {self.text()!r}")
        return value

    def integer(self, least: int = 0, most: int = LARGEST_EXACT) -> int:
        """The value as an integer. `1e5` and `20_000_000` are accepted."""
        value = self.number()
        if value != round(value) or value < least:
            self.refuse(f"must be a whole number of at least {least}, not {self.text()!r}")
        if value > most:
            self.refuse(f"must be at most {most}, not {self.text()!r}")
        return round(value)

    def value(self) -> Scalar | tuple[Scalar, ...]:
        """The value as a scalar of any type, or as a tuple of scalars."""
        if isinstance(self.node, yaml.SequenceNode):
            return tuple(self._at(item)._scalar() for item in self.node.value)
        return self._scalar()

    def _scalar(self) -> Scalar:
        if not isinstance(self.node, yaml.ScalarNode):
            self.refuse("must be a plain value or a list of them")
        word = self.node.value
        if self.node.tag == "tag:yaml.org,2002:bool":
            return word.lower() in ("true", "yes", "on")
        value = None if self.node.style in ("'", '"') else _number(word)
        if value is None:
            return word
        return int(value) if value == round(value) and not set(".eE") & set(word) else value

    def _at(self, node: yaml.Node) -> "Entry":
        return Entry(node, self.file, self.name)


@dataclass(frozen=True, eq=False)
class Field(Entry):
    """A value of a mapping, with its key."""

    key: yaml.Node


WHOLE = "campaign"
"""The name of the top-level value."""


def read_document(path: Path) -> Entry:
    """The top-level value of a YAML file."""
    return parse_document(read_text(path), path.name)


def parse_document(content: bytes, file: str) -> Entry:
    """The top-level value of YAML text. `file` is its name in messages."""
    node = compose(content, file)
    if node is None:
        raise ConfigError(f"{file}: is empty")
    return Entry(node, file, WHOLE)


def unknown(word: str, choices: Collection[str], kind: str = "") -> str:
    """An error message for a word that is not among the choices, with the closest choice or the first twelve."""
    near = difflib.get_close_matches(word, choices, n=1, cutoff=0.6)
    message = f"unknown {kind} {word!r}".replace("  ", " ")
    if near:
        return f"{message}; did you mean {near[0]}?"
    shown = list(choices)[:12]
    return f"{message}; there are {', '.join(shown)}{', ...' if len(choices) > len(shown) else ''}"


def _number(word: str) -> float | None:
    try:
        value = float(word)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
