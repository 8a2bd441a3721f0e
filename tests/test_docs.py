"""The documentation: every snippet runs, every measured number is in the results, every link has a target."""

import importlib
import importlib.util
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from benchmarks import faults_page
from cooptions.cli.main import COMMANDS
from cooptions.envs import rollout
from cooptions.envs.scenarios import make_env
from cooptions.options.train import OURS
from cooptions.scores.statistics import Scores, final_iqm, final_scores, iqm, over_training

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FINDINGS = sorted((ROOT / "results" / "findings").glob("*.json"))
SCORES = [path for folder in ("results", "experiments") for path in sorted((ROOT / folder).glob("**/scores/*.json"))]

SHRINK = {
    r"transitions=[\d_]+": "transitions=2_000",
    r"co\.Hit\(\)": "co.Hit(steps=20, hidden=(8,), batch=16)",
    r"co\.Nystrom\(\d+\)": "co.Nystrom(2, num_landmarks=20)",
    r"train_options\(env, found, key": "train_options(env, found, SMALL_OPTIONS, key",
    r"co\.mappo\(steps=[\d_]+\)": "co.mappo(steps=640, num_envs=4, rollout=10, minibatches=2), evaluations=2",
    r"lbf-15x15-4p-3f": "lbf-5x5-2p-1f",
    r"grid-1[05]x1[05]-[34]p,task=meet": "grid-5x5-2p,task=meet",
}
"""What a test makes smaller in a snippet, so that the documented numbers can be the real ones."""

SMALL_LEARNER = replace(OURS.learner, steps=640, num_envs=8, batch=8, learning_starts=100)
SMALL_OPTIONS = replace(OURS, num_starts=16, max_steps=5, learner=SMALL_LEARNER)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def fenced(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def shrunk(code: str) -> str:
    for pattern, small in SHRINK.items():
        code = re.sub(pattern, small, code)
    return code


QUICK = {"README.md", "docs/guides/extend.md"}
"""The pages whose snippets `make test` runs. `make test-all` runs all of them."""
WITH_PYTHON = [
    pytest.param(page, id=name_of(page), marks=[] if name_of(page) in QUICK else pytest.mark.slow)
    for page in PAGES
    if fenced(page, "python")
]


@pytest.mark.parametrize("page", WITH_PYTHON)
def test_snippets_of_a_page_run_in_their_order(page, hub, tmp_path, monkeypatch):
    """A snippet whose first line names a file is a module of that name; the others share one namespace, as a reader's
    session does. What they push goes to a hub of this machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    session: dict[str, Any] = {"__name__": "snippets", "SMALL_OPTIONS": SMALL_OPTIONS}
    for code in fenced(page, "python"):
        module = re.match(r"# (\w+)\.py\n", code)
        if module is None:
            exec(compile(shrunk(code), name_of(page), "exec"), session)
        else:
            (tmp_path / f"{module[1]}.py").write_text(shrunk(code))
            monkeypatch.delitem(sys.modules, module[1], raising=False)
            session |= vars(importlib.import_module(module[1]))


ENVIRONMENTS = [code for code in fenced(ROOT / "docs" / "guides" / "extend.md", "python") if "\nenv = " in code]


def test_environments_of_the_guide_are_found():
    assert [code.startswith("# my_module.py") for code in ENVIRONMENTS] == [True] * 3 + [False]


@pytest.mark.parametrize("number", range(3))
def test_an_environment_of_the_guide_runs(number, tmp_path, monkeypatch):
    (tmp_path / "my_module.py").write_text(ENVIRONMENTS[number])
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_module", raising=False)
    env = make_env("my_module:env")
    monkeypatch.delitem(sys.modules, "my_module")

    def step(runners, key):
        action = rollout.uniform_action(runners.timestep.action_mask, key=key)
        outcome, onward = rollout.advance(env, runners, action, key=key)
        return onward, (jax.vmap(env.agent_states)(outcome.state), outcome.timestep.last)

    def walk(key):
        return jax.lax.scan(step, rollout.start(env, 2, key=key), jax.random.split(key, 60))[1]

    # Adapters are compiled and run in tests/envs. Tracing suffices here.
    trace_or_run = jax.jit(walk) if number == 2 else lambda key: jax.eval_shape(walk, key)
    features, last = trace_or_run(jax.random.key(0))
    assert features.shape == (60, 2, env.num_agents, len(env.features))
    if number == 2:
        assert last.any()
        assert ((features >= 0) & (features < env.size)).all()


def test_every_snippet_is_in_a_language_that_is_tested():
    fences = {tag for page in PAGES for tag in re.findall(r"^```(\S+)$", page.read_text(), flags=re.MULTILINE)}
    assert fences <= {"python", "sh", "text", "bibtex", "yaml"}  # yaml: tests/campaigns/test_guide.py


@pytest.mark.parametrize("page", [page for page in PAGES if fenced(page, "sh")], ids=name_of)
def test_commands_of_a_page_exist(page):
    lines = [line.strip() for block in fenced(page, "sh") for line in block.splitlines()]
    commands = {line.split()[1] for line in lines if line.startswith("cooptions ")}
    assert commands <= {*COMMANDS, "--help", "--version"}
    targets = set(re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert {line.split()[1] for line in lines if line.startswith("make ")} <= targets
    modules = [match[1] for line in lines if (match := re.match(r"python -m (\S+)", line))]
    assert all(importlib.util.find_spec(module) for module in modules)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_and_pictures_of_a_page_exist(page):
    links = re.findall(r"""(?:\]\(|src=")([^)"#]+)(?:#[^)"]*)?[)"]""", page.read_text())
    project = "https://github.com/cooptions/cooptions/blob/main/"
    local = [ROOT / link.removeprefix(project) for link in links if link.startswith(project)]
    local += [page.parent / link for link in links if "://" not in link]
    assert [str(path) for path in local if not path.exists()] == []


def test_pages_that_the_code_names_exist():
    code = [path for folder in ("src", "experiments", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    named = {(name_of(path), page) for path in code for page in re.findall(r"docs/[\w/-]+\.md", path.read_text())}
    assert [where for where, page in sorted(named) if not (ROOT / page).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_prose_is_wrapped(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    prose = [line for line in text.splitlines() if not line.startswith(("|", "![", "<"))]
    assert [line for line in prose if len(line) > 100 and "](" not in line] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_page_has_a_placeholder(page):
    """A word of capitals where a number or table was to be put in."""
    text = re.sub(r"^```.*?^```$|`[^`]*`", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert re.findall(r"^[A-Z_]{3,}$|\b(?:TODO|TBD|FIXME|XXX|MINUTES|PLACEHOLDER)\b", text, re.MULTILINE) == []


def test_the_tables_of_the_reliability_guide_are_those_of_the_results():
    assert faults_page.written(faults_page.PAGE.read_text()) == faults_page.PAGE.read_text(), (
        "python -m benchmarks.faults_page"
    )


def test_the_front_page_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) < 150


def shown(value: float, low: float, high: float) -> str:
    return f"{value:.1f} [{low:.1f}, {high:.1f}]"


def at_the_end(scores: Scores) -> str:
    end = final_iqm(scores)
    return shown(end.value, end.low, end.high)


def measured() -> Iterator[Scores]:
    """Every run with stored scores, one score per seed and evaluation."""
    for path in SCORES:
        row = json.loads(path.read_text())
        if row["metric"] != "return":
            yield scores_of(row["steps"], row["means"])
    for path in FINDINGS:
        for run in json.loads(path.read_text()).get("runs", {}).values():
            yield scores_of(run["steps"], run["scores"])


def scores_of(steps: list[int], means: list[list[float | None]]) -> Scores:
    return Scores("method", "scenario", "score", np.array(steps), np.array(means, float)[:, :, None])


def ends(scores: Scores) -> list[Scores]:
    """The scores until the end, and their mean over all evaluations."""
    return [scores, over_training(scores)]


def evaluations(scores: Scores) -> list[Scores]:
    """The scores until each evaluation."""
    counts = range(1, len(scores.steps) + 1)
    return [replace(scores, steps=scores.steps[:num], values=scores.values[:, :num]) for num in counts]


def intervals_of(looks: Callable[[Scores], list[Scores]], told: set[tuple[str, str]]) -> set[str]:
    """The last interval of every look at every stored run, where its IQM is told: the IQM alone takes no time."""
    means = {interval.partition(" ")[0] for _, interval in told}
    seen = [each for scores in measured() for each in looks(scores) if f"{iqm(final_scores(each)):.1f}" in means]
    return {at_the_end(each) for each in seen}


def triples(value: Any) -> Iterator[tuple[float, float, float]]:
    """Every stored fraction or mean with an interval."""
    if isinstance(value, dict):
        for each in value.values():
            yield from triples(each)
    elif isinstance(value, list) and len(value) == 3 and all(isinstance(each, int | float) for each in value):
        yield tuple(value)


def generated(text: str) -> str:
    return re.sub(r"<!-- begin (\S+) -->.*?<!-- end \1 -->", "", text, flags=re.DOTALL)


def test_intervals_of_all_pages_are_somewhere_in_the_results():
    told = {
        (name_of(page), interval)
        for page in PAGES
        for interval in re.findall(r"[\d.]+ \[[\d., ]+\]", generated(page.read_text()))
    }
    assert len(told) > 200
    known = {shown(*each) for path in FINDINGS for each in triples(json.loads(path.read_text()).get("rows", {}))}
    for looks in (ends, evaluations):  # few pages tell of evaluations before the last
        known |= intervals_of(looks, told)
        told = {(page, interval) for page, interval in told if interval not in known}
    assert sorted(told) == []


MARKER = re.compile(r"<!-- rows of (\S+) -->\n((?:\|.*\n)+)")
TABLES = [(page, *found) for page in PAGES for found in MARKER.findall(page.read_text())]


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        for each in value.values():
            yield from numbers(each)
    elif isinstance(value, list):
        for each in value:
            yield from numbers(each)
    elif isinstance(value, int | float):
        yield value


def is_rounded(text: str, known: list[float]) -> bool:
    digits = len(text.partition(".")[2])
    return any(abs(float(text) - each) <= 0.51 * 10.0**-digits for each in known)


def test_tables_of_the_pages_are_found():
    assert len(TABLES) >= 7


@pytest.mark.parametrize(
    ("page", "source", "table"), TABLES, ids=lambda value: name_of(value) if value in PAGES else ""
)
def test_numbers_of_a_row_are_those_of_its_results(page, source, table):
    """The first cell names the row in the file; every number with a point in the others is one of that row."""
    rows = json.loads((ROOT / source).read_text())["rows"]
    for line in table.splitlines()[2:]:
        first, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        row = re.match(r"`(.+?)`", first)
        assert row is not None, line
        known = [each for number in numbers(rows[row[1]]) for each in (number, abs(number))]
        told = [number for cell in cells if not re.search(r"[≥≤]", cell) for number in re.findall(r"\d+\.\d+", cell)]
        assert [number for number in told if not is_rounded(number, known)] == [], line
