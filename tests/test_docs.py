"""The snippets of the documentation, each pasted into a module of its own and used by its scenario name."""

import json
import re
import sys
from pathlib import Path

import jax
import pytest

from benchmarks.learning import STUDIES, scores_of, until
from benchmarks.options import alignment, table
from benchmarks.tables import with_table
from cooptions.campaigns.results import by_own_score, read_results
from cooptions.envs import make_env, rollout
from cooptions.plots.curves import method_styles
from cooptions.scores.statistics import final_iqm, over_training

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "extending.md").read_text()
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)


def test_all_snippets_are_found():
    assert len(SNIPPETS) == PAGE.count("```python") == 3


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_snippet_gives_an_environment_that_runs(number, tmp_path, monkeypatch):
    (tmp_path / "my_module.py").write_text(SNIPPETS[number])
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

    # Adapters are compiled and run in tests/envs; here it is enough that theirs trace.
    trace_or_run = jax.jit(walk) if number == 2 else lambda key: jax.eval_shape(walk, key)
    features, last = trace_or_run(jax.random.key(0))
    assert features.shape == (60, 2, env.num_agents, len(env.features))
    if number == 2:
        assert last.any()
        assert ((features >= 0) & (features < env.size)).all()


def test_table_of_discovery_is_that_of_the_results():
    page = (ROOT / "docs" / "discovery.md").read_text()
    assert with_table(page) == page, "run python -m benchmarks.tables"


@pytest.mark.parametrize("make", [table, alignment])
def test_tables_of_options_are_those_of_the_results(make):
    made = make(ROOT / "results" / "options")
    assert made in (ROOT / "docs" / "options.md").read_text(), "run python -m benchmarks.options --table"


def results_of(study):
    return json.loads((ROOT / "results" / "learning" / f"{study}.json").read_text())


@pytest.mark.parametrize("study", STUDIES)
def test_results_of_studies_name_the_commands_that_make_them(study):
    kept = {name: each["command"].split() for name, each in results_of(study).items()}
    wanted = {name: ["cooptions", "train", *command.split()] for name, command in STUDIES[study].items()}
    assert {name: sorted(command) for name, command in kept.items()} == {
        name: sorted(command) for name, command in wanted.items()
    }, f"run python -m benchmarks.learning {study}"
    assert len(method_styles(wanted)) == len(wanted), "the runs of a study can be told apart in its picture"


def intervals_in(page):
    """Those that were typed, not generated."""
    typed = re.sub(r"<!-- begin (\S+) -->.*?<!-- end \1 -->", "", (ROOT / page).read_text(), flags=re.DOTALL)
    return set(re.findall(r"[\d.]+ \[[\d., ]+\]", typed))


def shown(value, low, high):
    return f"{value:.1f} [{low:.1f}, {high:.1f}]"


def at_the_end(scores):
    iqm = final_iqm(scores)
    return shown(iqm.value, iqm.low, iqm.high)


def rows():
    folders = ("reproduction", "foraging-full-sight", "interval-100", "greedy-ppo")
    results = [result for folder in folders for result in read_results(ROOT / "results" / folder)]
    return [row.scores for row in by_own_score(results)]


def test_intervals_of_the_readme_are_those_of_the_results():
    """Those that are not generated are of teams that learned to meet."""
    runs = [scores_of(name, run) for name, run in results_of("meeting-apart").items()]
    told = intervals_in("README.md")
    assert len(told) > 5
    assert told <= set(map(at_the_end, runs))


def test_intervals_of_the_pages_are_somewhere_in_the_results():
    """Each is a row or a study's run at some evaluation, or the mean of all its evaluations; or a share of episodes."""
    runs = [scores_of(name, run) for study in STUDIES for name, run in results_of(study).items()]
    scores = [*rows(), *runs]
    known = {at_the_end(until(each, int(at))) for each in scores for at in each.steps}
    known |= {at_the_end(over_training(each)) for each in scores}
    shares = [row["percent_of_episodes"].values() for row in results_of("frontier")["rows"]]
    known |= {shown(*share) for row in shares for share in row}
    teams = [row["percent"].values() for run in results_of("second_pot")["runs"] for row in run["exploring"]]
    known |= {shown(*share) for row in teams for event in row for share in event}
    for page in ("learning", "reproduction"):
        told = intervals_in(f"docs/{page}.md")
        assert len(told) > 20
        assert told <= known, page
