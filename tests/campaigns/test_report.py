"""Verdicts by the stated rule, and a page that says no more than the results."""

from pathlib import Path

import numpy as np
import pytest
from made_up import result

from cooptions.campaigns.estimates import Speeds
from cooptions.campaigns.report import (
    PARTS,
    Evidence,
    comparison_table,
    coverage_table,
    end_table,
    score_table,
    time_table,
    verdict_table,
    with_parts,
    write_page,
)
from cooptions.campaigns.results import merged, result_path, write_result
from cooptions.campaigns.rows import Row
from cooptions.campaigns.verdicts import (
    FAILS,
    HOLDS,
    UNDECIDED,
    UNMEASURED,
    Claim,
    Verdict,
    better,
    claims,
    decide,
    equal,
    summary,
)
from cooptions.cli.main import main
from cooptions.errors import ArtifactError
from cooptions.scores.statistics import Estimate

ROOT = Path(__file__).parents[2]
SIX = [70.0, 71.0, 72.0, 73.0, 74.0, 75.0]
LOW = [value - 50 for value in SIX]
PLACE = "lbf-15x15-4p-3f"


def _evidence(*results, speeds=()):
    return Evidence(results, Speeds(dict(speeds)), ())


@pytest.mark.parametrize(
    ("rule", "left", "right", "verdict"),
    [
        (better, (5, 4, 6), (2, 1, 3), HOLDS),
        (better, (2, 1, 3), (5, 4, 6), FAILS),
        (better, (5, 3, 7), (2, 1, 4), UNDECIDED),
        (better, (5, np.nan, np.nan), (2, 1, 4), UNDECIDED),
        (equal, (5, 3, 7), (4, 2, 6), HOLDS),
        (equal, (5, 4, 6), (2, 1, 3), FAILS),
        (equal, (2, 1, 3), (5, 4, 6), FAILS),
        (equal, (5, 3, 7), (2, 1, 4), UNDECIDED),
        (equal, (5, np.nan, np.nan), (5, 4, 6), UNDECIDED),
    ],
)
def test_rules(rule, left, right, verdict):
    assert rule(Estimate(*map(float, left)), Estimate(*map(float, right))) == verdict


def test_best_of_several_methods_counts_and_shares_of_training_are_not_mixed():
    claim = Claim("H1", PLACE, ("iql+iaro", "iql+hit"), "iql")
    lower, higher = ([value + step for value in SIX] for step in (-30, 20))
    results = [
        result("iql", SIX), result("iql+iaro", lower), result("iql+hit", higher),
        result("iql", higher, fraction=0.5), result("iql+iaro", lower, fraction=0.5),
        result("iql", SIX, scenario="lbf-15x15-4p-5f"), result("iql+hit", SIX, fraction=0.25),
    ]  # fmt: skip
    verdicts = decide(claim, results)
    assert [(each.fraction, each.left.method, each.verdict) for each in verdicts] == [
        (1.0, "iql+hit", HOLDS),
        (0.5, "iql+iaro", FAILS),
    ]


def test_what_rests_on_few_discoveries_says_so():
    def told(finals, **options):
        return comparison_table(_evidence(result("iql", LOW), result("iql+hit", finals, **options)))

    assert "| holds (one discovery) |" in told(SIX, discoveries=1)
    assert "| holds (4 discoveries) |" in told(SIX, discoveries=4)
    assert "| holds |" in told(SIX, discoveries=5)
    assert "| holds |" in told(SIX)  # every seed discovers its own
    assert "| undecided |" in told(LOW, discoveries=1)


def test_comparisons_tell_how_likely_the_first_ends_above_the_second():
    def told(finals):
        return comparison_table(_evidence(result("iql", LOW), result("iql+hit", finals)))

    assert "| 1.000 [1.000, 1.000] | holds |" in told(SIX)
    assert "| 0.500 [" in told(LOW)


def test_rows_tell_their_discoveries():
    one, own = (score_table(_evidence(result("iql+hit", SIX, discoveries=num))) for num in (1, 0))
    assert "| 6, 1 discovery |" in one
    assert "| 6, 6 discoveries |" in own
    assert "| 6 |" in score_table(_evidence(result("iql", SIX)))


@pytest.mark.parametrize(
    ("make", "whole", "shorter", "missing"),
    [
        (coverage_table, "6", "5 over 0.2", "none"),
        (end_table, "72.5 [71.0, 74.2]", "72.0 [70.3, 73.7] over 0.2", UNMEASURED),
    ],
)
def test_comparison_of_the_paper_is_by_the_largest_share_of_the_steps(make, whole, shorter, missing):
    kitchen = "overcooked-forced_coord"
    found = [result("iql", SIX), result("iql", LOW[:5], fraction=0.2), result("iql+hit", SIX[:5], fraction=0.2)]
    found += [result("iql+hit", LOW, num_options=2), result("vdn", SIX, scenario=kitchen)]
    table = make(_evidence(*found)).splitlines()
    head, _, *lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table]
    told = {line[0]: dict(zip(head[1:], line[1:], strict=True)) for line in lines}
    assert (len(told), len(head)) == (9, 7)
    assert [told[method][PLACE] for method in ("iql", "iql+hit", "vdn")] == [whole, shorter, missing]
    assert [told[method][kitchen] for method in ("iql", "vdn", "mappo")] == [missing, whole, "-"]


@pytest.mark.parametrize(
    ("with_options", "discoveries", "told"),
    [
        (SIX, (1, 5), "**holds (one discovery)** | holds (one discovery) | holds |"),
        (SIX, (2, 3), "**holds (2 discoveries)** | holds (2 discoveries) | holds (3 discoveries) |"),
        (SIX, (5, 5), "**holds** | holds | holds |"),
        (LOW, (1, 5), "**does not hold** | does not hold (one discovery) | does not hold |"),
        (
            LOW,
            (1, 1),
            "**does not hold (one discovery)** | does not hold (one discovery) | does not hold (one discovery) |",
        ),
    ],
)
def test_a_claim_that_holds_rests_on_all_comparisons_and_one_that_fails_on_any(with_options, discoveries, told):
    without = LOW if with_options is SIX else SIX
    results = [
        each
        for place, num in zip((PLACE, "lbf-15x15-4p-5f"), discoveries, strict=True)
        for each in (
            result("iql", without, scenario=place),
            result("iql+hit", with_options, scenario=place, discoveries=num),
        )
    ]
    assert f"| H1: joint options beat having none | {told}" in verdict_table(_evidence(*results))


def test_given_options_are_no_discovery():
    handmade = result("iql+handmade", SIX)
    handmade.settings["learning"]["macro"]["option_set"] = "handmade"
    assert handmade.discoveries == 0


def test_a_row_of_several_blocks_names_every_commit_once():
    first, second = result("iql", SIX[:3]), result("iql", SIX[3:], first=3)
    second.blocks[0]["made_by"]["commit"] = "def"
    row = merged([first, second, result("iql", SIX[:3], first=6)], Path("x"))
    assert "| abc, def |" in score_table(_evidence(row))


def test_few_seeds_decide_nothing_and_diverged_ones_are_few():
    claim = Claim("H1", PLACE, ("iql+hit",), "iql")
    assert decide(claim, [result("iql", LOW), result("iql+hit", SIX)])[0].verdict == HOLDS
    assert decide(claim, [result("iql", LOW[:4]), result("iql+hit", SIX)])[0].verdict == UNDECIDED
    lost = [*SIX[:4], np.nan, np.nan]
    assert decide(claim, [result("iql", LOW), result("iql+hit", lost)])[0].verdict == UNDECIDED
    assert [each.verdict for each in decide(claim, [result("iql", LOW)])] == [UNMEASURED]


def test_summary_of_several_verdicts():
    def of(*words):
        claim = Claim("H1", PLACE, ("iql+hit",), "iql")
        return summary([Verdict(claim, 1.0, word) for word in words])

    assert of() == of(UNMEASURED) == UNMEASURED
    assert of(HOLDS, UNMEASURED) == HOLDS
    assert of(HOLDS, UNDECIDED) == of(UNDECIDED) == UNDECIDED
    assert of(HOLDS, FAILS, UNDECIDED) == FAILS


def test_claims_are_the_papers():
    every = claims()
    assert {(each.scenario, each.right) for each in every if each.hypothesis == "H1"} >= {(PLACE, "mappo")}
    apart = [each for each in every if each.hypothesis == "H1-ns"]
    assert {each.right for each in apart} == {"iql-ns", "vdn-ns"}
    assert all(method.startswith("iql-ns+") for each in apart for method in each.left)
    mended = [each for each in every if each.hypothesis in ("H1-ln", "H2-ln")]
    assert {each.right for each in mended} == {"iql-ln", "vdn-ln", "ippo", "iql-ln+kron", "iql-ln+rjs"}
    assert all(method.startswith("iql-ln+") for each in mended for method in each.left)
    assert all(each.scenario.startswith("overcooked") for each in mended)
    for learner in ("vdn", "ippo"):
        added = {(each.left, each.right) for each in every if each.hypothesis == f"H1-{learner}"}
        options = f"{learner}+iaro", f"{learner}+hit"
        assert added == {(options, right) for right in ("iql", "vdn", "ippo", "mappo")}
    control = [each for each in every if each.hypothesis == "control"]
    assert {each.right for each in control} == {"iql+wander"}
    assert {each.left for each in control} == {each.left for each in every if each.hypothesis == "H1"}
    assert not [each for each in every if each.right == "mappo" and each.scenario.startswith("overcooked")]
    third = {each.scenario.partition("-")[0]: each.rule for each in every if each.hypothesis == "H3"}
    assert third == {"lbf": equal, "overcooked": better}
    few = {each.scenario: each.left[0] for each in every if each.hypothesis == "few"}
    assert few == {"lbf-15x15-4p-5f": "iql+iaro-2options", "overcooked-counter_circuit": "iql+iaro-10options"}


def test_tables_tell_what_was_measured():
    evidence = _evidence(
        result("iql", LOW), result("iql+hit", SIX), result("iql", LOW, metric="return"),
        speeds={("lbf", "jaxmarl"): 60.0, ("lbf", "ours"): 600.0, ("lbf", "ours+options"): 1200.0},
    )  # fmt: skip
    assert (
        verdict_table(evidence)
        .splitlines()[2]
        .startswith("| H1: joint options beat having none | **holds** | holds | not measured |")
    )
    line = next(line for line in score_table(evidence).splitlines() if "iql+hit" in line)
    assert "72.5 [" in line
    # Half of two minutes of learning, as half of the group's seeds were others', and half a minute of discovery.
    assert "| 6, 6 discoveries | 0.0032M | 1.5 | 1 x H200 | 2026-11-15 | abc | `cooptions train" in line
    # Ten updates of six seeds in each of two rows: 60 ms each by JaxMARL; 0.6 s by us, and 1.2 s with options.
    assert time_table(evidence).splitlines()[2] == "| 1 x H200 | 12 | 3.0 | 2.0 | 2.0 | 1.8 | 0.1 |"


def test_page_is_rewritten_between_its_markers_alone(tmp_path):
    page, results = tmp_path / "page.md", tmp_path / "results"
    page.write_text("words\n" + "".join(f"<!-- begin {name} -->\nold\n<!-- end {name} -->\nwords\n" for name in PARTS))
    for metric in ("percent_eaten", "return"):
        path = result_path(results, Row(PLACE, "iql"), 1.0, metric)
        write_result(path, result("iql", SIX, metric=metric))
        path = result_path(results, Row(PLACE, "iql+hit"), 1.0, metric)
        write_result(path, result("iql+hit", SIX, metric=metric))
    (results / "returns.png").write_bytes(b"")
    main(["reproduce", "--report", "--results", str(results), "--page", str(page), "--speed", str(tmp_path)])
    text = page.read_text()
    assert "old" not in text
    assert text.count("\nwords\n") == len(PARTS)
    assert "![returns](results/returns.png)" in text
    scored = [line for line in text.splitlines() if line.startswith("| percent_eaten")]
    assert ["| iql |" in scored[0], "| iql+hit |" in scored[1], len(scored)] == [True, True, 2]  # as in the figures
    assert all("72.5" in line for line in scored)


def test_a_page_has_the_parts_it_wants_each_whole(tmp_path):
    begin, end = "<!-- begin coverage -->", "<!-- end coverage -->"
    assert with_parts(f"words {begin} old {end} words", _evidence()).count("| iql |") == 1
    for broken in (f"{begin} without an end", f"{end} then {begin}", f"{begin} {end} {begin} {end}"):
        with pytest.raises(ArtifactError, match=f"needs {begin} and {end}"):
            with_parts(broken, _evidence())
    page = tmp_path / "page.md"
    page.write_text("no markers")
    with pytest.raises(ArtifactError, match=r"page.md: no part to write; there are verdicts, comparisons"):
        write_page(page, tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("page", "results", "parts"),
    [("docs/findings/paper-claims.md", "reproduction", {"comparisons", "ends", "coverage"})],
)
def test_pages_of_the_repository_are_what_their_results_say(page, results, parts):
    text = (ROOT / page).read_text()
    assert {name for name in PARTS if f"<!-- begin {name} -->" in text} == parts
    made = with_parts(text, Evidence.read(ROOT / "results" / results, ROOT / "results" / "speed", ROOT / page))
    assert made == text, f"stale: run `cooptions reproduce --report --results results/{results} --page {page}`"
