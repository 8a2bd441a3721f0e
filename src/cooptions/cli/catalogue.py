"""All names, read from the source files, so that listing or checking them does not import JAX."""

import ast
from functools import cache
from pathlib import Path

import cooptions
from cooptions.envs.names import ENVIRONMENTS, families, family_of, scenario_names, summaries
from cooptions.errors import ConfigError
from cooptions.parts import Registry, nearest

KINDS = {
    "representations": Registry("representation", "cooptions.discovery.representations"),
    "laplacians": Registry("laplacian", "cooptions.discovery.laplacian"),
    "learners": Registry("learner", "cooptions.learners"),
    "option sources": Registry("option source", "cooptions.options"),
    "figures": Registry("figure", "cooptions.figures"),
    "environments": ENVIRONMENTS,
}
"""Parts by kind. These registries only read source files; parts register in those of their own packages."""

TABLES = {
    "presets": ("runs/presets.py", "PRESETS"),
    "methods of discovery": ("runs/paper.py", "METHODS"),
    "methods of learning": ("runs/paper.py", "TEAM_LEARNERS"),
    "recipes of options": ("options/train.py", "RECIPES"),
}
"""Names that are keys of dictionaries: the file and the dictionary."""


def names() -> dict[str, dict[str, str]]:
    """Every name by kind, with a one-line description if there is one."""
    found = {kind: registry.summaries() for kind, registry in KINDS.items()}
    tables = {kind: dict.fromkeys(keys_of(*place), "") for kind, place in TABLES.items()}
    return {"scenarios": dict.fromkeys(scenario_names(), ""), **tables, **found, "environments": summaries()}


@cache
def keys_of(file: str, table: str) -> tuple[str, ...]:
    """The keys of a dictionary literal at the top level of a module of this package."""
    source = Path(cooptions.__file__).parent / file
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        target = node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(target, ast.Name) and target.id == table and isinstance(node.value, ast.Dict):  # pyright: ignore
            return tuple(key.value for key in node.value.keys if isinstance(key, ast.Constant))  # pyright: ignore
    raise KeyError(f"{file} has no dictionary {table}")


def require_scenario(name: str) -> None:
    """Raise `ConfigError` for a name that is no preset or scenario. The values in it are checked by its environment."""
    presets = keys_of(*TABLES["presets"])
    if ":" not in name and name not in presets:
        family_of(name, families(), presets)


def require_name(kind: str, name: str) -> None:
    """Raise `ConfigError` for a name that no part of a kind has."""
    if ":" not in name and name not in KINDS[kind].names():
        raise ConfigError(f"{KINDS[kind].kind}: unknown {name!r}; {nearest(name, KINDS[kind].names())}")
