"""The campaigns of this repository: the paper's claims, and pages that match their results."""

import functools
import time
from pathlib import Path

import pytest
import yaml

from cooptions.campaigns.figures import Curves
from cooptions.campaigns.reading import read_campaign
from cooptions.campaigns.report import page_of, with_parts
from cooptions.campaigns.results import check_settings, read_result, result_paths
from cooptions.campaigns.rows import Block
from cooptions.campaigns.tables import Evidence
from cooptions.cli.main import main

ROOT = Path(__file__).parents[2]
FILES = {path.stem: path for path in sorted((ROOT / "experiments").glob("*.yaml"))}
PAGES = [
    pytest.param(name, page, id=f"{name}-{Path(page).stem}", marks=[] if name == "paper" else pytest.mark.slow)
    for name, path in FILES.items()
    for page in yaml.safe_load(path.read_text())["pages"]
]
FORAGING = ["lbf-15x15-4p-3f", "lbf-15x15-3p-5f", "lbf-15x15-4p-5f"]


@functools.cache
def campaign(name="paper"):
    return read_campaign(FILES[name])


def results_of(name="paper"):
    return ROOT / campaign(name).results


def _claim(name):
    return next(claim for claim in campaign().claims if claim.name == name)


def test_the_main_rows_come_first():
    first = campaign().lineups[0]
    assert first.places == tuple(FORAGING)
    assert first.labels == (
        "iql", "vdn", "ippo", "mappo", "iql+iaro", "iql+hit", "iql+kron", "iql+rjs", "mappo+hit",
    )  # fmt: skip
    assert campaign().lineups[1].labels[:2] == ("iql@letter", "vdn@letter")


def test_every_row_has_ten_seeds_and_four_discoveries():
    for row, seeding in campaign().wanted.items():
        blocks = seeding.blocks(row, 1.0)
        if row.learns:
            assert sum(block.num_seeds for block in blocks) == 10
        if row.learns and row.config.discovers:
            assert sum(block.config.learning.macro.discoveries for block in blocks) == 4


def test_claims_are_the_papers():
    assert {claim.name for claim in campaign().claims} >= {"H1", "H1-all", "H2", "H3-foraging", "H3-overcooked"}
    assert {right for _, right in _claim("H1").against} == {"iql"}
    rivals = {
        scenario: {right for place, right in _claim("H1-all").against if place == scenario} for scenario in FORAGING
    }
    assert all(each == {"iql", "vdn", "ippo", "mappo"} for each in rivals.values())
    assert ("overcooked-counter_circuit", "mappo") not in _claim("H1-all").against  # not in the paper
    assert {right for _, right in _claim("H2").against} == {"iql+kron", "iql+rjs"}
    assert (_claim("H3-foraging").rule, _claim("H3-overcooked").rule) == ("equal", "better")
    assert all(right.endswith("@letter") or right == "ippo" for _, right in _claim("H1-all-letter").against)
    assert _claim("few-foraging").left == ("iql+iaro-2options", "iql+hit-2options")


def test_the_literal_rows_have_the_papers_target_interval():
    learners = {
        row.label: row.config.learning.learner for row in campaign().wanted if row.place.startswith("overcooked")
    }
    assert {learners[label].target_interval for label in ("iql@letter", "iql+hit@letter")} == {100}
    assert {learners[label].target_interval for label in ("iql", "iql+hit")} == {10}


def test_panels_have_at_most_six_lines():
    panels = [labels for figure in campaign().figures if isinstance(figure, Curves) for _, labels in figure.panels]
    assert len(panels) >= 4
    assert max(map(len, panels)) <= 6


@pytest.mark.parametrize("name", FILES)
def test_kept_scores_have_the_settings_of_their_rows(name):
    learned = [row for row in campaign(name).wanted if row.learns]
    kept = [(row, path) for row in learned for path in result_paths(results_of(name), row, 1.0)]
    for row, path in kept:
        made = read_result(path).settings
        made.pop("files", None)  # the option sets that rows were given are not kept
        check_settings(Block(row, 0, 5).settings, made, path)
    assert {path for _, path in kept} == set((results_of(name) / "scores").glob("*.json"))


def test_no_verdict_uses_scores_of_foraging_with_full_sight():
    evidence = Evidence.read(campaign(), results_of())
    foraging = [each.settings["env"] for each in evidence.results if each.scenario.startswith("lbf")]
    assert foraging
    assert {(env["rules"], env["sight"]) for env in foraging} == {("paper", 2)}
    assert not results_of().is_relative_to(ROOT / "results" / "foraging-full-sight")


@pytest.mark.parametrize(("name", "path"), PAGES)
def test_pages_match_the_results(name, path):
    page, results = ROOT / path, results_of(name)
    parts = page_of(Evidence.read(campaign(name), results), results)
    made = with_parts(page.read_text(), lambda part: parts.part(part, page.parent))
    assert made == page.read_text(), f"run cooptions campaign experiments/{name}.yaml --report"


def test_the_plan_is_made_at_once(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(ROOT)
    begun = time.process_time()
    main(["campaign", "experiments/paper.yaml", "--plan", "--runs", str(tmp_path)])
    assert time.process_time() - begun < 10  # shapes and types are checked in tests, and environments are there already
    assert "blocks are missing" in capsys.readouterr().out
