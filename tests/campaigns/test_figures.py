"""Figures of the reproduction: which rows they want, and what they draw."""

from dataclasses import replace

import pytest
from made_up import result

from cooptions.campaigns import figures
from cooptions.campaigns.figures import (
    FORAGING,
    KITCHENS,
    LINEUPS,
    PAPER,
    REPRODUCTIONS,
    STYLES,
    SUMMED,
    RunFigure,
    plot_all,
    plot_counts,
    plot_two_panels,
)
from cooptions.campaigns.plan import Places
from cooptions.campaigns.results import result_path, write_result
from cooptions.campaigns.rows import Block, Row
from cooptions.cli.main import main
from cooptions.errors import Interrupted
from cooptions.runs.directory import open_run

FEW = [1.0, 2.0, 3.0]


def _titles(canvas):
    return [ax.get_title() for ax in canvas.axes]


def _legend(canvas):
    return [text.get_text() for text in canvas.legends[0].get_texts()]


def test_two_panels_compare_with_no_options_and_with_others():
    methods = ("iql", "mappo", "iql+iaro", "iql+kron", "iql-ns")
    canvas = plot_two_panels(PAPER, [result(method, FEW) for method in methods])
    assert canvas.get_suptitle() == "lbf-15x15-4p-3f"
    assert _titles(canvas) == ["against no options", "against other options"]
    assert [len(ax.get_lines()) for ax in canvas.axes] == [3, 2]
    assert _legend(canvas) == ["iql", "mappo", "iql+iaro", "iql+kron"]


def test_one_panel_is_enough_where_no_other_options_compete():
    canvas = plot_two_panels(SUMMED, [result(method, FEW) for method in ("iql", "vdn+iaro", "vdn+hit")])
    assert _titles(canvas) == ["against no options"]
    assert _legend(canvas) == ["iql", "vdn+iaro", "vdn+hit"]


@pytest.mark.parametrize("lineup", LINEUPS.values(), ids=LINEUPS)
def test_methods_of_a_line_up_can_be_told_apart(lineup):
    assert len({tuple(STYLES[method].values()) for method in lineup.methods}) == len(lineup.methods)


def test_a_panel_for_each_scenario():
    canvas = plot_all([result("iql", FEW), result("iql", FEW, scenario="overcooked-forced_coord")])
    assert _titles(canvas) == ["lbf-15x15-4p-3f", "overcooked-forced_coord"]


def test_bars_count_options():
    counted = [result("iql", FEW), result("iql+hit", FEW), result("iql+hit", FEW, num_options=2)]
    labels = [label.get_text() for label in plot_counts(counted).axes[0].get_xticklabels()]
    assert labels == ["0", "2", "20"]


def test_score_figure_shows_its_own_rows_at_its_share_of_training(tmp_path):
    shown = result("iql", FEW)
    others = [
        result("iql", FEW, metric="return"), result("iql", FEW, fraction=0.5),
        result("iql+mask", FEW), result("iql", FEW, scenario="lbf-15x15-4p-5f"),
    ]  # fmt: skip
    for each in (shown, *others):
        row = Row(each.scenario, each.method)
        write_result(result_path(tmp_path, row, each.fraction, each.metric), each)

    def found(name, fraction=1.0):
        results = REPRODUCTIONS[name].results(tmp_path, fraction)
        return [(each.scenario, each.metric, each.fraction) for each in results]

    assert found("curves-lbf-15x15-4p-3f") == [("lbf-15x15-4p-3f", "percent_eaten", 1.0)]
    assert found("curves-lbf-15x15-4p-3f", 0.5) == [("lbf-15x15-4p-3f", "percent_eaten", 0.5)]
    assert found("returns") == [("lbf-15x15-4p-3f", "return", 1.0)]
    assert found("curves-overcooked-counter_circuit") == []
    places = Places(tmp_path, tmp_path)
    assert REPRODUCTIONS["curves-overcooked-counter_circuit"].draw("x", places, 1.0) == []
    drawn = REPRODUCTIONS["curves-lbf-15x15-4p-3f"].draw("x", places, 0.5)
    assert [path.name for path in drawn] == ["x-fraction-0.5.png"]
    assert drawn[0].stat().st_size > 5000


def test_every_figure_of_the_paper_is_there():
    assert {name for name, figure in REPRODUCTIONS.items() if isinstance(figure, RunFigure)} == {
        "walk", "relations", "options", "representations", "eigenvectors-line", "eigenvectors-centre",
        "eigenvectors-corner", "n-distance", "ceo", "heterogeneous",
    }  # fmt: skip
    for scenario in (*FORAGING, *KITCHENS):
        kinds = ("curves", "curves-ns", "curves-vdn", "curves-ippo")
        shared, apart, summed, by_ppo = (REPRODUCTIONS[f"{kind}-{scenario}"].rows for kind in kinds)
        assert {row.scenario for row in (*shared, *apart, *summed, *by_ppo)} == {scenario}
        assert not any(row.method.split("+")[0] in ("iql", "vdn") for row in apart)
        assert {row.method for row in summed} - {row.method for row in shared} == {"vdn+iaro", "vdn+hit"}
        assert {row.method for row in by_ppo} - {row.method for row in shared} == {"ippo+iaro", "ippo+hit"}
    for scenario in KITCHENS:
        shared, normalised = (REPRODUCTIONS[f"{kind}-{scenario}"].rows for kind in ("curves", "curves-ln"))
        assert [replace(row, method=row.method.replace("-ln", "")) for row in normalised] == list(shared)
    assert REPRODUCTIONS["option-counts-iql+iaro"].num_seeds(None) == 15
    assert REPRODUCTIONS["returns"].num_seeds(None) == 10
    assert REPRODUCTIONS["returns"].num_seeds(3) == 3
    assert REPRODUCTIONS["ceo"].num_seeds(3) == 1


@pytest.mark.usefixtures("tiny")
def test_figure_of_a_run_is_drawn_once(tmp_path, monkeypatch):
    row = Row("tiny", "hit", until="walk")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(figures.REPRODUCTIONS, "walk", RunFigure("a walk", (row,), ("walk",)))
    main(["reproduce", "--figure", "walk"])
    picture = tmp_path / "results/reproduction/walk.png"
    assert picture.stat().st_size > 5000
    with open_run(tmp_path / "runs/reproduction" / Block(row, 0, 1).place, {}) as run:
        assert list(run.manifest) == ["walk"]
    before = picture.stat().st_mtime_ns
    main(["reproduce", "--figure", "walk"])
    assert picture.stat().st_mtime_ns == before
    assert figures.REPRODUCTIONS["walk"].wants("walk", Places(tmp_path, tmp_path / "results/reproduction")) == ()


def test_a_stop_while_a_figure_is_made_is_a_stop(tmp_path, monkeypatch, capsys):
    """Some figures learn what they show. Nothing is drawn after that, nor called a failure."""
    drawn = []

    def draw(self, name, places, fraction):
        drawn.append(name)
        raise Interrupted("options: stopped at step 62 of 3125; run the same command to go on")

    monkeypatch.chdir(tmp_path)
    for name in ("ceo", "walk"):
        monkeypatch.setitem(figures.REPRODUCTIONS, name, RunFigure(name, (), (name,)))
    monkeypatch.setattr(RunFigure, "draw", draw)
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", "--figure", "ceo", "walk"])
    assert stopped.value.code == 130
    assert "failed" not in capsys.readouterr().err
    assert drawn == ["ceo"]
