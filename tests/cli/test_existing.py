"""The commands that read run directories: show, evaluate, compare, figure, repair."""

import json
import shutil

import pytest

from cooptions.runs.directory import read_run
from cooptions.runs.records import read_record, write_record

COMMANDS = {
    "show": lambda run: ["show", run],
    "evaluate": lambda run: ["evaluate", run, "--episodes", "2"],
    "compare": lambda run: ["compare", run],
    "figure": lambda run: ["figure", "learning", "--run", run],
    "options": lambda run: ["options", run],
    "repair": lambda run: ["repair", run],
}
KEYS = {
    "show": {"run", "seed", "option_set", "options", "pictures"},
    "evaluate": {"run", "episodes", "key", "rows", "pictures"},
    "compare": {"rows", "improvements", "pictures"},
    "repair": {"run", "files", "removed"},
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_mistyped_directory_is_refused_and_not_created(command, tmp_path, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    assert "runs/mistyped" in refused(*COMMANDS[command]("runs/mistyped"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["show", "evaluate", "figure", "options"])
@pytest.mark.parametrize(("file", "noun"), [("option_set.json", "an option set"), ("team.json", "a learned team")])
def test_what_is_no_run_is_called_by_its_name(command, file, noun, tmp_path, refused):
    for name in (file, "manifest.json"):
        (tmp_path / name).write_text("{}")
    assert f"is {noun}, not a run directory" in refused(*COMMANDS[command](str(tmp_path)))


@pytest.mark.parametrize("command", ["show", "evaluate", "compare", "figure", "repair"])
def test_names_are_not_interpreted_as_markup(command, learned, printed):
    """The directory is named `whole [/b]`, which is invalid markup for rich."""
    told = printed(*COMMANDS[command](str(learned)))
    assert told.splitlines()[-1].startswith("next: cooptions ")


@pytest.mark.parametrize("command", KEYS)
def test_json_is_all_that_is_printed(command, learned, printed):
    assert set(json.loads(printed(*COMMANDS[command](str(learned)), "--json"))) == KEYS[command]


def test_json_of_a_comparison_has_its_numbers(learned, printed):
    (row,) = json.loads(printed("compare", str(learned), "--json"))["rows"]
    assert {"scenario", "metric", "method", "iqm", "num_seeds", "num_diverged", "num_unscored", "num_steps"} == set(row)
    assert set(row["iqm"]) >= {"value", "low", "high"}


@pytest.mark.parametrize("command", ["show", "evaluate", "compare"])
def test_reading_commands_change_nothing(command, learned, tmp_path, monkeypatch, printed):
    monkeypatch.chdir(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in learned.rglob("*")}
    printed(*COMMANDS[command](str(learned)))
    assert {path: path.stat().st_mtime_ns for path in learned.rglob("*")} == before
    assert not list(tmp_path.iterdir())


def test_gifs_are_written_by_name(learned, printed):
    told = printed("show", str(learned), "--gif", "+e1", "-e1")
    assert "option+e1-seed-0.gif" in told
    assert (learned / "figures/option-e1-seed-0.gif").stat().st_size > 500


def test_curves_are_drawn_on_request(learned, tmp_path, printed):
    told = printed("compare", str(learned), "--out", str(tmp_path / "a[/b]"))
    assert f"picture: {tmp_path}/a[/b]/curves.png" in told


@pytest.fixture
def stolen(learned, tmp_path, monkeypatch):
    """A run that names code as its scenario or options, and a module that leaves a trace if it is imported."""
    (tmp_path / "evil.py").write_text(
        "import pathlib\npathlib.Path('imported').touch()\n"
        "from cooptions.envs.grid import Grid\nenv = Grid(5, 5, 2)\n"
        "def options(env):\n    raise RuntimeError\n"
    )
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "stolen"

    def steal(field):
        shutil.copytree(learned, path)
        for name in ("config.json", "manifest.json"):
            write_record(path / name, rewritten(read_record(path / name), field))
        return path

    return steal


def rewritten(value, field):
    """Make every scenario or option set of a record name code."""
    if isinstance(value, list):
        return [rewritten(each, field) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: f"evil:{'env' if field == 'scenario' else 'options'}" if name == field else rewritten(each, field)
        for name, each in value.items()
    }


@pytest.mark.parametrize("field", ["scenario", "option_set"])
@pytest.mark.parametrize("command", ["show", "evaluate", "figure", "options"])
def test_code_that_a_run_names_is_imported_only_if_it_is_trusted(command, field, stolen, tmp_path, refused):
    run = stolen(field)
    told = refused(*COMMANDS[command](str(run)))
    assert "evil:" in told
    assert "--trust" in told
    assert not (tmp_path / "imported").exists()


def test_code_that_is_trusted_is_imported(stolen, tmp_path, printed):
    printed(*COMMANDS["show"](str(stolen("scenario"))), "--trust")
    assert (tmp_path / "imported").exists()


def test_repair_removes_what_is_damaged_only_if_told_to(learned, tmp_path, refused, printed):
    run = tmp_path / "run"
    shutil.copytree(learned, run)
    (run / "learning.safetensors").write_bytes(b"no")
    assert "give --yes" in refused("repair", str(run))
    assert json.loads(printed("repair", str(run), "--json"))["removed"] == []
    assert "removed: learning.safetensors" in printed("repair", str(run), "--yes")
    assert not (run / "learning.safetensors").exists()
    assert "options" in read_run(run).manifest
