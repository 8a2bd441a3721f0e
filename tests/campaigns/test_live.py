"""The live status of a campaign, as a table and as lines."""

import io
import json

import pytest
from rich.console import Console

from cooptions.campaigns.jobs import Job
from cooptions.campaigns.live import Watch, report_path, reporting
from cooptions.campaigns.rows import Block, Row
from cooptions.campaigns.work import discover_blocks, learn_blocks
from cooptions.training.progress import Progress

IQL, VDN, HIT = (Row("grid-4x4-2p", method) for method in ("iql", "vdn", "iql+hit"))
ROWS = {row: tuple(Block(row, first, 5) for first in (0, 5)) for row in (IQL, VDN, HIT)}
MISSING = (*ROWS[IQL], *ROWS[HIT])


@pytest.fixture
def watch(tmp_path):
    return Watch(ROWS, MISSING, Console(file=io.StringIO(), width=120), tmp_path, is_live=True)


def _table(watch):
    columns = [list(column.cells) for column in watch.table().columns]
    return {cells[1].plain: [each.plain for each in cells[2:]] for cells in zip(*columns, strict=True)}


def _report(watch, name, done, seconds_left=30.0):
    path = report_path(watch.logs / f"{name}.log")
    path.write_text(json.dumps({"stage": "learning", "done": done, "of": 100, "seconds_left": seconds_left}))


def test_rows_wait_learn_end_and_fail(watch):
    assert _table(watch) == {"iql": ["0 of 10", "waiting", ""], "iql+hit": ["0 of 10", "waiting", ""]}
    learn, found = Job("learn.x", learn_blocks, ROWS[IQL]), Job("discover.y", discover_blocks, ROWS[HIT][:1])
    watch.begun(learn)
    watch.begun(found)
    assert _table(watch)["iql"] == ["0 of 10", "starting 0%", ""]
    _report(watch, "learn.x", 40)
    assert _table(watch)["iql"] == ["0 of 10", "learning 40%", "0 min 30 s"]
    watch.ended(learn, "done", 1.0)
    watch.ended(found, "failed", 1.0)
    assert _table(watch) == {"iql": ["10 of 10", "done", ""], "iql+hit": ["0 of 10", "failed", ""]}
    assert watch.table().caption.startswith("2 of 4 blocks made, 1 failed in 0 min")


def test_time_left_follows_from_the_elapsed_time(watch):
    job = Job("learn.x", learn_blocks, (*ROWS[IQL], *ROWS[HIT]))
    watch.begun(job)
    _report(watch, "learn.x", 50)
    watch.begun_at -= 60
    assert watch.table().caption == "0 of 4 blocks made in 1 min 00 s; about 1 min 00 s left"


def test_a_discovery_that_is_done_makes_no_block(watch):
    found = Job("discover.y", discover_blocks, ROWS[HIT][:1])
    watch.begun(found)
    watch.ended(found, "done", 1.0)
    assert _table(watch)["iql+hit"] == ["0 of 10", "waiting", ""]


def test_without_a_terminal_jobs_are_printed(tmp_path):
    shown = io.StringIO()
    watch = Watch(ROWS, MISSING, Console(file=shown), tmp_path)
    with watch:
        watch.begun(Job("learn.x", learn_blocks, ROWS[IQL]))
        watch.ended(Job("learn.x", learn_blocks, ROWS[IQL]), "done", 2.4)
    assert shown.getvalue() == "begun: learn.x\ndone: learn.x, 2 s\n"


def test_the_table_is_drawn_on_a_terminal(tmp_path):
    shown = io.StringIO()
    watch = Watch(ROWS, MISSING, Console(file=shown, force_terminal=True, width=100), tmp_path, is_live=True)
    with watch:
        watch.refresh()
    assert "iql+hit" in shown.getvalue()
    assert "0 of 4 blocks made" in shown.getvalue()


def test_workers_report_through_a_file(tmp_path):
    log = tmp_path / "job.log"
    with reporting(Progress.silent(), log).stage("learning", 10, 2) as show:
        assert json.loads(report_path(log).read_text())["done"] == 2
        show.advance(8, {})
    assert json.loads(report_path(log).read_text()) | {"seconds_left": 0} == {
        "stage": "learning",
        "done": 10,
        "of": 10,
        "seconds_left": 0,
    }
