"""Runs whose options are of some of the team's agents."""

import jax
import numpy as np
import pytest

from cooptions.cli.early import RunArguments, divide_early
from cooptions.cli.main import main
from cooptions.cli.pipeline import asked_for
from cooptions.envs.scenarios import make_env
from cooptions.envs.subteam import SubteamEnv
from cooptions.errors import ConfigError
from cooptions.files import decode, encode
from cooptions.options.handmade import HandmadeOptions
from cooptions.options.sharing.storage import load_option_set
from cooptions.runs.config import Config, config_of_run
from cooptions.runs.directory import read_run
from cooptions.runs.recipe import read_recipe
from cooptions.runs.run import Run, given_options
from cooptions.runs.stages import STAGES, stage_configs

FLAGS = [
    *("--representation.steps", "3", "--walk.transitions", "400", "--walk.num-envs", "10"),
    *("--laplacian.num-eigenfunctions", "1", "--laplacian.num-landmarks", "20"),
]
TRAIN = [
    *("--options.learner.steps", "640", "--options.learner.batch", "8", "--options.learner.num-envs", "8"),
    *("--options.learner.learning-starts", "100", "--options.num-starts", "32", "--options.max-steps", "6"),
]


def config_of(*words, command="train"):
    return asked_for(command, RunArguments, *divide_early(command, RunArguments, words))


@pytest.mark.parametrize(
    ("words", "members"),
    [
        ((), 0),
        (("--members", "2"), 2),
        (("--members=3",), 3),
        (("--members", "0", "2"), (0, 2)),
        (("--members", "0"), 0),
    ],
)
def test_the_command_line_says_who_takes_part(words, members):
    config = config_of("grid-10x10-4p,task=meet-pairs", "--method", "iql-ns+hit", *words)
    assert config.members == members
    assert decode(Config, encode(config), "config") == config


def test_a_file_says_who_takes_part(tmp_path):
    path = tmp_path / "run.yaml"
    for text, members in (("members: 2", 2), ("members: [0, 2]", (0, 2))):
        path.write_text(f"scenario: grid-5x5-4p\n{text}\n")
        assert read_recipe(path)["members"] == (2 if members == 2 else [0, 2])
        assert config_of("--config", str(path)).members == members


def test_a_walk_is_of_the_whole_team_whoever_the_members_are():
    with pytest.raises(ConfigError, match="nothing here uses the flags of members"):
        config_of("grid-5x5-4p", "--members", "2", command="walk")


def test_stages_of_the_whole_team_are_those_from_before_there_were_members():
    """Results that are stored keep their keys."""
    whole, pairs = (stage_configs(Config("grid-5x5-4p", members=members), "options") for members in (0, 2))
    assert all("members" not in stage for stage in whole.values())
    assert pairs["walk"] == whole["walk"]
    assert {name: stage.get("members") for name, stage in pairs.items()} == dict.fromkeys(pairs, 2) | {"walk": None}
    learning = stage_configs(config_of("grid-5x5-4p", "--method", "iql+handmade", "--members", "2"), "learning")
    assert learning["learning"]["members"] == 2
    assert "members" in STAGES["learning"].fields


@pytest.mark.parametrize(
    ("scenario", "members", "told"),
    [
        ("grid-5x5-4p", 5, "members must be at most 4, not 5"),
        ("grid-5x5-4p", (0, 0), "members must be two or more different agents"),
        ("grid-5x5-3p,types=122", 2, r"\(1, 2\) of types 1, 1: say which"),
    ],
)
def test_members_that_there_are_none_of_are_refused_before_anything_is_made(scenario, members, told, tmp_path):
    config = Config(scenario, members=members)
    with pytest.raises(ConfigError, match=told), Run.open(config, tmp_path, "spectrum"):
        pass
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "pairs"
    main(["discover", "grid-4x4-4p", "--members", "2", "--out", str(path), *FLAGS])
    main(["options", str(path), *TRAIN])
    return path


@pytest.mark.slow
def test_a_run_finds_and_trains_options_of_its_members(run):
    assert config_of_run(read_run(run)).members == 2
    with Run.reopen(run) as opened:
        assert opened.walk.states.shape[-2] == 4
        assert opened.found.team.num_agents == 2
        assert opened.options.options[0].members == (True, True)
        first, again = (Run(opened.config, opened.directory).spectrum for _ in range(2))
    assert jax.tree.all(jax.tree.map(np.array_equal, first, again))
    assert (run / "figures/relations.png").exists()
    assert (run / "figures/options.png").exists()


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["grid-4x4-4p", "grid-4x4-2p", "grid-4x4-3p,task=meet"])
def test_its_set_fits_every_team_that_has_such_agents(run, scenario):
    options = load_option_set(run, make_env(scenario))
    assert options.view.team.num_agents == 2
    card = (run / "option_sets/seed-0/README.md").read_text()
    assert "options for 2 of 4 agents in grid-4x4-4p" in card


@pytest.mark.slow
def test_its_options_are_shown_with_everybody(run):
    main(["show", str(run), "--gif", "+e1"])
    assert (run / "figures/option+e1-seed-0.gif").stat().st_size > 1000


def test_options_that_are_given_are_of_the_members_too():
    config = config_of("grid-5x5-4p", "--method", "iql+handmade", "--members", "2")
    options = given_options(config.learning.macro.option_set, config.option_env)
    assert isinstance(options, HandmadeOptions)
    assert {len(option.members) for option in options.options} == {2}
    assert config.option_env == SubteamEnv(config.env, 2)
