import json

import numpy as np
import pytest

from cooptions.errors import ArtifactError
from cooptions.files import write_bytes
from cooptions.runs.directory import open_run, read_run
from cooptions.runs.repair import inspect, lost_stages, remove_unsound, repair, rows, unsound
from cooptions.training.checkpoints import Checkpoints
from cooptions.training.metrics import line_of

STAGES = ("walk", "representation", "spectrum")


@pytest.fixture
def path(tmp_path):
    """A run with three finished stages and one unfinished stage."""
    with open_run(tmp_path, {name: {"rate": 0.5} for name in (*STAGES, "options")}) as run:
        for name in STAGES:
            if name != "walk":
                write_bytes(run.file("metrics", f"{name}.jsonl"), line_of({"step": len(name), "loss": [1.0]}))
            run.save(name, {"x": np.arange(100.0) + len(name)}, seconds=1.0)
        write_bytes(run.file("metrics/options.jsonl"), line_of({"step": 10, "loss": [1.0]}))
        for step in (10, 20):
            Checkpoints(run.file("checkpoints/options")).save(step, 1, {"x": np.arange(5.0)})
        run.summarise(seeds=1)
    return tmp_path


def _flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _state(path):
    return {each.file: each.state for each in inspect(path)}


def test_a_whole_run_is_sound_and_nothing_is_removed(path):
    assert _state(path) == {
        "manifest.json": "sound",
        "config.json": "sound",
        **{f"{name}.safetensors": "sound" for name in STAGES},
        "metrics/representation.jsonl": "sound",
        "metrics/spectrum.jsonl": "sound",
        "metrics/options.jsonl": "unfinished",
        "checkpoints/options/10.safetensors": "unfinished",
        "checkpoints/options/20.safetensors": "unfinished",
        "summary.json": "sound",
    }
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    assert remove_unsound(path) == []
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before


def test_a_damaged_artefact_is_removed_with_later_ones_only(path):
    _flip(path / "representation.safetensors")
    findings = inspect(path)
    assert [(each.file, each.state) for each in unsound(findings)] == [("representation.safetensors", "damaged")]
    assert lost_stages(findings) == ["representation", "spectrum", "options"]
    removed = remove_unsound(path)
    assert {"representation.safetensors", "spectrum.safetensors", "metrics/representation.jsonl"} <= set(removed)
    run = read_run(path)
    assert list(run.manifest) == ["walk"]
    assert run.configs["spectrum"] == {"rate": 0.5}
    assert not unsound(inspect(path))
    assert not (path / "checkpoints/options/10.safetensors").exists(), "it was trained on what is gone"


@pytest.mark.parametrize("file", ["metrics/spectrum.jsonl", "summary.json", "checkpoints/options/20.safetensors"])
def test_only_the_other_damaged_files_are_removed(path, file):
    _flip(path / file) if file != "summary.json" else (path / file).write_text("{")
    assert remove_unsound(path) == [file]
    assert list(read_run(path).manifest) == sorted(STAGES)
    assert not unsound(inspect(path))


def test_damaged_metrics_are_removed_with_their_checkpoints(path):
    _flip(path / "metrics/options.jsonl")
    remove_unsound(path)
    assert not list(path.glob("checkpoints/options/*"))
    assert not unsound(inspect(path))


@pytest.mark.parametrize("damage", ["0.5", "rate"])
def test_a_damaged_configuration_is_written_again_from_the_manifest(path, damage):
    file = path / "config.json"
    file.write_text(file.read_text().replace(damage, damage[::-1].replace("5.0", "0.7")))
    assert _state(path)["config.json"] == "damaged"
    remove_unsound(path)
    assert read_run(path).configs == {name: {"rate": 0.5} for name in STAGES}
    assert not list(path.glob("checkpoints/options/*")), "nobody knows what it was trained with"


@pytest.mark.parametrize("damage", ["unreadable", "changed"])
def test_artefacts_listed_in_a_damaged_manifest_are_kept(path, damage):
    file, text = path / "manifest.json", (path / "manifest.json").read_text()
    sha = json.loads(text)["spectrum"]["files"]["spectrum.safetensors"]
    file.write_text(text.replace(sha, "0" * 64)[: -2 if damage == "unreadable" else None])
    assert _state(path)["manifest.json"] == "damaged"
    removed = remove_unsound(path)
    assert "spectrum.safetensors" in removed
    run = read_run(path)
    assert list(run.manifest) == ["representation", "walk"]
    assert np.array_equal(run.load("walk")["x"], np.arange(100.0) + 4)


def test_repair_asks_with_a_table(path):
    _flip(path / "walk.safetensors")
    asked = []
    assert repair(path, lambda table: asked.append(table) or False) == []
    assert (path / "spectrum.safetensors").exists()
    assert ("walk", "walk.safetensors", "damaged", "remove; made again with the stages after it") in asked[0]
    assert "spectrum.safetensors" in repair(path, lambda table: True)
    assert asked[0] != rows(inspect(path))


def test_a_place_without_a_run_is_refused(tmp_path):
    with pytest.raises(ArtifactError, match="no run was made here"):
        inspect(tmp_path / "mistyped")
