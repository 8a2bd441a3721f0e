import json
import multiprocessing
import subprocess
import sys
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest

from cooptions.runs import directory as artifacts
from cooptions.files import encode, fill, named_leaves, write_bytes
from cooptions.runs.directory import open_run
from cooptions.errors import ArtifactError

TREE = {"weights": np.arange(6.0).reshape(2, 3), "nested": [np.array([True, False])]}


def _restore(arrays):
    return fill(TREE, arrays)


def test_stage_is_made_once_and_restored_after(tmp_path):
    calls = []
    for _ in range(2):
        with open_run(tmp_path / "run", {"a": {"x": 1}}) as run:
            tree = run.stage("a", lambda: calls.append(1) or TREE, _restore)
            assert np.array_equal(tree["weights"], TREE["weights"])
    assert len(calls) == 1
    entry = json.loads((tmp_path / "run/manifest.json").read_text())["a"]
    assert entry["config"] == {"x": 1}
    assert {"command", "date", "device", "versions", "commit"} <= set(entry["made_by"])


def test_another_configuration_is_refused_with_the_field(tmp_path):
    with open_run(tmp_path / "run", {"a": {"walk": {"steps": 5, "envs": 1}}}) as run:
        run.save("a", TREE, seconds=0.0)
    with (
        pytest.raises(ArtifactError, match="walk.steps is 5 there, 6 now"),
        open_run(tmp_path / "run", {"a": {"walk": {"steps": 6, "envs": 1}}}),
    ):
        pass
    with open_run(tmp_path / "run", {"a": {"walk": {"steps": 5, "envs": 1}}, "b": {}}):
        pass  # the same, and a further stage


def test_where_nothing_was_made_another_configuration_is_welcome(tmp_path):
    """Who was refused for a mistyped flag tries again in the same place."""
    for steps in (5, 6):
        with open_run(tmp_path, {"a": {"steps": steps}}) as run:
            assert run.configs == {"a": {"steps": steps}}
    with open_run(tmp_path, {}) as run:
        assert run.configs == {"a": {"steps": 6}}, "who only looks changes nothing"


@pytest.mark.parametrize("trace", ["checkpoints/a", "metrics/a.jsonl", "cycle-1"])
def test_what_was_begun_keeps_its_configuration(tmp_path, trace):
    with open_run(tmp_path, {"a": {"steps": 5}}) as run:
        run.file(trace).mkdir(parents=True)
    with pytest.raises(ArtifactError, match="steps is 5 there, 6 now"), open_run(tmp_path, {"a": {"steps": 6}}):
        pass


@pytest.mark.parametrize("damage", ["flip", "truncate", "delete"])
def test_damaged_artefact_is_refused_by_name(tmp_path, damage):
    with open_run(tmp_path / "run", {"a": {}}) as run:
        run.save("a", TREE, seconds=0.0)
        path = run.file("a.safetensors")
        content = bytearray(path.read_bytes())
        if damage == "flip":
            content[-3] ^= 1
            path.write_bytes(content)
        elif damage == "truncate":
            path.write_bytes(content[:-8])
        else:
            path.unlink()
        with pytest.raises(ArtifactError, match=r"a\.safetensors"):
            run.load("a")


def test_every_single_bit_counts(tmp_path):
    with open_run(tmp_path / "run", {"a": {}}) as run:
        run.save("a", TREE, seconds=0.0)
        path = run.file("a.safetensors")
        content = path.read_bytes()
        for bit in np.random.default_rng(0).integers(0, 8 * len(content), 50):
            flipped = bytearray(content)
            flipped[bit // 8] ^= 1 << (bit % 8)
            path.write_bytes(flipped)
            with pytest.raises(ArtifactError, match="damaged"):
                run.load("a")


def test_damaged_manifest_is_refused_by_name(tmp_path):
    with open_run(tmp_path / "run", {"a": {}}) as run:
        run.save("a", TREE, seconds=0.0)
        run.file("manifest.json").write_text("{")
        with pytest.raises(ArtifactError, match=r"manifest\.json"):
            run.load("a")


def _hold(path, held, release):
    with open_run(path, {}):
        held.set()
        release.wait(30)


def test_directory_held_by_another_process_is_refused(tmp_path):
    context = multiprocessing.get_context("spawn")
    held, release = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(tmp_path / "run", held, release))
    holder.start()
    try:
        assert held.wait(60)
        with pytest.raises(ArtifactError, match=f"held by process {holder.pid}"), open_run(tmp_path / "run", {}):
            pass
    finally:
        release.set()
        holder.join()
    with open_run(tmp_path / "run", {}):
        pass  # free again


FULL_DISK = """
import resource, sys
from pathlib import Path
import numpy as np
from cooptions.runs.directory import open_run
from cooptions.errors import ArtifactError
with open_run(Path(sys.argv[1]), {"a": {}, "b": {}}) as run:
    run.save("a", {"x": np.zeros(10)}, seconds=0.0)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    try:
        run.save("b", {"x": np.zeros(100_000)}, seconds=0.0)
    except ArtifactError as error:
        print(error)
"""


def test_full_disk_loses_nothing(tmp_path):
    """A limit on file size stands in for a full disk: the same write fails with an error of the system."""
    printed = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "run")], capture_output=True, text=True, check=True
    ).stdout
    assert "b.safetensors: cannot be written" in printed
    with open_run(tmp_path / "run", {}) as run:
        assert list(run.manifest) == ["a"]
        assert np.array_equal(run.load("a")["x"], np.zeros(10))
    assert not [path for path in (tmp_path / "run").iterdir() if "partial" in path.name]


def test_place_that_is_no_directory_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError, match="cannot be used"), open_run(tmp_path / "file", {}):
        pass


def test_write_is_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_bytes(path, b"old")

    def no_space(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", no_space)
    with pytest.raises(ArtifactError, match="No space left"):
        write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_leaves_are_named_and_filled_back():
    assert [name for name, _ in named_leaves(TREE)] == ["nested.0", "weights"]
    filled = fill(TREE, dict(named_leaves(TREE)))
    assert jnp.array_equal(filled["weights"], TREE["weights"])
    with pytest.raises(ArtifactError, match=r"nested\.0"):
        fill(TREE, {"weights": TREE["weights"]})


def test_config_json_names_the_class():
    @dataclass(frozen=True)
    class Inner:
        rate: float = 0.1

    @dataclass(frozen=True)
    class Outer:
        inner: Inner
        sizes: tuple[int, ...] = (1, 2)

    assert encode(Outer(Inner())) == {"type": "Outer", "inner": {"type": "Inner", "rate": 0.1}, "sizes": [1, 2]}


def test_seconds_of_a_stopped_stage_count(tmp_path, monkeypatch):
    clock = iter([0.0, 100.0, 1000.0, 1007.0])
    monkeypatch.setattr(artifacts.time, "perf_counter", lambda: next(clock))

    def stop():
        raise KeyboardInterrupt

    with open_run(tmp_path, {"a": {}}) as run:
        with pytest.raises(KeyboardInterrupt):
            run.stage("a", stop, dict)
        run.stage("a", lambda: TREE, dict)
        assert run.manifest["a"]["seconds"] == 107.0
