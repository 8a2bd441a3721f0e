import json
import subprocess
import sys
from pathlib import Path

import pytest

from cooptions.cli.main import COMMANDS, main
from cooptions.runs.directory import open_run

WALK = ["--walk.transitions", "200", "--walk.num-envs", "10"]
BRIEFLY = ["--learning.learner.steps", "640", "--learning.evaluations", "1", "--learning.episodes", "1"]


def _fails(arguments, capsys):
    """The one line a failing command prints."""
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1, lines
    return lines[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["wlak", "quick"], "unknown command 'wlak'"),
        (["walk", "lbf-15x15-4p"], "did you mean lbf-15x15-4p-5f"),
        (["walk", "lbf-5x5-2p-3f"], "grid_size 5 is too small for 3 apples"),
        (["walk", "lbf-15x15-0p-3f"], "num_agents must be at least 1"),
        (["walk", "overcooked-kitchen"], "layout"),
        (["walk", "quick", "--walk.transitions", "-5"], "walk.transitions must be at least 1, not -5"),
        (["walk", "quick", "--walk.features", "z"], "unknown feature 'z'"),
        (["walk", "quick", "--seeds", "0"], "seeds must be at least 1"),
        (["walk", "quick", "--scenario", "lbf"], "scenario"),
        (["walk", "--seeds", "2"], "first argument"),
        (["walk", "quick", "--options.learner.steps", "9000"], "nothing here uses the flags of options"),
        (["train", "quick", "--method", "iql", *BRIEFLY, *WALK], "nothing here uses the flags of walk"),
        (["train", "quick", "--learning.learner.learning-rate", "-1"], "learning_rate must not be negative, not -1"),
        (["train", "quick", "--learning.learner.epsilon-start", "5"], "epsilon_start must lie in [0, 1], not 5"),
        (["compare"], "name at least one run directory"),
    ],
)
def test_bad_input_is_one_line_that_names_the_field(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert message in _fails(arguments, capsys)
    assert not list(tmp_path.iterdir()), "a refused command must leave nothing behind"


def test_factorisation_of_the_wrong_shape_is_refused(tmp_path, monkeypatch, capsys):
    (tmp_path / "wrong.py").write_text(
        "import jax.numpy as jnp\n"
        "from dataclasses import dataclass\n"
        "from cooptions.envs.grid import Grid\n"
        "class Wrong(Grid):\n"
        "    def agent_states(self, state): return jnp.zeros((2, 3))\n"
        "env = Wrong(5, 5, 2)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert "agent_states has shape (2, 3), expected (2, 2)" in _fails(["walk", "wrong:env"], capsys)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "walk"
    main(["walk", "grid-5x5-2p", "--out", str(out), *WALK])
    return out


def test_walk_makes_a_run_directory(made):
    assert {path.name for path in made.iterdir()} == {
        "config.json", "manifest.json", "walk.safetensors", "lock", "figures", "summary.json",
    }  # fmt: skip
    assert (made / "figures/walk.png").stat().st_size > 5000
    assert json.loads((made / "summary.json").read_text())["scenario"] == "grid-5x5-2p"


def test_finished_stage_is_skipped(made):
    before = (made / "walk.safetensors").stat().st_mtime_ns
    main(["walk", "grid-5x5-2p", "--out", str(made), *WALK])
    assert (made / "walk.safetensors").stat().st_mtime_ns == before


def test_directory_of_another_configuration_is_refused(made, capsys):
    message = _fails(["walk", "grid-5x5-2p", "--out", str(made), "--walk.transitions", "400"], capsys)
    assert "walk.transitions is 200 there, 400 now" in message


def test_no_episodes_are_refused(made, capsys):
    assert "episodes must be at least 1, not 0" in _fails(["evaluate", str(made), "--episodes", "0"], capsys)


def test_where_nothing_was_discovered_no_options_are_trained(made, capsys):
    assert "nothing was discovered here" in _fails(["options", str(made)], capsys)


def test_a_figure_says_which_command_makes_what_it_lacks(made, capsys):
    message = _fails(["figure", "options", "--run", str(made)], capsys)
    assert "needs options; made by `cooptions options`" in message


def test_directory_held_by_another_process_is_refused(made, capsys):
    with open_run(made, {}):
        assert "held by process" in _fails(["walk", "grid-5x5-2p", "--out", str(made), *WALK], capsys)


def test_damaged_artefact_is_refused(made, capsys):
    path = made / "walk.safetensors"
    content = path.read_bytes()
    try:
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        assert "walk.safetensors: damaged" in _fails(["walk", "grid-5x5-2p", "--out", str(made), *WALK], capsys)
    finally:
        path.write_bytes(content)


def test_full_disk_is_one_line(tmp_path):
    limited = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
    script = f"{limited}from cooptions.cli.main import main; main(sys.argv[1:])"
    arguments = ["walk", "grid-5x5-2p", "--out", str(tmp_path / "run"), *WALK]
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True)
    assert done.returncode == 2
    assert "walk.safetensors: cannot be written" in done.stderr.strip().splitlines()[-1]


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    assert all(command in printed for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0
    assert "usage: cooptions" in capsys.readouterr().out


def test_help_names_the_parts_that_can_be_swapped(capsys):
    for command, lines in {
        "discover": ["--representation NAME: scalar, cmi, mask, hit, raw_joint", "--laplacian NAME: allo, nystrom"],
        "train": ["--options NAME: ours, paper", "--method NAME: iql, vdn,", "; each alone or with +iaro, "],
    }.items():
        with pytest.raises(SystemExit):
            main([command, "--help"])
        shown = " ".join(capsys.readouterr().out.split())
        assert all(line in shown for line in lines), shown


def test_list_is_readable_and_machine_readable(capsys):
    main(["list"])
    assert "lbf-15x15-4p-3f" in capsys.readouterr().out
    main(["list", "--json"])
    catalogue = json.loads(capsys.readouterr().out)
    assert "overcooked-counter_circuit" in catalogue["scenarios"]
    assert "quick" in catalogue["presets"]


def test_help_is_quick_to_import():
    """`cooptions --help` must not wait for JAX."""
    code = "import sys, cooptions.cli.main; assert 'jax' not in sys.modules, 'cli imports jax'"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent)
