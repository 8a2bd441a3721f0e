"""Parse YAML of unknown origin into nodes. Only regular files are read, and their expanded size is limited."""

import os
import stat
from pathlib import Path
from typing import Any

import yaml

from cooptions.errors import ConfigError, require

MOST_BYTES = 2**18
MOST_VALUES = 20_000
"""The maximum number of values in a file. An alias counts as many values as it stands for."""


def read_text(path: Path) -> bytes:
    """The content of a regular file, cut off just above the maximum size of a configuration."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(descriptor, "rb") as file:
            require(stat.S_ISREG(os.fstat(descriptor).st_mode), f"{path}: not a file")
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    return content


def compose(content: bytes, where: str) -> yaml.Node | None:
    """The root node of a YAML document; None if it is empty. Errors name `where` and the line."""
    require(len(content) <= MOST_BYTES, f"{where}: longer than {MOST_BYTES} bytes, which no configuration is")
    try:
        node = yaml.compose(content, Loader=_Loader)
        if node is not None:
            _count(node, {}, set())
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"{where}:{line}: not YAML: {_one_line(error.problem or error.context)}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: not YAML: {_one_line(error)}") from None
    return node


class _Loader(yaml.SafeLoader):
    """Stops at the maximum number of values, before they fill the memory."""

    values = 0

    def compose_node(self, parent: Any, index: Any) -> yaml.Node | None:
        self.values += 1
        if self.values > MOST_VALUES:
            raise _problem(f"more than {MOST_VALUES} values", parent)
        return super().compose_node(parent, index)


def _count(node: yaml.Node, known: dict[int, int], within: set[int]) -> int:
    """The number of values in a node with all aliases expanded."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) in within:
        raise _problem("an alias stands within what it stands for", node)
    if id(node) not in known:
        pairs = isinstance(node, yaml.MappingNode)
        inner = [each for pair in node.value for each in pair] if pairs else node.value
        within.add(id(node))
        known[id(node)] = 1 + sum(_count(each, known, within) for each in inner)
        within.discard(id(node))
        if known[id(node)] > MOST_VALUES:
            raise _problem(f"with its aliases written out it holds more than {MOST_VALUES} values", node)
    return known[id(node)]


def _problem(problem: str, node: yaml.Node | None) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark if node is not None else None)


def _one_line(error: object) -> str:
    """The parser's message as one printable line."""
    line = str(error).partition("\n")[0][:200] or "cannot be parsed"
    return line if line.isprintable() else ascii(line)
