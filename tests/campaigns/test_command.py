"""The campaign command, with fake discovery and learning, and once with real ones."""

import json
import shlex
import shutil

import numpy as np
import pytest
from made_up import GRID, TINY, keys_to_numbers

from cooptions.campaigns.reading import parse_campaign
from cooptions.campaigns.results import read_result, result_path
from cooptions.campaigns.rows import Block
from cooptions.cli import filling
from cooptions.cli.main import main
from cooptions.errors import ArtifactError, Interrupted
from cooptions.runs.directory import RunDirectory, open_run, read_run
from cooptions.scores.statistics import load_scores
from cooptions.training.metrics import MetricsFile

IQL, HIT, MASK = (row for lineup in parse_campaign(TINY.encode()).lineups for row in lineup.rows)


def _run(tmp_path, row, seed=0):
    return RunDirectory(tmp_path / "runs/tiny" / Block(row, seed, 1).place)


def _number(row, seed):
    return keys_to_numbers(Block(row, seed, 1).config.keys("learning"))[0]


def test_every_block_gets_its_part_of_its_groups_training(fake, campaign, tmp_path):
    campaign()
    assert [len(call) for call in fake.calls] == [2, 2]
    for row, seed in ((IQL, 0), (IQL, 1), (HIT, 0), (MASK, 0)):
        run, number = _run(tmp_path, row, seed), _number(row, seed)
        arrays = run.load("learning")
        np.testing.assert_array_equal(arrays["0.w"], [number])
        scores = load_scores(run.file("scores", "return.safetensors"))
        assert (scores.name, scores.values.shape) == (row.method, (1, 2, 3))
        assert (scores.values == number).all()
        assert MetricsFile(run.file("metrics", "learning.jsonl")).rows() == [{"step": 1, "mark": [number]}]
        assert {file.suffix for file in run.verify_sealed("learning")} == {".jsonl", ".safetensors"}
        note = json.loads(run.file("group.json").read_text())
        assert (note["members"], len(note["group"]["blocks"])) == (2, 2)
    stored = read_result(result_path(tmp_path / "results/tiny", IQL, 1.0, "return"))
    assert stored.seeds == (0, 1)
    np.testing.assert_allclose(stored.means[:, -1], [_number(IQL, 0), _number(IQL, 1)], rtol=1e-3)
    picture = tmp_path / f"results/tiny/curves-{GRID}.png"
    assert picture.read_text() == "iql iql+hit iql+mask"
    assert "H1: options help" in (tmp_path / "runs/tiny/report.html").read_text()


def test_no_block_runs_twice_even_without_its_run_directory(fake, campaign, tmp_path):
    campaign()
    learned = _run(tmp_path, IQL).file("learning.safetensors")
    before = learned.stat().st_mtime_ns
    campaign()
    assert learned.stat().st_mtime_ns == before
    shutil.rmtree(tmp_path / "runs")
    campaign()
    assert len(fake.calls) == 2


def test_plan_runs_nothing(fake, campaign, tmp_path, capsys):
    campaign("--plan")
    assert "4 of 4 blocks are missing; programs that learn: 2." in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.yaml"]
    assert not fake.calls


@pytest.mark.parametrize(
    ("flags", "prepared"),
    [
        (["--methods", "iql+hit", "--scenarios", GRID], [("iql+hit", 0)]),
        (["--lineups", "plain", "--seeds", "1"], [("iql", 0)]),
    ],
)
def test_filters_select_rows(fake, campaign, flags, prepared):
    campaign(*flags)
    assert sorted(set(fake.prepared)) == prepared


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--methods", "vdn"], "nothing is left of"),
        (["--lineups", "none"], "lineups: unknown 'none'; there are plain, with-options"),
        (["--fraction", "2"], "fraction must lie in (0, 1], not 2"),
        (["--seeds", "-1"], "seeds must not be negative, not -1"),
        (["--executor", "processes", "--beside", "0"], "beside must be at least 1, not 0"),
        (["--executor", "ray", "--gpus", "-1"], "gpus must not be negative"),
        (["--plan", "--gpus", "nan"], "gpus must be a number, not nan"),
        (["--plan", "--beside", "0"], "beside must be at least 1, not 0"),
        (["--executor", "ray", "--cpus", "0"], "a task must take something"),
    ],
)
def test_what_cannot_be_is_refused(fake, campaign, flags, message, capsys):
    campaign(*flags, code=2)
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_missing_page_is_refused_before_anything_runs(fake, campaign, tmp_path, capsys):
    (tmp_path / "tiny.yaml").write_text(TINY + "pages: [nowhere.md]\n")
    campaign(code=2)
    assert "nowhere.md: cannot be read" in capsys.readouterr().err
    assert fake.prepared == []


def test_fewer_seeds_on_the_command_line_leave_pages_with_the_files_number(fake, campaign, tmp_path):
    (tmp_path / "page.md").write_text("<!-- begin coverage:plain --><!-- end coverage:plain -->\n")
    (tmp_path / "tiny.yaml").write_text(TINY + "pages: [page.md]\n")
    campaign("--lineups", "plain", "--seeds", "1")
    assert "1 of 2" in (tmp_path / "page.md").read_text()


def test_results_elsewhere_leave_the_pages_alone(fake, campaign, tmp_path):
    (tmp_path / "page.md").write_text("<!-- begin coverage:plain --><!-- end coverage:plain -->\n")
    (tmp_path / "tiny.yaml").write_text(TINY + "pages: [page.md]\n")
    campaign("--lineups", "plain", "--results", str(tmp_path / "elsewhere"))
    assert "of 2" not in (tmp_path / "page.md").read_text()


def test_a_campaign_stopped_between_groups_resumes_with_the_second(fake, campaign, tmp_path):
    def stop():
        if len(fake.calls) == 2:
            raise Interrupted("learning: stopped")

    fake.stop = stop
    campaign(code=130)
    assert "learning" in _run(tmp_path, IQL).manifest
    assert result_path(tmp_path / "results/tiny", IQL, 1.0, "return").exists()
    fake.stop = lambda: None
    campaign()
    assert [len(call) for call in fake.calls] == [2, 2, 2]
    assert fake.calls[1] == fake.calls[2]
    (stopped,) = (tmp_path / "runs/tiny/groups").glob("*/stopped.json")
    before = json.loads(stopped.read_text())["learning"]
    assert RunDirectory(stopped.parent).manifest["learning"]["seconds"] >= round(before, 3)


def test_a_campaign_stopped_while_handing_out_only_continues_that(fake, campaign, tmp_path, monkeypatch):
    save = RunDirectory.save

    def stops_at_the_second(self, name, tree, **options):
        if str(self.path).endswith("iql/seeds-1-1"):
            raise KeyboardInterrupt
        save(self, name, tree, **options)

    with monkeypatch.context() as patch:
        patch.setattr(RunDirectory, "save", stops_at_the_second)
        campaign(code=130)
    assert ["learning" in _run(tmp_path, IQL, seed).manifest for seed in (0, 1)] == [True, False]
    campaign()
    assert [len(call) for call in fake.calls] == [2, 2]
    np.testing.assert_array_equal(_run(tmp_path, IQL, 1).load("learning")["0.w"], [_number(IQL, 1)])


def test_a_failed_block_does_not_stop_others_and_names_its_command(fake, campaign, tmp_path, capsys):
    def fail(config):
        if config.learning.name == "iql+hit":
            raise MemoryError("no room\nat all")

    fake.fail = fail
    campaign(code=2)
    out, err = capsys.readouterr()
    told = " ".join(out.split())
    assert f"{GRID} iql+hit, seeds 0 to 0: MemoryError: no room again: cooptions train {GRID} --method iql+hit" in told
    assert "failed, as listed above: 1" in err
    assert "learning" in _run(tmp_path, MASK).manifest
    assert "learning" not in _run(tmp_path, HIT).manifest
    fake.fail = lambda config: None
    campaign()
    assert "learning" in _run(tmp_path, HIT).manifest


def test_a_failed_group_does_not_stop_others(fake, campaign, tmp_path, capsys):
    def stop():
        if len(fake.calls) == 1:
            raise RuntimeError("RESOURCE_EXHAUSTED: out of memory")

    fake.stop = stop
    campaign(code=2)
    assert "failed, as listed above: 2" in capsys.readouterr().err
    assert ["learning" in _run(tmp_path, row).manifest for row in (IQL, HIT, MASK)] == [False, True, True]


def test_a_flipped_bit_in_the_metrics_of_a_campaign_is_found(fake, campaign, tmp_path):
    campaign()
    assert fake.named[0] == ["seed 0", "seed 1"]
    group = next((tmp_path / "runs/tiny/groups").iterdir())
    for path in (group, _run(tmp_path, IQL).path):
        file = path / "metrics" / "learning.jsonl"
        read_run(path).verify_sealed("learning", "metrics/")
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
        with pytest.raises(ArtifactError, match=rf"{file}: damaged: its SHA-256 is not the manifest's"):
            read_run(path).verify_sealed("learning", "metrics/")
        with pytest.raises(ArtifactError, match=rf"{file}: line 1 is damaged: its check does not fit"):
            MetricsFile(file).rows()


def test_copied_run_directories_are_collected(fake, campaign, tmp_path):
    campaign()
    moved = tmp_path / "elsewhere"
    shutil.copytree(tmp_path / "runs/tiny", moved / "runs", ignore=shutil.ignore_patterns("groups", "logs"))
    campaign("--runs", str(moved / "runs"), "--results", str(moved / "results"))
    assert len(fake.calls) == 2
    for path in (tmp_path / "results/tiny/scores").iterdir():
        assert path.read_text() == (moved / "results/scores" / path.name).read_text()


def test_unrequested_seeds_of_another_machine_are_collected(fake, campaign, tmp_path):
    campaign("--seeds", "3", "--methods", "iql")
    shutil.rmtree(tmp_path / "results")
    campaign("--seeds", "1", "--methods", "iql")
    stored = read_result(result_path(tmp_path / "results/tiny", IQL, 1.0, "return"))
    assert stored.seeds == (0, 1, 2)


@pytest.mark.parametrize(("copied", "taken"), [(True, {"walk", "learning"}), (False, {"learning"})])
def test_stages_of_a_sibling_run_are_copied(fake, campaign, tmp_path, copied, taken):
    block = Block(MASK, 0, 1)
    with open_run(tmp_path / "runs/tiny" / block.place, block.stages) as run:
        run.save("walk", {"states": np.ones(3)}, seconds=7.0, made_by={"command": "elsewhere"})
        run.save("representation", {"w": np.ones(3)}, seconds=7.0)
        if not copied:
            run.file("walk.safetensors").unlink()
    campaign("--methods", "iql+hit")
    manifest = _run(tmp_path, HIT).manifest
    assert set(manifest) == taken
    if copied:
        assert (manifest["walk"]["seconds"], manifest["walk"]["made_by"]) == (0.0, {"command": "elsewhere"})
        np.testing.assert_array_equal(_run(tmp_path, HIT).load("walk")["states"], np.ones(3))


def test_results_record_the_number_of_discoveries(fake, campaign, tmp_path):
    campaign("--methods", "iql+hit", "iql")
    found = {row: read_result(result_path(tmp_path / "results/tiny", row, 1.0, "return")) for row in (IQL, HIT)}
    assert [found[row].blocks[0]["discoveries"] for row in (IQL, HIT)] == [0, 1]
    assert [found[row].discoveries for row in (IQL, HIT)] == [0, 1]


@pytest.mark.slow
def test_a_single_block_equals_the_result_of_its_command(campaign, tmp_path, monkeypatch):
    monkeypatch.setattr(filling, "drawable", lambda run: [])
    campaign("--lineups", "plain", "--seeds", "1", "--fraction", "0.5")
    block = Block(IQL, 0, 1, 0.5)
    main(shlex.split(block.commands(tmp_path / "alone")[0])[1:])
    runs = RunDirectory(tmp_path / "runs/tiny" / block.place), RunDirectory(tmp_path / "alone" / block.place)
    together, alone = (run.load("learning") for run in runs)
    assert together.keys() == alone.keys()
    for name, array in together.items():
        np.testing.assert_array_equal(array, alone[name])
    assert runs[0].configs == runs[1].configs
    assert not list((tmp_path / "runs/tiny/groups").glob("*/checkpoints"))


@pytest.mark.slow
def test_two_methods_with_options_learn_in_one_call(campaign, tmp_path):
    campaign("--lineups", "with-options")
    parts = [_run(tmp_path, row).load("learning") for row in (HIT, MASK)]
    assert any((parts[0][name] != parts[1][name]).any() for name in parts[0])
    assert len(list((tmp_path / "runs/tiny/groups").iterdir())) == 1
