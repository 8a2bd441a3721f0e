"""Fields of a configuration set by their dotted paths, as a campaign file names them."""

import dataclasses
import types
import typing
from collections.abc import Sequence
from typing import Any

from cooptions.campaigns.document import unknown
from cooptions.errors import ConfigError

Override = tuple[str, Any]
"""A path such as `learning.learner.target_interval`, and a value."""

RESERVED = {
    "scenario": "scenarios",
    "seed": "seeds",
    "seeds": "seeds",
    "learning.name": "methods",
    "learning.macro.num_options": "options",
    "learning.macro.discoveries": "discoveries",
    "learning.macro.option_set": "methods",
}
"""Paths that a campaign sets itself, and its field that does so."""


def has_path(config: Any, path: str) -> bool:
    """Whether a configuration has this field: parts differ in theirs."""
    for name in path.split("."):
        if not dataclasses.is_dataclass(config) or name not in _names(config):
            return False
        config = getattr(config, name)
    return True


def with_overrides(config: Any, overrides: Sequence[Override]) -> Any:
    """The configuration with these fields set, all at once; those that its parts do not have are left out."""
    tree: dict[str, Any] = {}
    for path, value in overrides:
        if has_path(config, path):
            *parents, name = path.split(".")
            branch = tree
            for parent in parents:
                branch = branch.setdefault(parent, {})
            branch[name] = _Leaf(path, value)
    return _with(config, tree)


def explain_missing(config: Any, path: str) -> str:
    """Why a configuration has no such field, with the nearest one that it has."""
    for name in path.split("."):
        if not dataclasses.is_dataclass(config):
            return f"{path}: {name!r} is no field of {config!r}"
        if name not in _names(config):
            return f"{path}: {unknown(name, _names(config), f'field of {type(config).__name__}')}"
        config = getattr(config, name)
    return f"{path}: no row here depends on it"


@dataclasses.dataclass(frozen=True)
class _Leaf:
    path: str
    value: Any


def _with(config: Any, tree: dict[str, Any]) -> Any:
    changes = {
        name: _as_annotated(config, name, each.path, each.value)
        if isinstance(each, _Leaf)
        else _with(getattr(config, name), each)
        for name, each in tree.items()
    }
    return dataclasses.replace(config, **changes) if changes else config


def _as_annotated(config: Any, name: str, path: str, value: Any) -> Any:
    """The value as the field's annotation wants it, or a refusal."""
    kind = _without_none(typing.get_type_hints(type(config))[name])
    now = getattr(config, name)
    if dataclasses.is_dataclass(now):
        raise ConfigError(f"{path}: is a part with fields of its own, such as {path}.{_names(now)[0]}")
    for convert in (_exact, _number, _tuple):
        found = convert(kind, value)
        if found is not None:
            return found
    raise ConfigError(f"{path}: must be {_told(kind)}, not {value!r}")


def _without_none(kind: Any) -> Any:
    """The annotation of a field that may be left empty, as if it could not."""
    kinds = [each for each in typing.get_args(kind) if each is not type(None)]
    return kinds[0] if isinstance(kind, types.UnionType) and len(kinds) == 1 else kind


def _exact(kind: Any, value: Any) -> Any:
    choices = typing.get_args(kind) if typing.get_origin(kind) is typing.Literal else ()
    if value in choices and isinstance(value, str):
        return value
    return value if kind in (bool, int, str) and type(value) is kind else None


def _number(kind: Any, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if kind is float:
        return float(value)
    return int(value) if kind is int and value == int(value) else None


def _tuple(kind: Any, value: Any) -> Any:
    """A list of values of one kind."""
    inner = typing.get_args(kind)
    if typing.get_origin(kind) is not tuple or len(inner) != 2 or inner[1] is not Ellipsis:
        return None
    values = value if isinstance(value, tuple) else (value,)
    found = [_exact(inner[0], each) if inner[0] is str else _number(inner[0], each) for each in values]
    return None if None in found else tuple(found)


def _told(kind: Any) -> str:
    if typing.get_origin(kind) is typing.Literal:
        return f"one of {', '.join(map(str, typing.get_args(kind)))}"
    return {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}.get(kind, str(kind))


def _names(config: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(config)]
