import json

import numpy as np
import pytest

from cooptions.cli.main import main
from cooptions.runs.directory import open_run


@pytest.fixture
def path(tmp_path):
    """A run with two stages, the first of which is damaged."""
    with open_run(tmp_path / "[/run]", {"walk": {}, "spectrum": {}}) as run:
        for name in ("walk", "spectrum"):
            run.save(name, {"x": np.arange(10.0) + len(name)}, seconds=1.0)
        content = run.file("walk.safetensors").read_bytes()
        run.file("walk.safetensors").write_bytes(content[:-1] + b"!")
    return tmp_path / "[/run]"


@pytest.mark.parametrize(("answer", "left"), [("y", []), ("n", ["spectrum", "walk"])])
def test_repair_asks_before_it_removes(path, monkeypatch, capsys, answer, left):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda question: answer)
    main(["repair", str(path)])
    assert "damaged" in capsys.readouterr().out
    assert [file.stem for file in sorted(path.glob("*.safetensors"))] == left


def test_without_a_terminal_repair_removes_nothing(path, capsys):
    with pytest.raises(SystemExit):
        main(["repair", str(path)])
    assert "give --yes to remove them" in capsys.readouterr().err
    assert (path / "spectrum.safetensors").exists()


def test_repair_prints_json(path, capsys):
    main(["repair", str(path), "--json"])
    assert json.loads(capsys.readouterr().out)["removed"] == []
    main(["repair", str(path), "--json", "--yes"])
    assert json.loads(capsys.readouterr().out)["removed"] == ["spectrum.safetensors", "walk.safetensors"]
    main(["repair", str(path)])
    assert "everything is sound" in capsys.readouterr().out


@pytest.mark.parametrize("record", ["config.json", "manifest.json"])
def test_a_missing_record_is_shown(path, capsys, record):
    (path / record).unlink()
    main(["repair", str(path), "--json"])
    found = {each["file"]: each["state"] for each in json.loads(capsys.readouterr().out)["files"]}
    assert found[record] == "missing"
