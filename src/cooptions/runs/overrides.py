"""Set fields of a configuration by name, as the command line and YAML files do."""

import dataclasses
import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, get_args, get_type_hints

from cooptions.errors import ArtifactError, ConfigError, require
from cooptions.parts import registry_of
from cooptions.runs.values import read, shown

Configuration = TypeVar("Configuration")
Changes = dict[str, Any]
"""Values by field. The fields of a part are a nested dictionary."""


@dataclass(frozen=True)
class Field:
    """One value of a configuration."""

    path: str
    """Its dotted name, which includes the parts that contain it."""
    kind: Any
    value: Any
    owner: type
    """The class that declares it."""

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]


def fields_of(config: Any, before: str = "") -> Iterator[Field]:
    """Every field of a configuration and of its parts, except those that the program itself sets."""
    hints = get_type_hints(type(config))
    for field in dataclasses.fields(config):
        if "set_by" in field.metadata:
            continue
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            yield from fields_of(value, f"{before}{field.name}.")
        else:
            yield Field(f"{before}{field.name}", hints[field.name], value, type(config))


def nested(flat: Mapping[Any, Any], where: str = "configuration") -> Changes:
    """A mapping with dotted names as nested mappings. Raises `ConfigError` if a field is given twice."""
    tree: Changes = {}
    for name, value in flat.items():
        require(isinstance(name, str), f"{where}: the name of a field must be text, not {shown(name)}")
        *parents, last = name.replace("-", "_").split(".")
        branch = tree
        for parent in parents:
            branch = branch.setdefault(parent, {})
            require(isinstance(branch, dict), f"{where}: {name} is set, and so is the whole of {parent}")
        value = nested(value, where) if isinstance(value, Mapping) else value
        if isinstance(value, dict) and isinstance(branch.get(last), dict):
            branch[last] = _merged(branch[last], value, f"{where}: {name}")
        else:
            require(last not in branch, f"{where}: {name} is given twice")
            branch[last] = value
    return tree


def _merged(first: Changes, second: Changes, where: str) -> Changes:
    twice = {name for name in first.keys() & second.keys() if not isinstance(first[name], dict)}
    require(not twice, f"{where}.{', '.join(sorted(twice))} is given twice")
    both = {name: _merged(first[name], second[name], where) for name in first.keys() & second.keys()}
    return {**first, **second, **both}


def changed(config: Configuration, changes: Changes, where: str = "", *, trust: bool = False) -> Configuration:
    """The configuration with these values set, all at once.

    A part is replaced if its name is given, alone or as `type`: `{"laplacian": "exact"}`. Code from outside the package
    is imported only if `trust` is true.
    """
    names = [field.name for field in dataclasses.fields(config)]  # pyright: ignore[reportArgumentType]
    for name in changes:
        require(name in names, unknown_field(f"{where}{name}", [f"{where}{known}" for known in names]))
    hints = get_type_hints(type(config))
    values = {
        name: _value(hints[name], getattr(config, name), value, f"{where}{name}", trust)
        for name, value in changes.items()
    }
    try:
        return dataclasses.replace(config, **values) if values else config  # pyright: ignore[reportArgumentType]
    except ConfigError as error:
        raise ConfigError(_located(str(error), where, names)) from None


def _located(message: str, where: str, names: Sequence[str]) -> str:
    """The error message with the full path of the field. A part knows at most its own name."""
    first = re.split(r"\W", message, maxsplit=1)[0]
    outer, _, own = where.removesuffix(".").rpartition(".")
    if first == own and outer:
        return f"{outer}.{message}"
    return f"{where}{message}" if first in names else message


def unknown_field(name: str, names: Sequence[str]) -> str:
    """An error message for an unknown field, with the closest names."""
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    hint = f"did you mean {', '.join(near)}?" if near else f"there are {', '.join(names)}"
    return f"{name}: no such field; {hint}"


def _value(kind: Any, now: Any, value: Any, where: str, trust: bool) -> Any:
    parts = _part_kinds(kind)
    if not parts:
        return read(kind, value, where)
    if value is None and type(None) in get_args(kind):
        return None
    if isinstance(value, str):
        return _part(parts, value, where, trust)
    if not isinstance(value, dict):
        raise ConfigError(f"{where} has fields of its own: name them, or give the name of a part")
    begun = _part(parts, value["type"], f"{where}.type", trust) if "type" in value else now
    if type(begun) is type(now):
        begun = now
    begun = parts[0]() if begun is None else begun
    rest = {name: each for name, each in value.items() if name != "type"}
    return changed(begun, rest, f"{where}.", trust=trust)


def _part_kinds(kind: Any) -> list[Any]:
    """The classes that a field may hold, if they are parts with fields of their own; empty for a plain value."""
    kinds = [kind, *get_args(kind)]
    return [each for each in kinds if dataclasses.is_dataclass(each) or registry_of(each) is not None]


def _part(kinds: Sequence[Any], name: Any, where: str, trust: bool) -> Any:
    """A part by its registered name or its class, with default values."""
    require(isinstance(name, str), f"{where} must be a name, not {shown(name)}")
    registry = registry_of(kinds[0])
    if registry is None:
        known = {each.__name__: each for each in kinds}
        require(name in known, f"{where} must be one of {', '.join(known)}, not {shown(name)}")
        return known[name]()
    if name in registry:
        return registry[name]()
    try:
        return registry.by_type(name, trust=trust)()
    except (ArtifactError, ConfigError) as error:
        raise ConfigError(f"{where}: {error}; there are {', '.join(registry.names())}") from None
