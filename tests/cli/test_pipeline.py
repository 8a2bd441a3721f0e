"""The commands that make the stages of a run directory."""

import json
import subprocess
import sys

import pytest

from cooptions.cli.main import main
from cooptions.runs.directory import open_run

WALK = ["--walk.transitions", "200", "--walk.num-envs", "10"]
BRIEFLY = ["--learning.learner.steps", "640", "--learning.evaluations", "1", "--learning.episodes", "1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["wlak", "quick"], "unknown command 'wlak'"),
        (["walk", "lbf-15x15-4p"], "did you mean lbf-15x15-4p-5f"),
        (["walk", "lbf-5x5-2p-3f"], "grid_size 5 is too small for 3 apples"),
        (["walk", "lbf-15x15-0p-3f"], "num_agents must be at least 1"),
        (["walk", "overcooked-kitchen"], "not of the form overcooked-LAYOUT"),
        (["walk", "quick", "--walk.transitions", "-5"], "walk.transitions must be at least 1, not -5"),
        (["walk", "quick", "--walk.features", "z"], "unknown feature 'z'"),
        (["walk", "quick", "--seeds", "0"], "seeds must be at least 1"),
        (["walk", "quick", "--scenario", "lbf"], "scenario"),
        (["walk", "--seeds", "2"], "first argument"),
        (["walk", "quick", "--options.learner.steps", "9000"], "nothing here uses the flags of options"),
        (["train", "quick", "--method", "iql", *BRIEFLY, *WALK], "nothing here uses the flags of walk"),
        (["train", "quick", "--learning.learner.learning-rate", "-1"], "learning.learner.learning_rate must not be"),
        (
            ["train", "quick", "--options.learner.network.hidden", "0"],
            "options.learner.network.hidden must be at least",
        ),
        (["train", "quick", "--learning.learner.batch", "0"], "learning.learner.batch must be at least 1"),
        (["train", "quick", "--learning.learner.epsilon-start", "5"], "epsilon_start must lie in [0, 1], not 5"),
        (["compare"], "name at least one run directory"),
    ],
)
def test_bad_input_is_one_line_that_names_the_field(arguments, message, tmp_path, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    assert message in refused(*arguments)
    assert not list(tmp_path.iterdir()), "a refused command must leave nothing behind"


def test_factorisation_of_the_wrong_shape_is_refused(tmp_path, monkeypatch, refused):
    (tmp_path / "wrong.py").write_text(
        "import jax.numpy as jnp\n"
        "from dataclasses import dataclass\n"
        "from cooptions.envs.grid import Grid\n"
        "class Wrong(Grid):\n"
        "    def agent_states(self, state): return jnp.zeros((2, 3))\n"
        "env = Wrong(5, 5, 2)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert "agent_states has shape (2, 3), expected (2, 2)" in refused("walk", "wrong:env")


def test_walk_makes_a_run_directory(walked):
    assert {path.name for path in walked.iterdir()} == {
        "config.json", "manifest.json", "walk.safetensors", "lock", "figures", "run.yaml", "summary.json",
    }  # fmt: skip
    assert (walked / "figures/walk.png").stat().st_size > 5000
    assert json.loads((walked / "summary.json").read_text())["scenario"] == "grid-5x5-2p"


def test_finished_stage_is_skipped(walked):
    before = (walked / "walk.safetensors").stat().st_mtime_ns
    main(["walk", "grid-5x5-2p", "--out", str(walked), *WALK])
    assert (walked / "walk.safetensors").stat().st_mtime_ns == before


def test_directory_of_another_configuration_is_refused(walked, refused):
    message = refused("walk", "grid-5x5-2p", "--out", str(walked), "--walk.transitions", "400")
    assert "walk.transitions is 200 there, 400 now" in message


def test_no_episodes_are_refused(walked, refused):
    assert "episodes must be at least 1, not 0" in refused("evaluate", str(walked), "--episodes", "0")


def test_options_need_a_discovery(walked, refused):
    assert "nothing was discovered here" in refused("options", str(walked))


def test_a_figure_says_which_command_makes_what_it_lacks(walked, refused):
    message = refused("figure", "options", "--run", str(walked))
    assert "needs options; made by `cooptions options`" in message


def test_directory_held_by_another_process_is_refused(walked, refused):
    with open_run(walked, {}):
        assert "held by process" in refused("walk", "grid-5x5-2p", "--out", str(walked), *WALK)


def test_damaged_artefact_is_refused(walked, refused):
    path = walked / "walk.safetensors"
    content = path.read_bytes()
    try:
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        assert "walk.safetensors: damaged" in refused("walk", "grid-5x5-2p", "--out", str(walked), *WALK)
    finally:
        path.write_bytes(content)


def test_full_disk_is_one_line(tmp_path):
    limited = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))\n"
    script = f"{limited}from cooptions.cli.main import main; main(sys.argv[1:])"
    arguments = ["walk", "grid-5x5-2p", "--out", str(tmp_path / "run"), "--walk.transitions", "5000"]
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True)
    assert done.returncode == 2
    assert "walk.safetensors: cannot be written" in done.stderr.strip().splitlines()[-1]


def test_the_configuration_that_a_run_keeps_makes_it_again(walked, tmp_path):
    main(["walk", "--config", str(walked / "run.yaml"), "--out", str(tmp_path / "again")])
    assert (tmp_path / "again/run.yaml").read_text() == (walked / "run.yaml").read_text()
    assert (tmp_path / "again/walk.safetensors").read_bytes() == (walked / "walk.safetensors").read_bytes()


def test_a_command_ends_by_naming_the_next(walked, printed):
    told = printed("walk", "grid-5x5-2p", "--out", str(walked), *WALK).splitlines()[-1]
    assert told == f"next: cooptions discover --config {walked}/run.yaml --out {walked}"


def test_learning_flags_of_discover_are_kept_for_train(walked, tmp_path, monkeypatch):
    """`options` has only the run directory, so it must preserve the learning flags given to `discover`."""
    from cooptions.cli.existing import _as_to_be_learned
    from cooptions.runs.config import Config, LearningConfig
    from cooptions.runs.recipe import write_recipe

    config = Config("grid-5x5-2p", learning=LearningConfig("mine", evaluations=3))
    write_recipe(tmp_path, config, "discover")
    assert _as_to_be_learned(Config("grid-5x5-2p"), tmp_path / "run.yaml", False) == config


def test_an_unknown_tracker_is_refused(tmp_path, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    assert "track must be one of none, tensorboard, wandb" in refused("walk", "quick", "--track", "paper")
