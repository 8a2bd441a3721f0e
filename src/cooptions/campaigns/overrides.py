"""Overrides of configuration fields by dotted path, as in campaign files."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from cooptions.campaigns.document import unknown
from cooptions.runs.overrides import changed, nested

Override = tuple[str, Any]
"""A dotted path, for example `learning.learner.target_interval`, and a value."""

RESERVED = {
    "scenario": "scenarios",
    "seed": "seeds",
    "seeds": "seeds",
    "learning.name": "methods",
    "learning.macro": "methods",
    "learning.macro.num_options": "options",
    "learning.macro.discoveries": "discoveries",
}
"""Paths that cannot be overridden, each with the field of the campaign file that sets it."""


def has_path(config: Any, path: str) -> bool:
    """Whether a configuration has this field. Different parts have different fields."""
    for name in path.split("."):
        if not dataclasses.is_dataclass(config) or name not in _names(config):
            return False
        config = getattr(config, name)
    return True


def with_overrides(config: Any, overrides: Sequence[Override], *, trust: bool = False) -> Any:
    """The configuration with these fields set together. Fields that its parts do not have are left out."""
    applied = {path: value for path, value in overrides if has_path(config, path)}
    return changed(config, nested(applied), trust=trust)


def explain_missing(config: Any, path: str) -> str:
    """An error message: why setting this field has no effect, with the closest existing field."""
    names = path.split(".")
    for depth, name in enumerate(names):
        if not dataclasses.is_dataclass(config):
            return f"{path}: {'.'.join(names[:depth])} has no fields"
        if name not in _names(config):
            return f"{path}: {unknown(name, _names(config), f'field of {type(config).__name__}')}"
        config = getattr(config, name)
    return f"{path}: no row here depends on it"


def _names(config: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(config)]
