"""Configurations as YAML: a run keeps its own as `run.yaml`, and a file by hand names what it sets."""

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from cooptions.errors import ConfigError, require
from cooptions.files import encode, write_bytes
from cooptions.runs.config import Config, code_from_outside
from cooptions.runs.overrides import Changes, changed, nested

NAME = "run.yaml"
"""The file of a run directory."""
LARGEST = 2**20
"""More bytes than a configuration has."""


def write_recipe(path: Path, config: Config, command: str) -> None:
    """Write a configuration to a run directory; `command` makes the run again, elsewhere."""
    text = yaml.safe_dump(encode(config), sort_keys=False, width=100, allow_unicode=True)
    note = f"# `cooptions {command} --config {NAME} --out ANOTHER` makes this run again.\n"
    write_bytes(path / NAME, (note + text).encode())


def read_recipe(path: Path) -> Changes:
    """What a YAML file sets: fields by name, nested or with dots."""
    try:
        require(stat.S_ISREG(path.stat().st_mode), f"{path}: not a file")
        require(path.stat().st_size <= LARGEST, f"{path}: larger than {LARGEST} bytes, which no configuration is")
        value = yaml.load(path.read_text(encoding="utf-8"), _Loader)  # a safe loader
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    require(isinstance(value, Mapping), f"{path}: must hold fields, such as `seeds: 3`")
    return nested(value, str(path))


def apply_recipe(config: Config, changes: Changes, path: Path, *, trust: bool = False) -> Config:
    """The configuration with what a file sets; errors name the file."""
    changes = {name: value for name, value in changes.items() if name != "type"}
    try:
        for name, outside in code_from_outside(changes).items() if not trust else ():
            raise ConfigError(
                f"{name} is {outside!r}, code from outside, which a file cannot ask to run: if you know it, say --trust"
            )
        return changed(config, changes, trust=trust)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


class _Loader(yaml.SafeLoader):
    """Refuses a name that is given twice, of which YAML keeps the last."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _ in node.value]
        for name in names:
            if isinstance(name, str) and names.count(name) > 1:
                problem = f"{name} is given twice"
                raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return super().construct_mapping(node, deep=deep)
