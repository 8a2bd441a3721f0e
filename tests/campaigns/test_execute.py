"""Making what is missing, with discovery and learning that take no time; and once with both for real."""

import contextlib
import json
import shlex
import shutil

import jax
import numpy as np
import pytest
from made_up import keys_to_numbers

from cooptions.campaigns import estimates
from cooptions.campaigns.estimates import like_task_env
from cooptions.campaigns.results import read_result, result_path
from cooptions.campaigns.rows import Block, Row
from cooptions.cli import pipeline
from cooptions.cli.main import main
from cooptions.errors import Interrupted
from cooptions.runs.directory import RunDirectory, open_run
from cooptions.runs.stages import learning_stage, task_env
from cooptions.scores.statistics import load_scores
from cooptions.training.progress import Progress

pytestmark = pytest.mark.usefixtures("tiny")
IQL, HIT, KRON = Row("tiny", "iql"), Row("tiny", "iql+hit"), Row("tiny", "iql+kron")


@pytest.fixture
def reproduce(tmp_path, monkeypatch):
    """The command, in an empty folder; what it printed."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, code=0):
        with pytest.raises(SystemExit) if code else contextlib.nullcontext() as stopped:
            main(["reproduce", "--figure", "plain", "with-options", "--block", "1", *arguments])
        assert code == 0 or stopped.value.code == code

    return run


def _run(tmp_path, row, seed=0):
    return RunDirectory(tmp_path / "runs/reproduction" / Block(row, seed, 1).place)


def _number(row, seed):
    return keys_to_numbers(Block(row, seed, 1).config.keys("learning"))[0]


def test_every_block_gets_its_own_part_of_what_its_group_learned(fake, reproduce, tmp_path):
    reproduce()
    assert [len(call) for call in fake.calls] == [2, 2]
    for row, seed in ((IQL, 0), (IQL, 1), (HIT, 0), (KRON, 0)):
        run, number = _run(tmp_path, row, seed), _number(row, seed)
        arrays = run.load("learning")
        np.testing.assert_array_equal(arrays["0.w"], [number])
        scores = load_scores(run.file("scores", "return.safetensors"))
        assert (scores.name, scores.values.shape) == (row.method, (1, 2, 3))
        assert (scores.values == number).all()
        assert json.loads(run.file("metrics", "learning.jsonl").read_text()) == {"step": 1, "mark": [number]}
        note = json.loads(run.file("group.json").read_text())
        assert (note["members"], len(note["group"]["blocks"])) == (2, 2)
    stored = read_result(result_path(tmp_path / "results/reproduction", IQL, 1.0, "return"))
    assert stored.seeds == (0, 1)
    np.testing.assert_allclose(stored.means[:, -1], [_number(IQL, 0), _number(IQL, 1)], rtol=1e-3)
    assert {path.name for path in (tmp_path / "results/reproduction").glob("*.png")} == {
        "plain.png",
        "with-options.png",
    }


def test_nothing_is_made_twice_even_without_its_run_directory(fake, reproduce, tmp_path):
    reproduce()
    learned = _run(tmp_path, IQL).file("learning.safetensors")
    before = learned.stat().st_mtime_ns
    reproduce()
    assert learned.stat().st_mtime_ns == before
    shutil.rmtree(tmp_path / "runs")
    reproduce()
    assert len(fake.calls) == 2


def test_plan_makes_nothing(fake, reproduce, tmp_path, capsys):
    reproduce("--plan")
    assert "4 of 4 blocks are missing; programs that learn: 2." in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
    assert not fake.calls


def test_filters_leave_some_rows(fake, reproduce, capsys):
    reproduce("--methods", "iql+hit", "--scenarios", "tiny")
    assert fake.prepared == [("iql+hit", 0)]
    reproduce("--methods", "vdn", code=2)
    assert "nothing is left of tiny iql" in capsys.readouterr().err


def test_interrupted_between_two_groups_it_goes_on_with_the_second(fake, reproduce, tmp_path):
    def stop():
        if len(fake.calls) == 2:
            raise Interrupted("learning: stopped")

    fake.stop = stop
    reproduce(code=130)
    assert "learning" in _run(tmp_path, IQL).manifest
    assert result_path(tmp_path / "results/reproduction", IQL, 1.0, "return").exists()
    fake.stop = lambda: None
    reproduce()
    assert [len(call) for call in fake.calls] == [2, 2, 2]
    assert fake.calls[1] == fake.calls[2]
    (stopped,) = (tmp_path / "runs/reproduction/groups").glob("*/stopped.json")
    before = json.loads(stopped.read_text())["learning"]
    assert RunDirectory(stopped.parent).manifest["learning"]["seconds"] >= round(before, 3)


def test_stopped_while_handing_out_it_only_goes_on_handing_out(fake, reproduce, tmp_path, monkeypatch):
    save = RunDirectory.save

    def stops_at_the_second(self, name, tree, *, seconds):
        if str(self.path).endswith("iql/seeds-1-1"):
            raise KeyboardInterrupt
        save(self, name, tree, seconds=seconds)

    with monkeypatch.context() as patch:
        patch.setattr(RunDirectory, "save", stops_at_the_second)
        reproduce(code=130)
    assert ["learning" in _run(tmp_path, IQL, seed).manifest for seed in (0, 1)] == [True, False]
    reproduce()
    assert [len(call) for call in fake.calls] == [2, 2]
    np.testing.assert_array_equal(_run(tmp_path, IQL, 1).load("learning")["0.w"], [_number(IQL, 1)])


def test_block_that_fails_keeps_no_other_and_says_how_to_try_again(fake, reproduce, tmp_path, capsys):
    def fail(config):
        if config.learning.name == "iql+hit":
            raise MemoryError("no room\nat all")

    fake.fail = fail
    reproduce(code=2)
    out, err = capsys.readouterr()
    told = " ".join(out.split())
    assert "tiny iql+hit, seeds 0 to 0: MemoryError: no room again: cooptions train tiny --method iql+hit" in told
    assert "failed, as listed above: 1" in err
    assert "learning" in _run(tmp_path, KRON).manifest
    assert "learning" not in _run(tmp_path, HIT).manifest
    fake.fail = lambda config: None
    reproduce()
    assert "learning" in _run(tmp_path, HIT).manifest


def test_group_that_fails_keeps_no_other(fake, reproduce, tmp_path, capsys):
    def stop():
        if len(fake.calls) == 1:
            raise RuntimeError("RESOURCE_EXHAUSTED: out of memory")

    fake.stop = stop
    reproduce(code=2)
    assert "failed, as listed above: 2" in capsys.readouterr().err
    assert ["learning" in _run(tmp_path, row).manifest for row in (IQL, HIT, KRON)] == [False, True, True]


def test_copied_run_directories_count_and_are_entered(fake, reproduce, tmp_path):
    reproduce()
    moved = tmp_path / "elsewhere"
    shutil.copytree(tmp_path / "runs/reproduction/tiny", moved / "runs/tiny")
    places = ("--runs", str(moved / "runs"), "--results", str(moved / "results"))
    reproduce(*places)
    assert len(fake.calls) == 2
    for path in (tmp_path / "results/reproduction/scores").iterdir():
        assert path.read_text() == (moved / "results/scores" / path.name).read_text()


def test_seeds_of_another_machine_are_entered_though_they_were_not_asked_for(fake, reproduce, tmp_path):
    reproduce("--seeds", "3", "--methods", "iql")
    shutil.rmtree(tmp_path / "results")
    reproduce("--seeds", "1", "--methods", "iql")
    stored = read_result(result_path(tmp_path / "results/reproduction", IQL, 1.0, "return"))
    assert stored.seeds == (0, 1, 2)


def test_stages_that_a_sibling_has_made_are_taken_over(fake, reproduce, tmp_path, monkeypatch):
    for row in (HIT, KRON):
        block = Block(row, 0, 1)
        with open_run(tmp_path / "runs/reproduction" / block.place, block.stages) as run:
            if row is KRON:
                run.save("walk", {"states": np.ones(3)}, seconds=7.0, made_by={"command": "elsewhere"})
                run.save("representation", {"w": np.ones(3)}, seconds=7.0)
    reproduce("--methods", "iql+hit")
    manifest = _run(tmp_path, HIT).manifest
    assert set(manifest) == {"walk", "learning"}
    assert manifest["walk"]["seconds"] == 0.0
    assert manifest["walk"]["made_by"] == {"command": "elsewhere"}
    np.testing.assert_array_equal(_run(tmp_path, HIT).load("walk")["states"], np.ones(3))


def test_a_stage_whose_file_was_not_copied_is_not_taken_over(fake, reproduce, tmp_path):
    block = Block(KRON, 0, 1)
    with open_run(tmp_path / "runs/reproduction" / block.place, block.stages) as run:
        run.save("walk", {"states": np.ones(3)}, seconds=7.0)
        run.file("walk.safetensors").unlink()
    reproduce("--methods", "iql+hit")
    assert set(_run(tmp_path, HIT).manifest) == {"learning"}


def test_a_block_alone_learns_what_its_command_learns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(estimates, "group_bytes", lambda group: 0)
    monkeypatch.setattr(pipeline, "drawable", lambda run: [])
    main(["reproduce", "--figure", "plain", "--seeds", "1", "--fraction", "0.5"])
    block = Block(IQL, 0, 1, 0.5)
    main(shlex.split(block.commands(tmp_path / "alone")[0])[1:])
    runs = RunDirectory(tmp_path / "runs/reproduction" / block.place), RunDirectory(tmp_path / "alone" / block.place)
    together, alone = (run.load("learning") for run in runs)
    assert together.keys() == alone.keys()
    for name, array in together.items():
        np.testing.assert_array_equal(array, alone[name])
    assert runs[0].configs == runs[1].configs
    assert not list((tmp_path / "runs/reproduction/groups").glob("*/checkpoints"))


@pytest.mark.slow
def test_options_of_two_methods_are_found_and_learned_with_in_one_call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main(["reproduce", "--figure", "with-options"])
    parts = [_run(tmp_path, row).load("learning") for row in (HIT, KRON)]
    assert any((parts[0][name] != parts[1][name]).any() for name in parts[0])
    assert len(list((tmp_path / "runs/reproduction/groups").iterdir())) == 1
    block = Block(HIT, 0, 1)
    with open_run(tmp_path / "runs/reproduction" / block.place, block.stages) as run:
        there = task_env(block.config, run, Progress.silent())
        restored = learning_stage(block.config, run, Progress.silent())
    assert restored[1].shape == (1, 2, 3, 1)
    guessed = like_task_env(block.config, 1)
    assert jax.tree.structure(there) == jax.tree.structure(guessed)
    assert [leaf.shape for leaf in jax.tree.leaves(there)] == [leaf.shape for leaf in jax.tree.leaves(guessed)]
