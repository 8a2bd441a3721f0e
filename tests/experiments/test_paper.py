"""The paper as a campaign: its claims, and pages that match its results."""

import time
from pathlib import Path

import pytest

from cooptions.campaigns.figures import Curves
from cooptions.campaigns.reading import read_campaign
from cooptions.campaigns.report import page_of, with_parts
from cooptions.campaigns.results import check_settings, read_result, result_paths
from cooptions.campaigns.rows import Block
from cooptions.campaigns.tables import Evidence
from cooptions.cli.main import main

ROOT = Path(__file__).parents[2]
PAPER = read_campaign(ROOT / "experiments" / "paper.yaml")
FORAGING = ["lbf-15x15-4p-3f", "lbf-15x15-3p-5f", "lbf-15x15-4p-5f"]
RESULTS = ROOT / PAPER.results


def _claim(name):
    return next(claim for claim in PAPER.claims if claim.name == name)


def test_the_main_rows_come_first():
    first = PAPER.lineups[0]
    assert first.places == tuple(FORAGING)
    assert first.labels == (
        "iql", "vdn", "ippo", "mappo", "iql+iaro", "iql+hit", "iql+kron", "iql+rjs", "mappo+hit",
    )  # fmt: skip
    assert PAPER.lineups[1].labels[:2] == ("iql@letter", "vdn@letter")


def test_every_row_has_ten_seeds_and_four_discoveries():
    for row, seeding in PAPER.wanted.items():
        blocks = seeding.blocks(row, 1.0)
        if row.learns:
            assert sum(block.num_seeds for block in blocks) == 10
        if row.learns and row.config.discovers:
            assert sum(block.config.learning.macro.discoveries for block in blocks) == 4


def test_claims_are_the_papers():
    assert {claim.name for claim in PAPER.claims} >= {"H1", "H1-all", "H2", "H3-foraging", "H3-overcooked"}
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
    learners = {row.label: row.config.learning.learner for row in PAPER.wanted if row.place.startswith("overcooked")}
    assert {learners[label].target_interval for label in ("iql@letter", "iql+hit@letter")} == {100}
    assert {learners[label].target_interval for label in ("iql", "iql+hit")} == {10}


def test_panels_have_at_most_six_lines():
    panels = [labels for figure in PAPER.figures if isinstance(figure, Curves) for _, labels in figure.panels]
    assert len(panels) >= 4
    assert max(map(len, panels)) <= 6


def test_kept_scores_have_the_settings_of_their_rows():
    checked = 0
    for row in PAPER.wanted:
        for path in result_paths(RESULTS, row, 1.0) if row.learns else ():
            check_settings(Block(row, 0, 5).settings, read_result(path).settings, path)
            checked += 1
    assert checked == len(list((RESULTS / "scores").glob("*.json"))) == 80


def test_no_verdict_uses_scores_of_foraging_with_full_sight():
    evidence = Evidence.read(PAPER, RESULTS)
    assert not [each for each in evidence.results if each.scenario.startswith("lbf")]
    assert not RESULTS.is_relative_to(ROOT / "results" / "foraging-full-sight")


@pytest.mark.parametrize("path", PAPER.pages, ids=str)
def test_pages_match_the_results(path):
    page = ROOT / path
    parts = page_of(Evidence.read(PAPER, RESULTS), RESULTS)
    made = with_parts(page.read_text(), lambda name: parts.part(name, page.parent))
    assert made == page.read_text(), "run cooptions campaign experiments/paper.yaml --report"


def test_the_plan_is_made_at_once(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(ROOT)
    begun = time.process_time()
    main(["campaign", "experiments/paper.yaml", "--plan", "--runs", str(tmp_path)])
    assert time.process_time() - begun < 10  # shapes and types are checked in tests, and environments are there already
    assert "blocks are missing" in capsys.readouterr().out
