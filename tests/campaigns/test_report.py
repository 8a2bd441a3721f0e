"""Tables and pages match the results."""

import base64
import re
from html.parser import HTMLParser

import pytest
from made_up import result

from cooptions.campaigns.campaign import Campaign, Lineup
from cooptions.campaigns.report import PARTS, Page, html_report, page_of, with_parts, write_page
from cooptions.campaigns.results import merged, result_path, write_result
from cooptions.campaigns.rows import Row, Seeding
from cooptions.campaigns.tables import (
    Evidence,
    area_table,
    comparison_table,
    coverage_table,
    end_table,
    method_table,
    pooled_table,
    return_table,
    score_table,
    time_table,
    verdict_table,
)
from cooptions.campaigns.verdicts import Claim
from cooptions.errors import ArtifactError
from cooptions.scores.statistics import final_iqm, over_training
from cooptions.scores.tables import markdown_table

SIX = [70.0, 71.0, 72.0, 73.0, 74.0, 75.0]
LOW = [value - 50 for value in SIX]
PLACE, OTHER = "lbf-15x15-4p-3f", "lbf-15x15-4p-5f"
METHODS = ("iql", "vdn", "iql+hit")
LINEUP = Lineup("main", tuple(Row(place, each) for place in (PLACE, OTHER) for each in METHODS), Seeding(range(10)))
KITCHEN = Lineup("kitchen", (Row("overcooked-forced_coord", "iql"),), Seeding(range(5)))
CLAIM = Claim("H1", "options help", ("iql+hit",), ((PLACE, "iql"), (OTHER, "iql")))
CAMPAIGN = Campaign("made-up", (LINEUP, KITCHEN), claims=(CLAIM,))


def _evidence(*results):
    return Evidence(CAMPAIGN, results)


def _column(table, name, row=0):
    return table.rows[row][table.head.index(name)]


def test_methods_that_were_measured_everywhere_are_pooled_over_scenarios():
    lineup = Lineup("main", LINEUP.rows, Seeding(range(10)))
    here, there = result("iql", SIX), result("iql", LOW, scenario=OTHER)
    table = pooled_table(Evidence(Campaign("made-up", (lineup,)), (here, there, result("vdn", SIX))))
    end = final_iqm(here.scores, there.scores)
    area = final_iqm(over_training(here.scores), over_training(there.scores))
    assert table.rows == [["iql", str(end), str(area), "12"]]
    assert end.value == pytest.approx(47.5)  # the middle half of 20 to 25 and 70 to 75


@pytest.mark.parametrize(
    ("finals", "options", "told"),
    [
        (SIX, {"discoveries": 1}, "holds (one discovery)"),
        (SIX, {"discoveries": 4}, "holds (4 discoveries)"),
        (SIX, {"discoveries": 5}, "holds"),
        (SIX, {}, "holds"),  # every seed discovers its own
        (LOW, {"discoveries": 1}, "undecided"),
    ],
)
def test_verdicts_note_few_discoveries(finals, options, told):
    table = comparison_table(_evidence(result("iql", LOW), result("iql+hit", finals, **options)))
    assert _column(table, "verdict") == told


def test_comparisons_show_both_measures_and_a_probability():
    table = comparison_table(_evidence(result("iql", LOW), result("iql+hit", SIX)))
    assert _column(table, "claimed") == "iql+hit > iql"
    assert _column(table, "end").startswith("72.5 [")
    assert _column(table, "mean of all evaluations").startswith("36.2 [")
    assert _column(table, "first ends above second") == "1.000 [1.000, 1.000]"


@pytest.mark.parametrize(
    ("finals", "discoveries", "told"),
    [
        (SIX, (1, 5), ["**holds (one discovery)**", "holds (one discovery)", "holds"]),
        (SIX, (2, 3), ["**holds (2 discoveries)**", "holds (2 discoveries)", "holds (3 discoveries)"]),
        (LOW, (1, 5), ["**does not hold**", "does not hold (one discovery)", "does not hold"]),
        (SIX, (5,), ["**holds (1 of 2 not measured)**", "holds", "not measured"]),
        (SIX, (), ["**not measured**", "not measured", "not measured"]),
    ],
)
def test_a_claim_holds_by_all_comparisons_and_fails_by_any(finals, discoveries, told):
    others = LOW if finals is SIX else SIX
    results = [
        each
        for place, num in zip((PLACE, OTHER), discoveries, strict=False)
        for each in (result("iql", others, scenario=place), result("iql+hit", finals, scenario=place, discoveries=num))
    ]
    (row,) = verdict_table(_evidence(*results)).rows
    assert row == ["H1: options help", *told]


@pytest.mark.parametrize(
    ("make", "whole", "shorter", "missing"),
    [
        (coverage_table, "6 of 10", "5 of 10, 5 discoveries at 0.2 of the steps", "0 of 10"),
        (end_table, "72.5 [71.0, 74.2]", "72.0 [70.3, 73.7] at 0.2 of the steps", "not measured"),
        (area_table, "36.2 [35.5, 37.1]", "36.0 [35.2, 36.8] at 0.2 of the steps", "not measured"),
    ],
)
def test_tables_of_a_line_up_are_by_the_largest_share_of_the_steps(make, whole, shorter, missing):
    found = [result("iql", SIX), result("iql", LOW[:5], fraction=0.2), result("iql+hit", SIX[:5], fraction=0.2)]
    table = make(_evidence(*found, result("iql+hit", LOW, num_options=2)), LINEUP)
    told = {row[0]: dict(zip(table.head[1:], row[1:], strict=True)) for row in table.rows}
    assert tuple(told) == METHODS
    assert [told[method][PLACE] for method in METHODS] == [whole, missing, shorter]
    assert {told[method][OTHER] for method in METHODS} == {missing}


def test_the_table_of_methods_shows_both_measures_of_every_row():
    table = method_table(_evidence(result("iql", SIX)))
    told = {row[0]: dict(zip(table.head[1:], row[1:], strict=True)) for row in table.rows}
    assert tuple(told) == METHODS
    assert told["iql"][PLACE] == "72.5 [71.0, 74.2] / 36.2 [35.5, 37.1]"
    assert told["vdn"][PLACE] == told["iql"]["overcooked-forced_coord"] == "not measured"
    assert told["vdn"]["overcooked-forced_coord"] == "-"


def test_rows_show_their_discoveries_time_and_commands():
    evidence = _evidence(result("iql", LOW), result("iql+hit", SIX, discoveries=1), result("iql", LOW, metric="return"))
    table = score_table(evidence)
    assert len(table.rows) == 2
    assert _column(table, "seeds", 1) == "6, 1 discovery"
    assert (
        _column(table, "minutes", 1) == "1.5"
    )  # half of two minutes, because half of the group's seeds belong to others, plus discovery
    assert _column(table, "commands", 1).startswith("`cooptions train lbf-15x15-4p-3f --method iql+hit")
    assert len(return_table(evidence).rows) == 1
    assert time_table(evidence).rows == [["1 x H200", "12", "3.0", "2.0"]]


def test_blocks_record_their_own_discoveries(tmp_path):
    first, second = result("iql+hit", SIX, discoveries=1), result("iql+hit", SIX, first=6, discoveries=2)
    second.blocks[0]["discoveries"] = 2
    assert merged([first, second], tmp_path).discoveries == 3


@pytest.fixture
def results(tmp_path):
    for metric in ("percent_eaten", "return"):
        for method in ("iql+hit", "iql"):
            path = result_path(tmp_path / "results", Row(PLACE, method), 1.0, metric)
            write_result(path, result(method, SIX, metric=metric))
    write_result(tmp_path / "results/scores/other.json", result("mappo", SIX))
    (tmp_path / "results/curves.png").write_bytes(b"a picture")
    return tmp_path / "results"


def test_a_page_changes_only_between_its_markers(tmp_path, results):
    path = tmp_path / "page.md"
    names = [*PARTS, "ends:kitchen"]
    path.write_text("words\n" + "".join(f"<!-- begin {name} -->\nold\n<!-- end {name} -->\nwords\n" for name in names))
    write_page(path, page_of(Evidence.read(CAMPAIGN, results), results))
    text = path.read_text()
    assert "old" not in text
    assert text.count("\nwords\n") == len(names)
    assert "![curves](results/curves.png)" in text
    assert "mappo" not in text  # a row of another campaign
    scored = [line for line in text.splitlines() if line.startswith("| percent_eaten")]
    assert ["| iql |" in scored[0], "| iql+hit |" in scored[1], len(scored)] == [True, True, 2]  # as in the campaign
    assert "| overcooked-forced_coord |" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no markers", "no part to write; there are verdicts, comparisons"),
        ("<!-- begin ends --> without an end", "needs <!-- begin ends --> and <!-- end ends -->"),
        ("<!-- end ends --> then <!-- begin ends -->", "once each and in this order"),
        ("<!-- begin sums --> <!-- end sums -->", "no part 'sums'"),
        ("<!-- begin ends:none --> <!-- end ends:none -->", "no part 'ends:none'.*lineups main, kitchen"),
    ],
)
def test_a_page_needs_complete_markers_of_known_parts(tmp_path, text, message):
    path = tmp_path / "page.md"
    path.write_text(text)
    with pytest.raises(ArtifactError, match=f"page.md: .*{message}"):
        write_page(path, Page(_evidence(), ()))
    with pytest.raises(ArtifactError, match="none.md: cannot be read"):
        write_page(tmp_path / "none.md", Page(_evidence(), ()))


def test_missing_measurements_are_shown(tmp_path):
    page = Page(_evidence(), ())
    text = with_parts("<!-- begin scores --><!-- end scores -->", lambda name: page.part(name, tmp_path))
    assert "Nothing was measured yet." in text


class _Tags(HTMLParser):
    """Collects unclosed tags and all addresses."""

    def __init__(self):
        super().__init__()
        self.open, self.addresses = [], []

    def handle_starttag(self, tag, attrs):
        self.addresses += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_html_report_is_one_whole_file(results):
    campaign = Campaign("<b>", (LINEUP,), claims=(Claim("H1", "a < b & c", ("iql+hit",), ((PLACE, "iql"),)),))
    text = html_report(page_of(Evidence.read(campaign, results), results))
    tags = _Tags()
    tags.feed(text)
    assert tags.open == []
    assert tags.addresses == [f"data:image/png;base64,{base64.b64encode(b'a picture').decode()}"]
    assert "a &lt; b &amp; c" in text
    assert "<title>&lt;b&gt;</title>" in text
    assert "<strong>undecided" in text
    assert not re.search(r"https?://", text)


def test_markdown_escapes_what_would_end_a_cell():
    assert markdown_table(["a"], [["x|y"]]) == "| a |\n| --- |\n| x\\|y |\n"
    assert markdown_table(["a"], []) == ""
