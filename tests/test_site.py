"""The site: every page is in the navigation, every public name has a reference and an example."""

import ast
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent
from typing import Any

import jax
import nbformat
import pytest
import yaml
from test_docs import SMALL_OPTIONS, shrunk

import cooptions as co

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
NOTEBOOKS = sorted(DOCS.rglob("*.ipynb"))
REFERENCE = {
    path: re.findall(r"^::: cooptions\.(\w+)$", path.read_text(), re.MULTILINE) for path in DOCS.glob("reference/*.md")
}


def pages_of(entries: Any) -> Iterator[str]:
    """The files that a navigation names, in order."""
    for entry in entries:
        values = entry.values() if isinstance(entry, dict) else [entry]
        for value in values:
            yield from [value] if isinstance(value, str) else pages_of(value)


def example_of(name: str) -> str:
    """The indented block of a docstring's example."""
    text = inspect.getdoc(getattr(co, name)) or ""
    blocks = re.findall(r"(?:^|\n\n)((?: {4}.*(?:\n|$)|\n(?= {4}))+)", text)
    return dedent(blocks[-1]) if blocks else ""


def names_of(code: str) -> set[str]:
    """Attributes of `co` that code uses."""
    nodes = ast.walk(ast.parse(code))
    return {node.attr for node in nodes if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "co"}


def test_every_page_is_in_the_navigation_once():
    nav = list(pages_of(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    made = {path.relative_to(DOCS).with_suffix(".md").as_posix() for path in NOTEBOOKS}
    written = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert sorted(nav) == sorted(written | made)


def test_every_public_name_is_in_the_reference_once_in_order():
    for names in REFERENCE.values():
        assert names == sorted(names, key=co.__all__.index)
    assert sorted(name for names in REFERENCE.values() for name in names) == sorted(co.__all__)


@pytest.mark.parametrize("name", co.__all__)
def test_every_public_name_has_an_example(name):
    assert name in names_of(example_of(name))


PREPARED = """
from dataclasses import replace
import jaxmarl
from jumanji.environments import RobotWarehouse
from cooptions.types import Feature
env = co.make_env("grid-5x5-2p")
state, timestep = env.reset(key)
walk = co.walk(env, transitions=2_000, key=key)
found = co.discover(walk, co.Hit(steps=20, hidden=(8,), batch=16), co.Nystrom(2, num_landmarks=20), key=key)
options = co.train_options(env, found, SMALL_OPTIONS, key=key)
task = co.MacroEnv(env, options)
team = co.learn(task, co.mappo(steps=640, num_envs=4, rollout=10, minibatches=2), evaluations=2, key=key)
"""
"""What examples use, made with little effort."""

SMALLER = {
    r"co\.(Hit|Mask|Cmi|Scalar)\(.*?\)": r"co.\1(steps=20)",
    r"co\.Allo\(.*?\)": "co.Allo(2, hidden=(8,), steps=20, batch_size=16)",
    r"co\.(Exact|Kronecker)\(4\)": r"co.\1(2)",
    r"co\.OptionsConfig\(.*?\)": "replace(SMALL_OPTIONS, max_steps=4)",
    r"co\.(ippo)\(.*?\)": r"co.\1(steps=640, num_envs=4, rollout=10, minibatches=2), evaluations=2",
    r"co\.(iql|vdn)\(.*?\)": r"co.\1(steps=640, num_envs=4, rollout=10, batch=4, capacity=80), evaluations=2",
}


@pytest.fixture(scope="module")
def session() -> dict[str, Any]:
    made: dict[str, Any] = {"co": co, "jax": jax, "key": jax.random.key(0), "SMALL_OPTIONS": SMALL_OPTIONS}
    exec(PREPARED, made)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", co.__all__)
def test_the_example_of_a_public_name_runs(name, session, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = example_of(name)
    for pattern, small in SMALLER.items():
        code = re.sub(pattern, small, code)
    exec(compile(shrunk(code), f"docstring of {name}", "exec"), dict(session))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_small_valid_and_uses_public_names_only(path):
    notebook = json.loads(path.read_text())
    nbformat.validate(notebook)
    assert path.stat().st_size < 1_000_000
    code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    installs = [cell for cell in code if cell.startswith("%pip install")]
    assert [cell for cell in code if "install" in cell] == installs
    assert len(installs) == 1
    script = "\n".join(cell for cell in code if cell not in installs)
    assert names_of(script) <= set(co.__all__)
    imported = [node for node in ast.walk(ast.parse(script)) if isinstance(node, ast.ImportFrom)]
    assert not [node.module for node in imported if (node.module or "").startswith("cooptions")]
    opened = f"colab.research.google.com/github/cooptions/cooptions/blob/main/{path.relative_to(ROOT).as_posix()}"
    assert opened in "".join(notebook["cells"][0]["source"])


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    if find_spec("mkdocs") is None:
        pytest.skip("the site is built where its extra is installed: pip install -e '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    )
    assert built.returncode == 0, built.stderr
    return folder


def test_the_site_has_every_public_name_and_every_picture(site):
    shown = "".join(path.read_text() for path in (site / "reference").glob("*.html"))
    assert [name for name in co.__all__ if f'id="cooptions.{name}"' not in shown] == []
    for page in {*site.rglob("*.html")} - {site / "404.html"}:  # the 404 page is served at any depth
        sources = re.findall(r'<(?:img|script)[^>]* src="([^"]+)"', page.read_text())
        assert [each for each in sources if not (page.parent / each.split("?")[0]).exists()] == [], page


def test_the_site_fetches_nothing_from_elsewhere(site):
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert re.findall(r'<(?:img|script|iframe)[^>]*src="(?:https?:)?//[^"]*"', text) == []
        assert re.findall(r'<link[^>]*rel="(?:stylesheet|preconnect)"[^>]*href="(?:https?:)?//[^"]*"', text) == []
