"""Everything that has a name, read from the sources: a listing, or a mistyped name, must not wait for JAX."""

import ast
import re
from functools import cache
from pathlib import Path

import cooptions
from cooptions.envs.names import SCENARIOS, unknown_scenario
from cooptions.errors import ConfigError, require
from cooptions.parts import Registry, nearest

KINDS = {
    "representations": Registry("representation", "cooptions.discovery.representations"),
    "laplacians": Registry("laplacian", "cooptions.discovery.laplacian"),
    "learners": Registry("learner", "cooptions.learners"),
    "option sources": Registry("option source", "cooptions.options"),
    "figures": Registry("figure", "cooptions.figures"),
    "environments": Registry("environment", "cooptions.envs"),
}
"""Parts by kind. These registries only read; those that parts register in are imported with the parts."""

TABLES = {
    "presets": ("runs/presets.py", "PRESETS"),
    "methods of discovery": ("runs/paper.py", "METHODS"),
    "methods of learning": ("runs/paper.py", "TEAM_LEARNERS"),
    "recipes of options": ("options/train.py", "RECIPES"),
}
"""Tables of names: the file and the dictionary."""


def names() -> dict[str, dict[str, str]]:
    """Every name by kind, with what it is in a line where that is written."""
    found = {kind: registry.summaries() for kind, registry in KINDS.items()}
    tables = {kind: dict.fromkeys(keys_of(*place), "") for kind, place in TABLES.items()}
    return {"scenarios": dict.fromkeys(scenarios(), ""), **tables, **found}


def scenarios() -> tuple[str, ...]:
    """Scenarios worth naming, and the probes."""
    return (*SCENARIOS, *(name for name in KINDS["environments"].names() if name.startswith("probe-")))


@cache
def keys_of(file: str, table: str) -> tuple[str, ...]:
    """The keys of a dictionary that is written out at the top of a module of ours."""
    source = Path(cooptions.__file__).parent / file
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        target = node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(target, ast.Name) and target.id == table and isinstance(node.value, ast.Dict):  # pyright: ignore
            return tuple(key.value for key in node.value.keys if isinstance(key, ast.Constant))  # pyright: ignore
    raise KeyError(f"{file} has no dictionary {table}")


def require_scenario(name: str) -> None:
    """Refuse a name that cannot be a preset or scenario; whether its options are right, its environment will say."""
    if ":" in name or name in keys_of(*TABLES["presets"]):
        return
    stem = name.partition(",")[0]
    registry = KINDS["environments"]
    family = max((each for each in registry.names() if f"{stem}-".startswith(f"{each}-")), key=len, default=None)
    require(family is not None, unknown_scenario(name, (*keys_of(*TABLES["presets"]), *scenarios())))
    assert family is not None
    pattern = _pattern(registry.entries[family].module, registry.entries[family].attribute)
    fits = pattern is None or re.fullmatch(pattern, stem.removeprefix(family).removeprefix("-"))
    require(bool(fits), unknown_scenario(name, scenarios()))


def _pattern(module: str, attribute: str) -> str | None:
    """The form of a family's scenarios, where its class says it."""
    source = Path(cooptions.__file__).parent.joinpath(*module.split(".")[1:])
    file = source / "__init__.py" if source.is_dir() else source.with_suffix(".py")
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name == attribute:
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and getattr(field.target, "id", "") == "pattern":
                    return field.value.value if isinstance(field.value, ast.Constant) else None  # pyright: ignore
    return None


def require_name(kind: str, name: str) -> None:
    """Refuse a name that no part of a kind has."""
    if ":" not in name and name not in KINDS[kind].names():
        raise ConfigError(f"{KINDS[kind].kind}: unknown {name!r}; {nearest(name, KINDS[kind].names())}")
