"""Registries of swappable parts, one for each kind. They are open to parts from outside the package.

A part registers itself in the file that defines it:

    @REPRESENTATIONS.register("hit")
    @dataclass(frozen=True)
    class Hit(AbstractRepresentation): ...

Configurations, stored files, the command line, `cooptions list` and the tests derive from the registry. A registry
reads the names of its parts from the source files of its package, so that listing them imports nothing. A part outside
the package is named `module:attribute`.
"""

import ast
import difflib
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from cooptions.errors import ConfigError

Part = TypeVar("Part")
Registered = TypeVar("Registered")


@dataclass(frozen=True)
class Entry:
    """Where a part of this package is defined."""

    module: str
    attribute: str
    """The name of its class or function; empty if it has none."""
    summary: str
    """The first line of its docstring."""


class Registry(Generic[Part]):
    """The parts of one kind, by name."""

    def __init__(self, kind: str, package: str, base: type | None = None) -> None:
        """Create an empty registry.

        `kind` names the parts in messages. All parts of cooptions itself are registered in modules of `package`. A part
        is a subclass of `base`, or a function if `base` is None.
        """
        self.kind, self.package, self.base = kind, package, base
        self._parts: dict[str, Part] = {}
        if base is not None:
            _BY_BASE[base] = self

    def register(self, name: str) -> Callable[[Registered], Registered]:
        """A decorator that registers a part under `name`."""

        def enter(part: Registered) -> Registered:
            known = self._parts.get(name)
            if known is not None and _place(known) != _place(part):
                raise ConfigError(f"{self.kind}: {name!r} is registered twice: {_place(known)} and {_place(part)}")
            self._parts[name] = part  # pyright: ignore[reportArgumentType]
            return part

        return enter

    @cached_property
    def entries(self) -> dict[str, Entry]:
        """The package's own parts by name, read from the source files."""
        folder = Path(__file__).parent.joinpath(*self.package.split(".")[1:])
        return {
            name: entry for path in sorted(folder.rglob("*.py")) for name, entry in _entries(path, self._module(path))
        }

    def names(self) -> tuple[str, ...]:
        """The names of all parts that are registered or found in the source files."""
        return tuple(dict.fromkeys([*self.entries, *self._parts]))

    def summaries(self) -> dict[str, str]:
        """A one-line description of each part."""
        return {name: self.entries[name].summary if name in self.entries else "" for name in self.names()}

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __contains__(self, name: str) -> bool:
        return name in self._parts or name in self.entries

    def __getitem__(self, name: str) -> Part:
        """The part with this name or this `module:attribute`."""
        if name not in self._parts and name in self.entries:
            importlib.import_module(self.entries[name].module)
        if name in self._parts:
            return self._parts[name]
        if ":" in name:
            return self._checked(name, import_outside(self.kind, name))
        raise ConfigError(f"{self.kind}: unknown {name!r}; {nearest(name, self.names())}")

    def name_of(self, part: Any) -> str:
        """The name under which `registry[name]` returns this part."""
        return next((name for name, known in self._parts.items() if known is part), _place(part))

    def by_type(self, tag: str, *, trust: bool = False) -> Part:
        """The part that a stored configuration names by class, or by `module:attribute` if `trust` is true."""
        for name, entry in self.entries.items():
            if entry.attribute == tag:
                return self[name]
        for part in self._parts.values():
            if tag in (getattr(part, "__name__", ""), _place(part)):
                return part
        if ":" in tag and trust:
            return self[tag]
        if ":" in tag:
            raise ConfigError(
                f"{self.kind}: {tag!r} is code from outside, which a file cannot ask to run: "
                "name it on the command line, or pass trust=True"
            )
        raise ConfigError(f"{self.kind}: unknown type {tag!r}: it was made by another version")

    def _checked(self, name: str, part: Any) -> Any:
        if self.base is not None and not (isinstance(part, type) and issubclass(part, self.base)):
            raise ConfigError(f"{self.kind}: {name!r} is not a subclass of {self.base.__name__}")
        if not callable(part):
            raise ConfigError(f"{self.kind}: {name!r} cannot be called")
        return part

    def _module(self, path: Path) -> str:
        parts = path.relative_to(Path(__file__).parent).with_suffix("").parts
        return ".".join(("cooptions", *parts)).removesuffix(".__init__")


_BY_BASE: dict[type, Registry] = {}


def registry_of(base: Any) -> Registry | None:
    """The registry whose parts derive from this class; None if there is none."""
    return _BY_BASE.get(base) if isinstance(base, type) else None


def nearest(name: str, names: tuple[str, ...] | list[str]) -> str:
    """The names closest to an unknown one, and all known names, for an error message."""
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(near)}? " if near else ""
    return f"{hint}there are {', '.join(names)}"


def import_outside(kind: str, path: str) -> Any:
    """Import `module:attribute`. Modules in the working directory are found, too."""
    module, _, attribute = path.partition(":")
    if os.getcwd() not in sys.path:  # `python -m` adds it, a console script does not
        sys.path.insert(0, os.getcwd())
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{kind}: cannot use {path!r}: {error}") from None


def _entries(path: Path, module: str) -> Iterator[tuple[str, Entry]]:
    """Every `REGISTRY.register("name")` in a file, with an entry for the part that it decorates."""
    source = path.read_text(encoding="utf-8")
    if ".register(" not in source:
        return
    tree = ast.parse(source)
    decorated: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            summary = (ast.get_docstring(node) or "").partition("\n")[0]
            for call in node.decorator_list:
                if name := _registered_name(call):
                    decorated.add(id(call))
                    yield name, Entry(module, node.name, summary)
    for node in ast.walk(tree):
        if id(node) not in decorated and (name := _registered_name(node)):
            yield name, Entry(module, "", "")


def _registered_name(node: ast.AST) -> str:
    """The name in `REGISTRY.register("name")`, or "". Registries are recognised by names in capitals."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "register"):
        return ""
    owner = node.func.value
    if not (isinstance(owner, ast.Name) and owner.id.isupper() and node.args):
        return ""
    first = node.args[0]
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""


def _place(part: Any) -> str:
    return f"{getattr(part, '__module__', '?')}:{getattr(part, '__qualname__', repr(part))}"
