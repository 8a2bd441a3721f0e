"""The plan: what is missing, and what learns in one program."""

import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from cooptions.campaigns import estimates
from cooptions.campaigns.estimates import Speeds, group_bytes, plan_summary, plan_table
from cooptions.campaigns.figures import PAPER, REPRODUCTIONS
from cooptions.campaigns.plan import Places, make_plan
from cooptions.campaigns.results import Result, result_path, write_result
from cooptions.campaigns.rows import Block, Row
from cooptions.errors import ArtifactError, ConfigError
from cooptions.training.progress import Progress

GRID = "grid-5x5-2p"
IQL, VDN, HIT, MASK, SIX = (
    Row(GRID, "iql"),
    Row(GRID, "vdn"),
    Row(GRID, "iql+hit"),
    Row(GRID, "iql+mask"),
    Row(GRID, "iql+hit", 6),
)
SPEEDS = Speeds({("grid", "ours"): 2.0, ("grid", "jaxmarl"): 6.0})


@pytest.fixture
def places(tmp_path):
    return Places(tmp_path / "runs", tmp_path / "results")


def _store(places, row, seeds, fraction=1.0, **settings):
    """Scores as another session would have left them."""
    block = Block(row, 0, 5, fraction)
    for metric in ("percent_eaten", "return"):
        result = Result(
            row.place, row.method, row.num_options, fraction, metric, block.settings | settings,
            steps=np.array([1]), seeds=tuple(seeds), means=np.zeros((len(seeds), 1)), last=np.zeros((len(seeds), 2)),
            blocks=(),
        )  # fmt: skip
        write_result(result_path(places.results, row, fraction, metric), result)


def _grouped(plan):
    return [[(block.row, block.first) for block in group.blocks] for group in plan.groups]


def test_methods_that_share_a_program_learn_together_and_others_do_not(places):
    plan = make_plan({IQL: 10, VDN: 5, HIT: 5, MASK: 5, SIX: 5}, places)
    assert _grouped(plan) == [
        [(IQL, 0), (IQL, 5)],
        [(VDN, 0)],
        [(HIT, 0), (MASK, 0)],
        [(SIX, 0)],
    ]


def test_all_option_methods_of_a_scenario_of_the_paper_are_one_program(places):
    plan = make_plan(dict.fromkeys(PAPER.rows_in("lbf-15x15-4p-3f"), 10), places)
    assert [len({block.row for block in group.blocks}) for group in plan.groups] == [1, 1, 1, 1, 5]
    assert plan.groups[-1].num_seeds == 50


def test_groups_hold_at_most_so_many_seeds_and_first_seeds_come_first(places):
    plan = make_plan({HIT: 10, MASK: 10}, places, members=12)
    assert _grouped(plan) == [[(HIT, 0), (MASK, 0)], [(HIT, 5), (MASK, 5)]]
    with pytest.raises(ConfigError, match="members must hold a block of 5 seeds"):
        make_plan({HIT: 10}, places, members=4)


def test_seeds_among_the_results_are_not_made_again(places):
    _store(places, IQL, range(5))
    _store(places, VDN, range(4))
    _store(places, HIT, range(5), fraction=0.5)
    plan = make_plan({IQL: 10, VDN: 5, HIT: 5}, places)
    assert _grouped(plan) == [[(IQL, 5)], [(VDN, 0)], [(HIT, 0)]]
    assert make_plan({HIT: 5}, places, fraction=0.5).missing == ()


def test_results_of_other_settings_are_refused_with_the_field(places):
    _store(places, IQL, range(5), scenario="grid-6x6-2p")
    with pytest.raises(ArtifactError, match="percent_eaten.json.*scenario is 'grid-6x6-2p' there, 'grid-5x5-2p'"):
        make_plan({IQL: 10}, places)


def test_minutes_are_those_of_measured_speeds_and_unknown_otherwise(places, monkeypatch):
    monkeypatch.setattr(estimates, "group_bytes", lambda group: group.num_seeds * 10**9)
    plan = make_plan({IQL: 10, Row(GRID, "ippo"): 5, HIT: 5}, places)
    updates = plan.blocks[0].config.learning.learner.num_updates
    table = plan_table(plan, SPEEDS, Progress.silent())
    cells = {str(column.header): list(column.cells)[1:] for column in table.columns}  # below the scenario's name
    assert cells["minutes"] == [f"{updates * 10 * 2e-3 / 60:.3g}", "?", "?"]
    assert cells["missing"] == ["0-9", "0-4", "0-4"]
    assert cells["GB"] == ["10", "5", "5"]
    told = plan_summary(plan, SPEEDS)
    assert f"without options: {updates * 10 * 6e-3 / 60:.3g} minutes, where ours take" in told
    assert "the 2 of 4 blocks whose speed was measured" in told
    _store(places, IQL, range(10))
    done = plan_table(make_plan({IQL: 10}, places), SPEEDS, Progress.silent())
    assert [list(column.cells)[-1] for column in done.columns][2:5] == ["0-9", "", ""]


def test_every_plan_fits_into_eighty_columns(places, monkeypatch):
    monkeypatch.setattr(estimates, "group_bytes", lambda group: 10**10)
    rows = {row for figure in REPRODUCTIONS.values() for row in figure.rows}
    table, shown = plan_table(make_plan(dict.fromkeys(rows, 15), places), SPEEDS, Progress.silent()), io.StringIO()
    Console(width=80, file=shown).print(table)
    assert "\n  iql-ns+iaro-scalar " in shown.getvalue()
    assert "…" not in shown.getvalue()


@pytest.mark.parametrize(
    ("method", "timed"),
    [("iql", "ours"), ("iql+hit", "ours+options"), ("iql+wander", None), ("ippo", "ippo"), ("mappo", None)],
)
def test_what_was_not_timed_is_not_guessed(method, timed):
    timings = {"ours": 1.0, "ours+options": 2.0, "ippo": 4.0, "jaxmarl": 3.0}
    speeds = Speeds({("grid", name): each for name, each in timings.items()})
    block = Block(Row(GRID, method), 0, 5)
    assert (speeds.jaxmarl(block) is None) == ("ppo" in method)
    seconds = speeds.ours(block)
    updates = block.config.learning.learner.num_updates
    assert seconds == (timed and pytest.approx(speeds.milliseconds["grid", timed] * updates * 5 / 1e3))


@pytest.mark.slow
@pytest.mark.usefixtures("tiny")
def test_memory_counts_every_seed_and_the_options(places):
    plain, options = (make_plan({Row("tiny", method): 1}, places).groups[0] for method in ("iql", "iql+hit"))
    many = make_plan({Row("tiny", "iql"): 3}, places).groups[0]
    assert group_bytes(many) > 2.5 * group_bytes(plain)
    assert group_bytes(options) > 2 * group_bytes(plain)


def test_speeds_are_read_from_the_benchmark(tmp_path):
    rows = '{"scenario": "lbf", "name": "ours", "ms_per_update": 12.0}'
    (tmp_path / "speed.json").write_text(f'{{"seeds": 4, "rows": [{rows}]}}')
    assert Speeds.read(tmp_path).milliseconds == {("lbf", "ours"): 3.0}
    assert Speeds.read(Path("nowhere")).milliseconds == {}
