"""Several processes: who waits for whom, what failed, and how they are stopped. Each takes seconds to begin."""

import io
import os
import signal

import pytest
import works
from rich.console import Console

from cooptions.campaigns import command
from cooptions.campaigns.beside import Job, discover_blocks, jobs, learn_blocks, run_jobs
from cooptions.campaigns.plan import Places, make_plan
from cooptions.campaigns.results import has_scores
from cooptions.campaigns.rows import Block, Row
from cooptions.cli.main import main
from cooptions.errors import Interrupted
from cooptions.runs.directory import RunDirectory, open_run, provenance

pytestmark = pytest.mark.usefixtures("tiny")
IQL, HIT, KRON, WALK = (
    Row("tiny", "iql"),
    Row("tiny", "iql+hit"),
    Row("tiny", "iql+kron"),
    Row("tiny", "hit", until="walk"),
)


def _blocks(*rows):
    return tuple(Block(row, 0, 1) for row in rows)


def _run(todo, tmp_path, num=2):
    made = []
    told = io.StringIO()
    failures = run_jobs(todo, tmp_path, Console(width=200, file=told), made.extend, num)
    return failures, made, told.getvalue()


def test_discoveries_are_made_once_and_learning_waits_for_its_own(tmp_path):
    fewer = Row("tiny", "iql+hit", num_options=1)
    plan = make_plan({IQL: 1, HIT: 2, KRON: 1, fewer: 1, WALK: 1}, Places(tmp_path, tmp_path), size=1)
    todo = {job.name: job for job in jobs(plan, tmp_path)}
    places = {"hit": "tiny.iql+hit.seeds-0-0", "second": "tiny.iql+hit.seeds-1-1", "kron": "tiny.iql+kron.seeds-0-0"}
    discoveries = {name: f"discover.{place}" for name, place in places.items()}
    assert {name for name in todo if name.startswith("discover")} == set(discoveries.values())
    needs = {job.blocks: job.after for job in todo.values() if job.work is learn_blocks}
    assert needs == {
        (Block(IQL, 0, 1),): set(),
        (Block(HIT, 0, 1), Block(KRON, 0, 1), Block(HIT, 1, 1)): set(discoveries.values()),
        (Block(fewer, 0, 1),): {discoveries["hit"]},
    }
    alone = todo["make.tiny.hit.seeds-0-0"]
    assert (alone.work, alone.blocks, alone.after) == (discover_blocks, _blocks(WALK), set())
    assert list(todo).index(discoveries["kron"]) < list(todo).index("learn.tiny.iql.seeds-0-0")


def test_what_was_discovered_is_not_again(tmp_path):
    block = Block(HIT, 0, 1)
    plan = make_plan({HIT: 1}, Places(tmp_path, tmp_path), size=1)
    made = [stage for stage in block.stages if stage != "learning"]
    with open_run(tmp_path / block.place, block.stages) as run:
        for stage in made[:-1]:
            run.save(stage, {}, seconds=0.0)
        assert [job.work for job in jobs(plan, tmp_path)] == [discover_blocks, learn_blocks]
        run.save(made[-1], {}, seconds=0.0)
    assert [(job.work, job.after) for job in jobs(plan, tmp_path)] == [(learn_blocks, frozenset())]


def test_who_waits_what_fails_and_what_is_told(tmp_path):
    todo = [
        Job("learn", works.leaves_its_name, _blocks(HIT, IQL, KRON), frozenset(["discover"])),
        Job("nothing", works.leaves_its_name, _blocks(HIT), frozenset(["discover"])),
        Job("last", works.leaves_its_name, _blocks(HIT), frozenset(["nothing"])),
        Job("discover", works.fails_for_the_first, _blocks(HIT)),
        Job("dies", works.dies, _blocks(WALK)),
    ]
    failures, made, told = _run(todo, tmp_path)
    reason = failures.pop(Block(WALK, 0, 1))
    assert "exit code 3" in reason
    assert "dies.log" in reason
    assert failures == {Block(HIT, 0, 1): "no such luck"}
    assert made == [*_blocks(IQL, KRON)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["iql", "iql+kron", "logs"]
    assert (tmp_path / "logs/learn.log").read_text() == "made 2, in a session of its own\n"
    assert told.index("failed: discover") < told.index("begun: learn") < told.index("done: learn")
    assert "failed: dies" in told
    assert {path.name for path in (tmp_path / "logs").iterdir()} == {"learn.log", "discover.log", "dies.log"}


def test_a_stop_is_passed_on_and_nothing_else_begins(tmp_path):
    todo = [
        Job("soon", works.stops_everything, _blocks(HIT)),
        Job("late", works.stops_late, _blocks(KRON)),
        Job("never", works.leaves_its_name, _blocks(IQL)),
    ]
    told, handler = io.StringIO(), signal.getsignal(signal.SIGINT)
    with pytest.raises(Interrupted, match="run the same command to go on"):
        run_jobs(todo, tmp_path, Console(width=200, file=told), lambda blocks: None, 2)
    assert told.getvalue().index("stopped: soon, ") < told.getvalue().index("stopped: late, ")
    assert (tmp_path / "logs/soon.log").read_text() == "stopped: learning: stopped at step 1 of 2\n"
    assert (tmp_path / "logs/late.log").read_text() == "stopped: learning: stopped at step 2 of 2\n"
    assert "begun: never" not in told.getvalue()
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.parametrize(("beside", "called"), [(1, ["in turn"]), (3, [3])])
def test_the_command_asks_for_as_many(beside, called, tmp_path, monkeypatch):
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "kept")
    calls = []
    monkeypatch.setattr(command, "execute", lambda *arguments: calls.append("in turn") or {})
    monkeypatch.setattr(command, "execute_beside", lambda *arguments: calls.append(arguments[-1]) or {})
    monkeypatch.setattr(command, "plan_table", lambda *arguments: "")
    monkeypatch.chdir(tmp_path)
    main(["reproduce", "--figure", "plain", "--beside", str(beside)])
    assert calls == called
    assert os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] == "kept"  # who set it knows why


def test_none_at_once_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["reproduce", "--figure", "plain", "--beside", "0"])
    assert "beside must be at least 1, not 0" in capsys.readouterr().err


def test_a_process_learns(tmp_path):
    failures, made, _ = _run([Job("learn", works.learns_next_to_nothing, _blocks(IQL))], tmp_path)
    assert failures == {}
    assert made == [*_blocks(IQL)]
    assert has_scores(Block(IQL, 0, 1), tmp_path)
    made_by = RunDirectory(tmp_path / Block(IQL, 0, 1).place).manifest["learning"]["made_by"]
    assert made_by["command"] == provenance()["command"]  # what was typed, not what spawned the process
