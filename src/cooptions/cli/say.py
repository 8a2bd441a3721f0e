"""Output on the terminal. Names from users and files are never interpreted as markup."""

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from cooptions.training.progress import Progress


def show(table: Table) -> None:
    Console().print(table)


def progress(*, quiet: bool = False) -> Progress:
    """Progress on standard output, or with `quiet` on standard error, to keep standard output for the result."""
    return Progress(Console(stderr=quiet))


def pictures(paths: Iterable[Path]) -> None:
    for path in paths:
        print(f"picture: {path}")


def as_json(value: Any) -> None:
    """Print one JSON value. Dataclasses become objects, and non-finite numbers null."""
    print(json.dumps(_plain(value), indent=1, allow_nan=False))


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return value if value - value == 0 else None
    return value if isinstance(value, str | int | None) else str(value)
