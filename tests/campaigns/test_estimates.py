"""Estimates come only from measurements."""

import io

import pytest
from rich.console import Console

from cooptions.campaigns import estimates
from cooptions.campaigns.estimates import Speeds, memories, plan_summary, plan_table, spans, speed_name
from cooptions.campaigns.groups import Group
from cooptions.campaigns.plan import Places, make_plan
from cooptions.campaigns.rows import Block, Row, Seeding

GRID = "grid-5x5-2p"
IQL, HIT, PPO = Row(GRID, "iql"), Row(GRID, "iql+hit"), Row(GRID, "ippo")
SPEEDS = Speeds({("grid", "ours"): 2.0}, {("grid", "ours"): 0.5})


@pytest.fixture
def plan(tmp_path):
    return make_plan(
        {IQL: Seeding(range(10)), PPO: Seeding(range(5)), HIT: Seeding(range(5))}, Places(tmp_path, tmp_path)
    )


def test_minutes_and_memory_are_measured_or_unknown(plan, monkeypatch):
    monkeypatch.setattr(estimates, "state_bytes", lambda config: 10**9)
    updates = plan.blocks[0].config.learning.learner.num_updates
    table = plan_table(plan, SPEEDS)
    cells = {str(column.header): list(column.cells)[1:] for column in table.columns}  # below the scenario's name
    assert cells["minutes"] == [f"{updates * 10 * 2e-3 / 60:.3g}", "?", "?"]
    assert cells["missing"] == ["0-9", "0-4", "0-4"]
    assert cells["GB"] == ["5", ">5", ">5"]
    assert "the 2 of 4 blocks whose speed was measured" in plan_summary(plan, SPEEDS)


def test_estimates_of_memory_take_no_longer_than_a_second(plan, monkeypatch):
    monkeypatch.setattr(estimates, "ESTIMATE_SECONDS", 0.0)
    assert memories(plan.groups, SPEEDS) == ["5", "?", "?"]


def test_memory_counts_every_seed():
    one, three = (Group(tuple(Block(IQL, seed, 1) for seed in range(num))) for num in (1, 3))
    small, large = (float(memories([group], Speeds())[0][1:]) for group in (one, three))
    assert large == pytest.approx(3 * small, rel=0.1)


@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("iql", "ours"),
        ("vdn", "ours"),
        ("iql+hit", "ours+options"),
        ("iql+wander", "ours+given-options"),
        ("ippo", "ippo"),
        ("mappo+hit", "mappo+options"),
    ],
)
def test_learners_have_a_name_in_speed_files(method, name):
    assert speed_name(Block(Row(GRID, method), 0, 1).config.learning) == name


def test_options_with_values_have_a_speed_of_their_own():
    row = Row(GRID, "iql+hit", overrides=(("learning.learner.choice.valued", True),))
    assert speed_name(row.config.learning) == "ours+valued-options"


def test_speeds_are_read_from_the_benchmark(tmp_path):
    rows = '{"scenario": "lbf", "name": "ours", "ms_per_update": 12.0, "gigabytes": 2.0}'
    (tmp_path / "learning_speed.json").write_text(f'{{"seeds": 4, "rows": [{rows}]}}')
    (tmp_path / "executors-cpu.json").write_text('{"rows": [{"name": "inline"}]}')
    speeds = Speeds.read(tmp_path)
    assert (speeds.milliseconds, speeds.gigabytes) == ({("lbf", "ours"): 3.0}, {("lbf", "ours"): 0.5})
    assert Speeds.read(tmp_path / "nowhere") == Speeds()


def test_a_plan_fits_into_eighty_columns(plan):
    shown = io.StringIO()
    Console(width=80, file=shown).print(plan_table(plan, SPEEDS))
    assert "\n  iql+hit " in shown.getvalue()
    assert "…" not in shown.getvalue()


def test_seeds_are_shown_as_ranges():
    assert spans([Block(IQL, first, 2) for first in (6, 0, 2)]) == "0-3, 6-7"
