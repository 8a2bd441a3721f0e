"""The package has layers: a module imports only from its own layer and those above it in this list."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "cooptions"
LAYERS = (
    "errors",
    "types",
    "parts",
    "files",
    "training",
    "envs",
    "scores",
    "discovery",
    "plots",
    "learners",
    "options",
    "runs",
    "figures",
    "campaigns",
    "playground",
    "cli",
)


def layer_of(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_layers(path):
    """The layers of this package that a module imports, at its top or inside its functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        yield from (module.split(".")[1] for module in modules if module.startswith("cooptions."))


MODULES = [path for path in sorted(SOURCE.rglob("*.py")) if not layer_of(path).startswith("__")]


def test_every_top_level_name_is_a_layer():
    names = {layer_of(path) for path in MODULES}
    assert names <= set(LAYERS)
    assert len(LAYERS) <= 16


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_upwards(path):
    below = {layer for layer in imported_layers(path) if LAYERS.index(layer) > LAYERS.index(layer_of(path))}
    assert not below, f"{path.name} imports from {below}, which stand below {layer_of(path)}"
