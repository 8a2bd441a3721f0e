import json
import multiprocessing
import os
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

from cooptions.errors import ArtifactError
from cooptions.files import fill, named_leaves, write_bytes
from cooptions.runs import directory as artifacts
from cooptions.runs.directory import open_run, read_run
from cooptions.runs.lock import hold
from cooptions.runs.records import write_record
from cooptions.training.metrics import line_of

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


def test_another_configuration_is_refused_and_the_field_is_named(tmp_path):
    with open_run(tmp_path / "run", {"a": {"walk": {"steps": 5, "envs": 1}}}) as run:
        run.save("a", TREE, seconds=0.0)
    with (
        pytest.raises(ArtifactError, match="walk.steps is 5 there, 6 now"),
        open_run(tmp_path / "run", {"a": {"walk": {"steps": 6, "envs": 1}}}),
    ):
        pass
    with open_run(tmp_path / "run", {"a": {"walk": {"steps": 5, "envs": 1}}, "b": {}}):
        pass  # the same, and a further stage


def test_without_artefacts_another_configuration_is_accepted(tmp_path):
    """A user whose flag was refused can try again in the same directory."""
    for steps in (5, 6):
        with open_run(tmp_path, {"a": {"steps": steps}}) as run:
            assert run.configs == {"a": {"steps": steps}}
    with open_run(tmp_path, {}) as run:
        assert run.configs == {"a": {"steps": 6}}, "who only looks changes nothing"


@pytest.mark.parametrize("trace", ["checkpoints/a", "metrics/a.jsonl", "cycle-1"])
def test_unfinished_stages_keep_their_configuration(tmp_path, trace):
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


def test_every_flipped_bit_is_refused(tmp_path):
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
from cooptions.runs.directory import open_run, read_run
from cooptions.runs.lock import hold
from cooptions.runs.records import write_record
from cooptions.training.metrics import line_of
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
    """A limit on file size simulates a full disk: the same write fails with a system error."""
    printed = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "run")], capture_output=True, text=True, check=True
    ).stdout
    assert "b.safetensors: cannot be written" in printed
    with open_run(tmp_path / "run", {}) as run:
        assert list(run.manifest) == ["a"]
        assert np.array_equal(run.load("a")["x"], np.zeros(10))
    assert not [path for path in (tmp_path / "run").iterdir() if "partial" in path.name]


def test_a_path_that_is_no_directory_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError, match="cannot be used"), open_run(tmp_path / "file", {}):
        pass


def test_writes_are_atomic(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_bytes(path, b"old")

    def no_space(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", no_space)
    with pytest.raises(ArtifactError, match="No space left"):
        write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_device_is_not_replaced(tmp_path):
    """Moving a file to the place of `/dev/null` would take that from the whole machine."""
    (tmp_path / "link").symlink_to(os.devnull)
    with pytest.raises(ArtifactError, match="cannot be written: it is a device"):
        write_bytes(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()


def test_only_a_full_disk_needs_room(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError, match="choose another place"):
        write_bytes(tmp_path / "file" / "inner", b"new")


def test_leaves_are_named_and_filled_back():
    assert [name for name, _ in named_leaves(TREE)] == ["nested.0", "weights"]
    filled = fill(TREE, dict(named_leaves(TREE)))
    assert jnp.array_equal(filled["weights"], TREE["weights"])
    with pytest.raises(ArtifactError, match=r"nested\.0"):
        fill(TREE, {"weights": TREE["weights"]})


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


def _finished(path):
    with open_run(path, {"a": {"rate": 0.05}, "b": {"rate": 1.0}}) as run:
        write_bytes(run.file("metrics/a.jsonl"), line_of({"step": 1, "loss": [1.0]}))
        run.save("a", TREE, seconds=1.0)
        write_bytes(run.file("metrics/b.jsonl"), line_of({"step": 1, "loss": [1.0]}))
        run.save("b", TREE, seconds=1.0)
        write_bytes(run.file("scores/x.safetensors"), b"scores")
        run.seal("b", [run.file("scores/x.safetensors")])


def _flip(path, bit):
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def test_metrics_and_other_files_of_a_stage_are_sealed(tmp_path):
    _finished(tmp_path)
    run = read_run(tmp_path)
    assert [path.name for path in run.verify_sealed("a")] == ["a.jsonl"]
    assert [path.name for path in run.verify_sealed("b")] == ["b.jsonl", "x.safetensors"]
    assert [path.name for path in run.verify_sealed("b", "scores/")] == ["x.safetensors"]


@pytest.mark.parametrize("file", ["metrics/b.jsonl", "scores/x.safetensors"])
@pytest.mark.parametrize("damage", ["flip", "truncate", "delete"])
def test_sealed_files_are_refused_by_name_where_they_changed(tmp_path, file, damage):
    _finished(tmp_path)
    path = tmp_path / file
    {"flip": lambda: _flip(path, 9), "truncate": lambda: path.write_bytes(b"{"), "delete": path.unlink}[damage]()
    problem = "is missing" if damage == "delete" else "damaged"
    with pytest.raises(ArtifactError, match=f"{file}: {problem}.*repair"):
        read_run(tmp_path).verify_sealed("b")
    if file.startswith("metrics"):
        with open_run(tmp_path, {}) as run, pytest.raises(ArtifactError, match=f"{file}: {problem}"):
            run.stage("b", dict, dict)


@pytest.mark.parametrize("record", ["config.json", "manifest.json"])
def test_every_flipped_bit_of_a_record_is_refused(tmp_path, record):
    _finished(tmp_path)
    content = (tmp_path / record).read_bytes()
    for bit in np.random.default_rng(0).integers(0, 8 * len(content), 200).tolist():
        _flip(tmp_path / record, bit)
        with pytest.raises(ArtifactError, match=record):
            read_run(tmp_path)
        (tmp_path / record).write_bytes(content)
    read_run(tmp_path)


def test_a_changed_configuration_is_refused_with_its_field(tmp_path):
    _finished(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(path.read_text().replace("0.05", "0.85"))
    with pytest.raises(ArtifactError, match=r"config.json: damaged: a: rate is 0.85 there, 0.05 in manifest.json"):
        read_run(tmp_path)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b'{"a": {}, "a": {}}', "'a' stands there twice"),
        (b'{"a": {"x": NaN}}', "NaN is no number"),
        (b'{"a": {"x": Infinity}}', "Infinity is no number"),
        ('{"a": {}}'.encode("utf-16"), "codec can't decode"),
        (b"[1]", "no JSON object"),
        (b'{"a": 1}', "'a' is no stage"),
        (b"[" * 100_000, "config.json: damaged"),
    ],
)
def test_nonstandard_json_is_refused(tmp_path, content, named):
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ArtifactError, match=named):
        read_run(tmp_path)


@pytest.mark.parametrize("record", ["config.json", "manifest.json"])
def test_a_missing_record_is_named_and_nothing_is_made_again(tmp_path, record):
    _finished(tmp_path)
    (tmp_path / record).unlink()
    with pytest.raises(ArtifactError, match=f"{record}: is missing, though"), open_run(tmp_path, {"a": {"rate": 0.05}}):
        pass
    with pytest.raises(ArtifactError, match=f"{record}.* is missing"):
        read_run(tmp_path)
    assert not (tmp_path / record).exists()


def test_an_artefact_without_an_entry_is_made_again_with_a_warning(tmp_path):
    told = []
    with open_run(tmp_path, {"a": {}}, told.append) as run:
        write_bytes(run.file("a.safetensors"), b"cut off before its entry was written")
        run.stage("a", lambda: TREE, dict)
    assert len(told) == 1
    assert "a.safetensors: is not in manifest.json, and is made again" in told[0]


def _all_files(path):
    return {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in path.rglob("*") if file.is_file()}


def test_reading_changes_nothing_and_needs_no_lock(tmp_path):
    _finished(tmp_path / "run")
    before = _all_files(tmp_path)
    with hold(tmp_path / "run/lock", warn=print):  # by a training
        held = _all_files(tmp_path)
        run = read_run(tmp_path / "run")
        assert np.array_equal(run.load("a")["weights"], TREE["weights"])
        assert _all_files(tmp_path) == held
    assert {path: content for path, (_, content) in _all_files(tmp_path).items()} == {
        path: content for path, (_, content) in before.items()
    }
    for write in (lambda: run.save("c", TREE, seconds=0.0), run.summarise, lambda: run.stage("c", dict, dict)):
        with pytest.raises(ArtifactError, match="opened for reading only"):
            write()


def test_a_run_without_its_configuration_is_to_be_repaired_and_not_made(tmp_path):
    _finished(tmp_path / "run")
    (tmp_path / "run/config.json").unlink()
    with pytest.raises(ArtifactError, match="config.json is missing; restore it, or see `cooptions repair"):
        read_run(tmp_path / "run")


def test_reading_a_missing_run_creates_no_directory(tmp_path):
    with pytest.raises(ArtifactError, match="no run was made here"):
        read_run(tmp_path / "mistyped")
    assert not (tmp_path / "mistyped").exists()


@pytest.mark.parametrize("content", ["{", '{"a": "b"}', "[]"])
def test_damaged_disposable_files_are_ignored(tmp_path, content):
    told = []
    with open_run(tmp_path, {"a": {}}, told.append) as run:
        for name in ("stopped.json", "summary.json"):
            (tmp_path / name).write_text(content)
        run.stage("a", lambda: TREE, dict)
        run.summarise(seeds=3)
        assert run.manifest["a"]["seconds"] < 60
    assert json.loads((tmp_path / "summary.json").read_text())["seeds"] == 3
    assert all("damaged; it is ignored" in line for line in told)


def test_partial_files_of_a_dead_process_are_removed(tmp_path):
    left = [tmp_path / ".a.safetensors.999.partial", tmp_path / "checkpoints/a/.30.safetensors.999.partial"]
    for path in left:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"half")
    with open_run(tmp_path, {}):
        assert not any(path.exists() for path in left)


BAD_ENTRIES = {
    "no files": (lambda entry: entry.pop("files"), "a.files is not as it is written"),
    "files that are a list": (lambda entry: entry.update(files=[]), "a.files is not as it is written"),
    "no seconds": (lambda entry: entry.pop("seconds"), "a.seconds is not as it is written"),
    "a file elsewhere": (lambda entry: entry.update(files={"../b": "0"}), "'../b' is no file of a run"),
    "a file from the root": (lambda entry: entry.update(sealed={"/dev/zero": "0"}), "'/dev/zero' is no file of a run"),
    "a digest that is none": (lambda entry: entry.update(sealed={"b": None}), "'b' is no file of a run"),
}


@pytest.mark.parametrize("bad", BAD_ENTRIES)
def test_an_invalid_manifest_is_refused(bad, tmp_path):
    """Its checksum matches, because an attacker can compute it."""
    change, message = BAD_ENTRIES[bad]
    with open_run(tmp_path, {"a": {"x": 1}}) as run:
        run.save("a", TREE, seconds=0.0)
        manifest = run.manifest
    change(manifest["a"])
    write_record(tmp_path / "manifest.json", manifest)
    with pytest.raises(ArtifactError, match=message):
        read_run(tmp_path)
    with pytest.raises(ArtifactError, match=message), open_run(tmp_path, {}):
        pass
