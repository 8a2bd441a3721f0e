"""Read untrusted JSON as dataclasses. Errors name the field whose value has the wrong type."""

import dataclasses
import types
from typing import Any, Union, get_args, get_origin, get_type_hints

from cooptions.errors import ArtifactError
from cooptions.files import shown

LONGEST_TEXT = 1000
LARGEST_EXACT = 2**53
"""Every integer up to this one can be represented exactly as a float."""


def read_typed(kind: Any, value: Any, where: str) -> Any:
    """`value` as a dataclass, tuple, optional, number, bool or string. `where` is its name in errors.

    This is the inverse of `dataclasses.asdict` followed by JSON. Only the constructors of `kind` and of its fields'
    types are called.
    """
    if dataclasses.is_dataclass(kind):
        return _record(kind, value, where)
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        (inner,) = (part for part in parts if part is not types.NoneType)
        return None if value is None else read_typed(inner, value, where)
    if origin is tuple:
        return _tuple(parts, value, where)
    if kind is float and type(value) is int and abs(value) <= LARGEST_EXACT:
        return float(value)
    if type(value) is not kind or (isinstance(value, str) and not _is_fit(value)):
        raise ArtifactError(f"{where} must be a {kind.__name__}, not {shown(value)}")
    return value


def _is_fit(text: str) -> bool:
    """Whether a text can be printed: one line without control characters, of limited length."""
    return text.isprintable() and len(text) <= LONGEST_TEXT


def _record(kind: Any, value: Any, where: str) -> Any:
    hints = get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    if not isinstance(value, dict) or set(value) != set(names):
        raise ArtifactError(f"{where} must have the fields {', '.join(names)}, not {shown(value)}")
    return kind(**{name: read_typed(hints[name], value[name], f"{where}.{name}") for name in names})


def _tuple(parts: tuple[Any, ...], value: Any, where: str) -> Any:
    any_length = parts[-1] is Ellipsis
    if not isinstance(value, list) or (not any_length and len(value) != len(parts)):
        raise ArtifactError(f"{where} must be a list{'' if any_length else f' of {len(parts)}'}, not {shown(value)}")
    kinds = parts[:1] * len(value) if any_length else parts
    return tuple(
        read_typed(part, item, f"{where}[{i}]") for i, (part, item) in enumerate(zip(kinds, value, strict=True))
    )
