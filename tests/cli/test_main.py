import importlib
import os
import signal
import subprocess
import sys
from importlib.machinery import ExtensionFileLoader

import pytest

from cooptions.cli.main import COMMANDS, main
from cooptions.errors import Interrupted

HEAVY = ("jax", "jaxmarl", "jumanji", "numpy", "equinox", "matplotlib", "scipy", "tyro", "orbax", "wandb")


def imported_by(words):
    """The heavy packages that a command imports."""
    code = (
        "import sys\nfrom cooptions.cli.main import main\n"
        f"try: main({words!r})\nexcept SystemExit: pass\n"
        f"print('imported:', *[name for name in {HEAVY!r} if name in sys.modules], file=sys.__stdout__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split()[1:])


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--help"],
        ["--version"],
        ["list"],
        ["list", "--json"],
        ["tarin"],
        ["train", "qiuck"],
        ["train", "lbf-15x15-4p"],
        ["walk", "overcooked-crampd_room"],
        ["walk", "mpe-simple_spred-4p"],
        ["walk", "smax-3m,time_limt=9"],
        ["train", "quick", "--sedes", "3"],
        ["figure", "wlak"],
    ],
    ids=" ".join,
)
def test_an_answer_that_needs_no_jax_imports_none(words):
    assert imported_by(words) == set()


@pytest.mark.parametrize("words", [["train", "--help"], ["train", "quick", "--learning.leaner.steps", "1"]])
def test_help_of_training_imports_no_environment_and_no_pictures(words):
    assert not imported_by(words) & {"jaxmarl", "jumanji", "matplotlib", "scipy", "tyro", "orbax", "wandb"}


def test_help_names_every_command(printed):
    told = printed("--help")
    assert all(f"  {name} " in told for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("flag", ["--help", "-h", "--help-all"])
def test_every_command_has_help(command, flag, printed):
    assert printed(command, flag).startswith(f"usage: cooptions {command}")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_mistyped_flag_is_one_line_with_the_nearest(command, refused):
    assert "unknown flag --halp" in refused(command, "--halp")


def test_a_mistyped_command_is_one_line_with_the_nearest(refused):
    assert refused("tarin", "quick").endswith("unknown command 'tarin'; did you mean train or run?")
    assert "did you mean --version?" in refused("--versoin")


def test_no_command_is_an_error(capsys):
    with pytest.raises(SystemExit) as stopped:
        main([])
    assert stopped.value.code == 2
    assert "usage: cooptions" in capsys.readouterr().out


def test_version_is_printed(printed):
    assert printed("--version").split()[0] == "cooptions"


def test_a_stop_while_a_command_is_imported_is_one_line(monkeypatch, capsys):
    def stop(name):
        raise KeyboardInterrupt

    monkeypatch.setattr(importlib, "import_module", stop)
    with pytest.raises(SystemExit) as stopped:
        main(["train", "quick"])
    assert stopped.value.code == 130
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_stop_that_an_import_turns_into_another_error_is_one_line(monkeypatch, capsys):
    """If an extension module is interrupted during its import, it can raise `ImportError` instead."""

    def stop(name):
        try:
            signal.raise_signal(signal.SIGINT)
        except Interrupted:
            raise ImportError("an error while initializing the extension") from None

    monkeypatch.setattr(importlib, "import_module", stop)
    with pytest.raises(SystemExit) as stopped:
        main(["train", "quick"])
    assert stopped.value.code == 130
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_stop_while_an_extension_begins_ends_the_process_at_once(monkeypatch, capfd):
    """An error that is raised there would abort it: C++ lets none through."""

    class Loader(ExtensionFileLoader):
        def exec_module(self, module):
            try:
                signal.raise_signal(signal.SIGINT)
            except Interrupted:
                pytest.fail("raised within an extension")

    def end(code):
        raise SystemExit(code)

    monkeypatch.setattr(importlib, "import_module", lambda name: Loader("name", "path").exec_module(None))
    monkeypatch.setattr(os, "_exit", end)
    with pytest.raises(SystemExit) as stopped:
        main(["train", "quick"])
    assert stopped.value.code == 130
    assert capfd.readouterr().err.splitlines() == [
        "cooptions: stopped; finished stages are kept: run the same command to go on"
    ]
