"""Figures of a campaign: the rows they need, and what they draw."""

import pytest
from made_up import result

from cooptions.campaigns.figures import Curves, FromRun, OptionCounts, Returns, measured
from cooptions.campaigns.plan import Places
from cooptions.campaigns.rows import Block, Row
from cooptions.cli.main import main
from cooptions.errors import Interrupted
from cooptions.plots.curves import method_styles
from cooptions.runs.directory import open_run

FEW = [1.0, 2.0, 3.0]
PLACE = "lbf-15x15-4p-3f"
METHODS = ("iql", "mappo", "iql+iaro", "iql+kron")
ROWS = tuple(Row(PLACE, method) for method in METHODS)
STYLES = method_styles(METHODS)


def _titles(canvas):
    return [ax.get_title() for ax in canvas.axes]


def test_panels_compare_the_methods_they_name():
    panels = (("against none", ("iql", "mappo", "iql+iaro")), ("against others", ("iql+iaro", "iql+kron")))
    canvas = Curves("c", ROWS, panels).plot([result(method, FEW) for method in METHODS], STYLES)
    assert canvas.get_suptitle() == PLACE
    assert _titles(canvas) == ["against none", "against others"]
    assert [len(ax.get_lines()) for ax in canvas.axes] == [3, 2]
    whole = Curves("c", ROWS).plot([result(method, FEW) for method in METHODS], STYLES)
    assert [len(ax.get_lines()) for ax in whole.axes] == [4]


def test_results_are_selected_by_fraction_and_metric():
    shown = result("iql", FEW)
    others = [
        result("iql", FEW, metric="return"), result("iql", FEW, fraction=0.5), result("iql+mask", FEW),
        result("iql", FEW, scenario="lbf-15x15-4p-5f"),
    ]  # fmt: skip

    def found(fraction, metric):
        return [(each.metric, each.fraction) for each in measured([shown, *others], ROWS, fraction, metric)]

    assert found(1.0, "") == [("percent_eaten", 1.0)]
    assert found(0.5, "") == [("percent_eaten", 0.5)]
    assert found(1.0, "return") == [("return", 1.0)]
    assert found(0.1, "") == []


@pytest.mark.parametrize(
    ("figure", "names"),
    [
        (Curves("c", ROWS), [f"c-{PLACE}-fraction-0.5.png"]),
        (Returns("r", ROWS), ["r-fraction-0.5.png"]),
        (OptionCounts("n", (*ROWS, Row(PLACE, "iql+iaro", 2))), ["n-fraction-0.5.png"]),
        (Curves("c", (Row("overcooked-forced_coord", "iql"),)), []),
    ],
    ids=lambda value: type(value).__name__,
)
def test_figures_draw_the_measured_rows(figure, names, tmp_path):
    results = [
        result(method, FEW, fraction=0.5, metric=metric) for method in METHODS for metric in ("return", "percent_eaten")
    ]
    results.append(result("iql+iaro", FEW, fraction=0.5, num_options=2))
    drawn = figure.draw(results, Places(tmp_path, tmp_path), 0.5, STYLES)
    assert [path.name for path in drawn] == names
    assert all(path.stat().st_size > 3000 for path in drawn)


PICTURE = """
name: one
scenarios: ["grid-4x4-2p,time_limit=10"]
methods: [hit]
until: walk
set: {walk: {transitions: 2000, num_envs: 10}}
figures:
  where: {kind: walk}
"""


def test_figure_of_a_run_is_drawn_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.yaml").write_text(PICTURE)
    main(["campaign", "one.yaml"])
    picture = tmp_path / "results/one/where.png"
    assert picture.stat().st_size > 5000
    (run,) = (tmp_path / "runs/one").glob("*/hit/seeds-0-0")
    with open_run(run, {}) as opened:
        assert list(opened.manifest) == ["walk"]
    before = picture.stat().st_mtime_ns
    run.rename(tmp_path / "elsewhere")
    main(["campaign", "one.yaml"])
    assert picture.stat().st_mtime_ns == before
    assert not run.exists()


def test_a_signal_during_a_figure_is_no_failure(tmp_path, monkeypatch, capsys):
    """Some figures run discovery first. A signal during that is no failure, and no other figure is drawn."""
    drawn = []

    def draw(self, *arguments):
        drawn.append(self.name)
        raise Interrupted("options: stopped at step 62 of 3125; run the same command to go on")

    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.yaml").write_text(PICTURE + "  again: {kind: walk}\n")
    block = Block(Row("grid-4x4-2p,time_limit=10", "hit", until="walk"), 0, 1)
    monkeypatch.setattr(FromRun, "wanted_rows", lambda self, places: ())
    monkeypatch.setattr(FromRun, "draw", draw)
    with pytest.raises(SystemExit) as stopped:
        main(["campaign", "one.yaml"])
    assert stopped.value.code == 130
    assert "failed" not in capsys.readouterr().err
    assert drawn == ["where"]
    assert not (tmp_path / "runs/one" / block.place).exists()
