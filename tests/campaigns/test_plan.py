"""The plan: missing blocks, and blocks that share a program."""

from dataclasses import replace

import numpy as np
import pytest

from cooptions.campaigns.jobs import jobs
from cooptions.campaigns.plan import Places, make_plan
from cooptions.campaigns.results import Result, result_path, write_result
from cooptions.campaigns.rows import Block, Row, Seeding
from cooptions.campaigns.work import discover_blocks, learn_blocks
from cooptions.errors import ArtifactError, ConfigError
from cooptions.runs.directory import open_run

GRID = "grid-5x5-2p"
IQL, VDN, HIT, MASK, SIX, WALK = (
    Row(GRID, "iql"),
    Row(GRID, "vdn"),
    Row(GRID, "iql+hit"),
    Row(GRID, "iql+mask"),
    Row(GRID, "iql+hit", 6),
    Row(GRID, "hit", until="walk"),
)
OTHER = Row(GRID, "iql", overrides=(("learning.learner.target_interval", 100),), variant="other")


@pytest.fixture
def places(tmp_path):
    return Places(tmp_path / "runs", tmp_path / "results")


def _plan(wanted, places, block=5, **options):
    return make_plan({row: Seeding(range(num), block) for row, num in wanted.items()}, places, **options)


def _store(places, row, seeds, fraction=1.0, **settings):
    """Write scores as an earlier session would."""
    block = Block(row, 0, 5, fraction)
    for metric in ("percent_eaten", "return"):
        result = Result(
            row.place, row.method, row.num_options, fraction, metric, block.settings | settings,
            steps=np.array([1]), seeds=tuple(seeds), means=np.zeros((len(seeds), 1)), last=np.zeros((len(seeds), 2)),
            blocks=(), variant=row.variant,
        )  # fmt: skip
        write_result(result_path(places.results, row, fraction, metric), result)


def _grouped(plan):
    return [[(block.row, block.first) for block in group.blocks] for group in plan.groups]


def test_methods_that_share_a_program_learn_together_and_others_do_not(places):
    plan = _plan({IQL: 10, VDN: 5, OTHER: 5, HIT: 5, MASK: 5, SIX: 5}, places)
    assert _grouped(plan) == [
        [(IQL, 0), (IQL, 5)],
        [(VDN, 0)],
        [(OTHER, 0)],
        [(HIT, 0), (MASK, 0)],
        [(SIX, 0)],
    ]


def test_options_of_pairs_and_of_the_whole_team_are_different_programs(places):
    team = Row("grid-5x5-3p", "iql+hit")
    pairs = replace(team, variant="pairs", overrides=(("members", 2),))
    assert _grouped(_plan({team: 5, pairs: 5}, places)) == [[(team, 0)], [(pairs, 0)]]


def test_the_number_of_discoveries_does_not_change_the_program(places):
    plan = make_plan({HIT: Seeding(range(5), 5, 1), MASK: Seeding(range(5), 5, 2)}, places)
    assert len(plan.groups) == 1


def test_groups_have_a_maximum_size_and_first_seeds_come_first(places):
    plan = _plan({HIT: 10, MASK: 10}, places, members=12)
    assert _grouped(plan) == [[(HIT, 0), (MASK, 0)], [(HIT, 5), (MASK, 5)]]
    with pytest.raises(ConfigError, match="members must hold a block of 5 seeds"):
        _plan({HIT: 10}, places, members=4)


def test_seeds_among_the_results_are_not_run_again(places):
    _store(places, IQL, range(5))
    _store(places, VDN, range(4))
    _store(places, HIT, range(5), fraction=0.5)
    plan = _plan({IQL: 10, VDN: 5, HIT: 5, OTHER: 5}, places)
    assert _grouped(plan) == [[(IQL, 5)], [(VDN, 0)], [(HIT, 0)], [(OTHER, 0)]]
    assert _plan({HIT: 5}, places, fraction=0.5).missing == ()


def test_results_with_other_settings_are_refused_and_the_field_is_named(places):
    _store(places, IQL, range(5), scenario="grid-6x6-2p")
    with pytest.raises(ArtifactError, match="percent_eaten.json.*scenario is 'grid-6x6-2p' there, 'grid-5x5-2p'"):
        _plan({IQL: 10}, places)


def test_results_of_fewer_discoveries_count(places):
    _store(places, HIT, range(5))  # one discovery
    plan = make_plan({HIT: Seeding(range(10), 5, 2)}, places)
    assert _grouped(plan) == [[(HIT, 5)]]


def test_discoveries_are_made_once_and_learning_waits_for_its_own(places):
    plan = _plan({IQL: 1, HIT: 2, MASK: 1, SIX: 1, WALK: 1}, places, block=1)
    todo = {job.name: job for job in jobs(plan, places.runs)}
    hit, second, mask = (
        f"discover.{GRID}.{place}" for place in ("iql+hit.seeds-0-0", "iql+hit.seeds-1-1", "iql+mask.seeds-0-0")
    )
    assert {name for name in todo if name.startswith("discover")} == {hit, second, mask}
    needs = {job.blocks: job.after for job in todo.values() if job.work is learn_blocks}
    assert needs == {
        (Block(IQL, 0, 1),): set(),
        (Block(HIT, 0, 1), Block(MASK, 0, 1), Block(HIT, 1, 1)): {hit, second, mask},
        (Block(SIX, 0, 1),): {hit},
    }
    alone = todo[f"make.{GRID}.hit.seeds-0-0"]
    assert (alone.work, alone.blocks, alone.after) == (discover_blocks, (Block(WALK, 0, 1),), set())
    order = list(todo)
    assert all(order.index(need) < order.index(job.name) for job in todo.values() for need in job.after)


def test_finished_discoveries_are_not_run_again(places):
    block = Block(HIT, 0, 1)
    plan = _plan({HIT: 1}, places, block=1)
    made = [stage for stage in block.stages if stage != "learning"]
    with open_run(places.runs / block.place, block.stages) as run:
        for stage in made[:-1]:
            run.save(stage, {}, seconds=0.0)
        assert [job.work for job in jobs(plan, places.runs)] == [discover_blocks, learn_blocks]
        run.save(made[-1], {}, seconds=0.0)
    assert [(job.work, job.after) for job in jobs(plan, places.runs)] == [(learn_blocks, frozenset())]


def test_equal_blocks_are_equal_however_they_discover():
    assert Block(HIT, 0, 5, discoveries=1) == Block(HIT, 0, 5, discoveries=2)
    assert replace(HIT, variant="x") != HIT
