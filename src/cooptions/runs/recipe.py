"""Configurations as YAML: the `run.yaml` of a run directory, and files by hand with only the fields that they set."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from cooptions.errors import ConfigError, require
from cooptions.files import encode, write_bytes
from cooptions.runs.config import Config, code_from_outside
from cooptions.runs.overrides import Changes, changed, nested
from cooptions.runs.yaml_nodes import compose, read_text

NAME = "run.yaml"
"""The name of the file in a run directory."""


def write_recipe(path: Path, config: Config, command: str) -> None:
    """Write a configuration to a run directory. Its first line tells how `command` makes the run again elsewhere."""
    text = yaml.safe_dump(encode(config), sort_keys=False, width=100, allow_unicode=True)
    note = f"# `cooptions {command} --config {NAME} --out ANOTHER` makes this run again.\n"
    write_bytes(path / NAME, (note + text).encode())


def read_recipe(path: Path) -> Changes:
    """The fields that a YAML file sets, as nested mappings. Names in the file may be nested or dotted."""
    node = compose(read_text(path), str(path))
    try:
        value = None if node is None else _Constructor().construct_document(node)
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError) as error:  # PyYAML on wrong tags
        raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    require(isinstance(value, Mapping), f"{path}: must hold fields, such as `seeds: 3`")
    return nested(value, str(path))


def apply_recipe(config: Config, changes: Changes, path: Path, *, trust: bool = False) -> Config:
    """The configuration with the fields that a file sets. Errors name the file."""
    changes = {name: value for name, value in changes.items() if name != "type"}
    try:
        for name, outside in code_from_outside(changes).items() if not trust else ():
            raise ConfigError(
                f"{name} is {outside!r}, code from outside, which a file cannot ask to run: if you know it, say --trust"
            )
        return changed(config, changes, trust=trust)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


class _Constructor(yaml.constructor.SafeConstructor):
    """Raises an error if a name is given twice. YAML alone would keep the last one."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                problem = f"{key.value} is given twice"
                raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
            seen.add(key.value if isinstance(key, yaml.ScalarNode) else None)
        return super().construct_mapping(node, deep=deep)
