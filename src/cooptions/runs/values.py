"""Convert values from a command line or from YAML to the types of their fields. Imports nothing heavy."""

import types
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from cooptions.errors import ConfigError, require

_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", Path: "a path"}


def shown(value: Any) -> str:
    """A value as one line of at most 80 characters."""
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def read(kind: Any, value: Any, where: str) -> Any:
    """A value converted to the type of its field. The value is text from a command line, or comes from YAML."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return read(parts[0], value, where)
    if origin in (Union, types.UnionType):
        return _one_of(parts, value, where)
    if origin is Literal:
        found = [each for each in parts if str(each) == str(value)]
        require(bool(found), f"{where} must be one of {', '.join(map(str, parts))}, not {shown(value)}")
        return found[0]
    if origin is tuple:
        return _tuple(parts, value, where)
    readers = {bool: _truth, int: _whole, float: _number, Path: lambda text: Path(text) if _is_text(text) else None}
    found = readers.get(kind, lambda text: text if _is_text(text) else None)(value)
    require(found is not None, f"{where} must be {_WORDS.get(kind, kind)}, not {shown(value)}")
    return found


def _one_of(parts: tuple[Any, ...], value: Any, where: str) -> Any:
    if type(None) in parts and value in (None, "none"):
        return None
    kinds = [part for part in parts if part is not type(None)]
    for kind in kinds[:-1]:
        try:
            return read(kind, value, where)
        except ConfigError:
            continue
    return read(kinds[-1], value, where)


def _tuple(parts: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    values = value if isinstance(value, list | tuple) else [value]
    any_length = len(parts) == 2 and parts[1] is Ellipsis
    require(any_length or len(values) == len(parts), f"{where} must be {len(parts)} values, not {len(values)}")
    kinds = parts[:1] * len(values) if any_length else parts
    return tuple(read(kind, each, where) for kind, each in zip(kinds, values, strict=True))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _truth(value: Any) -> bool | None:
    return {"true": True, "false": False}.get(str(value).lower())


def _whole(value: Any) -> int | None:
    """A whole number, also from text such as 1000, 1_000 or 1e3; None for anything else."""
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            value = _number(value)
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return value if type(value) is int else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None
