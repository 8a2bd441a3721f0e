"""The text of `--help`: the fields of a dataclass as flags, with their docstrings."""

import ast
import dataclasses
import functools
import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from shutil import get_terminal_size
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

INDENT = 26
Line = tuple[str, str]
"""A flag with its values, and its description."""


def command_help(kind: type, command: str, then: Sequence[str] = ()) -> str:
    """The complete help of a command whose arguments are a dataclass."""
    return "\n".join([usage(kind, command), "", *paragraph(summary(kind)), "", *table(arguments_of(kind)), *then])


def usage(kind: type, command: str) -> str:
    places = [_place(name, get_type_hints(kind)[name]) for name in positionals(kind)]
    return " ".join(["usage: cooptions", command, *places, "[--FLAG VALUE ...]"])


def summary(kind: type) -> str:
    return " ".join((kind.__doc__ or "").split())


def positionals(kind: type) -> list[str]:
    return [field.name for field in dataclasses.fields(kind) if field.metadata]


def arguments_of(kind: type) -> list[Line]:
    """A line for each argument of a command."""
    hints, docs, places = get_type_hints(kind), docs_of(kind), positionals(kind)
    lines = []
    for field in dataclasses.fields(kind):
        named = _place(field.name, hints[field.name]) if field.name in places else written(field, hints[field.name])
        lines.append((named, docs.get(field.name, "") + told(field.default)))
    return lines


def written(field: Any, kind: Any) -> str:
    """A flag with a placeholder for its values."""
    name = field.name.replace("_", "-")
    if kind is bool and field.default is True:
        return f"--no-{name}"
    return f"--{name} {metavar(kind)}".strip()


def told(default: Any) -> str:
    """A default value in words; empty if it is uninformative."""
    if default in (dataclasses.MISSING, None, "", ()) or isinstance(default, bool):
        return ""
    return f" (default: {' '.join(map(str, default)) if isinstance(default, tuple) else default})"


def metavar(kind: Any) -> str:
    """The placeholder for a flag's values."""
    parts = [part for part in get_args(kind) if part not in (type(None), Ellipsis)]
    if get_origin(kind) is Literal:
        return "|".join(map(str, parts))
    if get_origin(kind) is tuple:
        return f"{metavar(parts[0])} ..."
    if get_origin(kind) in (Union, UnionType):
        return metavar(parts[0])
    return {bool: "", int: "N", float: "X", Path: "PATH"}.get(kind, "NAME")


def table(lines: Iterable[Line]) -> list[str]:
    """The lines of a table with two columns, the second one wrapped."""
    width = max(min(get_terminal_size((100, 24)).columns, 110) - INDENT, 30)
    shown = []
    for named, text in lines:
        wrapped = textwrap.wrap(text, width, break_on_hyphens=False) or [""]
        first = f"  {named}"
        if len(first) > INDENT - 2:
            shown.append(first)
            first = ""
        shown += [first.ljust(INDENT) + wrapped[0], *(" " * INDENT + line for line in wrapped[1:])]
    return [line.rstrip() for line in shown]


def paragraph(text: str) -> list[str]:
    return textwrap.wrap(text, min(get_terminal_size((100, 24)).columns, 110))


def docs_of(kind: type) -> dict[str, str]:
    """The docstrings of a dataclass's fields: the string literal after each one in the source."""
    docs: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        module = sys.modules.get(base.__module__)
        if dataclasses.is_dataclass(base) and module is not None and getattr(module, "__file__", None):
            docs |= _docs_in(str(module.__file__)).get(base.__qualname__, {})
    return docs


@functools.cache
def _docs_in(file: str) -> dict[str, dict[str, str]]:
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    return {node.name: _docs(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _docs(body: ast.ClassDef) -> dict[str, str]:
    docs = {}
    for field, after in zip(body.body, [*body.body[1:], None], strict=True):
        is_field = isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if is_field and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            docs[field.target.id] = " ".join(str(after.value.value).split())  # pyright: ignore
    return docs


def _place(name: str, kind: Any) -> str:
    return f"{name.upper()} ..." if get_origin(kind) is tuple else name.upper()
