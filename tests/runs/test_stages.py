"""Stages in which seeds share the discoveries of others."""

from functools import partial

import jax
import numpy as np
import pytest

from cooptions.cli.main import main
from cooptions.discovery.walks import WalkConfig
from cooptions.envs.grid import Grid
from cooptions.errors import ArtifactError, ConfigError
from cooptions.learners.networks import init_team
from cooptions.options.macro import MacroConfig
from cooptions.runs.config import Config, LearningConfig, config_of_run, plain_fields
from cooptions.runs.directory import RunDirectory, open_run
from cooptions.runs.learned import evaluate_run
from cooptions.runs.option_sets import load_options
from cooptions.runs.run import Run
from cooptions.runs.stages import stage_configs

TINY = [
    *("--representation", "mask", "--representation.steps", "3", "--walk.transitions", "400", "--walk.num-envs", "10"),
    *("--laplacian.num-eigenfunctions", "1", "--laplacian.num-landmarks", "20"),
    *("--options.learner.steps", "640", "--options.learner.batch", "8", "--options.learner.num-envs", "8"),
    *("--options.learner.learning-starts", "100", "--options.num-starts", "32", "--options.max-steps", "6"),
    *("--learning.learner.steps", "1600", "--learning.learner.num-envs", "4", "--learning.learner.rollout", "10"),
    *("--learning.learner.batch", "4", "--learning.learner.capacity", "400", "--learning.learner.learning-starts"),
    *("80", "--learning.learner.network.hidden", "8", "8", "--learning.evaluations", "2", "--learning.episodes", "3"),
]


SEEDS = dict.fromkeys(("walk", "representation", "spectrum", "options"), 2) | {"learning": 3}
SHARING = Config(
    "grid-4x4-2p",
    seeds=3,
    walk=WalkConfig(transitions=400, num_envs=10),
    learning=LearningConfig("iql+hit", macro=MacroConfig(discoveries=2)),
)
"""Three seeds, the first two of which discover."""


def test_seeds_without_a_discovery_share_those_of_others(tmp_path):
    """Learning with copied options needs nothing else of their discovery."""
    env, keys = SHARING.env, jax.random.split(jax.random.key(0), (2, len(SHARING.eigenoptions)))
    learner = SHARING.options.learner
    team = partial(init_team, env, learner.network, env.num_actions + 1 - learner.fixed_last)
    found = jax.vmap(jax.vmap(lambda key: team(key=key)))(keys)
    with open_run(tmp_path, stage_configs(SHARING, "learning")) as run:
        run.save("options", found, seconds=0.0)
        used = Run(SHARING, run).task.options
    assert list(run.manifest) == ["options"]
    weights, theirs = used.network.head.weights[0], found.head.weights[0]
    np.testing.assert_array_equal(weights, theirs[np.array([0, 1, 0])])
    assert (weights[0] != weights[1]).any()


def test_only_some_seeds_discover(tmp_path):
    configs = stage_configs(SHARING, "learning")
    assert {name: stage["seeds"] for name, stage in configs.items()} == SEEDS
    with open_run(tmp_path, configs) as run:
        config = config_of_run(run)
        assert (config.seeds, config.discovering.seeds) == (3, 2)
        assert len(Run(config, run).walk.states) == 2
        with pytest.raises(ConfigError, match="seed: options were discovered by seeds 0 to 1, not 2"):
            load_options(Run(config, run), 2)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Three seeds that learn, the first two of which discover."""
    path = tmp_path_factory.mktemp("runs") / "run"
    which = ["grid-4x4-2p,time_limit=10", "--method", "iql+mask", "--seeds", "3", "--learning.macro.discoveries", "2"]
    main(["train", *which, *TINY, "--out", str(path)])
    return path


@pytest.mark.slow
def test_seeds_share_the_discovered_options(run):
    with Run.reopen(run) as opened:
        found, used = opened.options, opened.task.options
    assert {name: entry["config"]["seeds"] for name, entry in opened.directory.manifest.items()} == SEEDS
    for mine, theirs in zip(jax.tree.leaves(used), jax.tree.leaves(found), strict=True):
        np.testing.assert_array_equal(mine, theirs[np.array([0, 1, 0])])
    weights = used.network.head.weights[0]
    assert np.abs(weights[0] - weights[1]).max() > 1e-3


@pytest.mark.slow
def test_options_of_such_a_run_can_be_shown(run, capsys):
    before = RunDirectory(run).manifest
    main(["options", str(run)])
    main(["show", str(run), "--seed", "1"])
    assert RunDirectory(run).manifest == before
    assert sorted(path.name for path in (run / "option_sets").iterdir()) == ["seed-0", "seed-1"]
    main(["evaluate", str(run), "--episodes", "2"])
    with pytest.raises(SystemExit):
        main(["show", str(run), "--seed", "2"])
    assert "seed: options were discovered by seeds 0 to 1, not 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("number", "message"),
    [("4", "macro.discoveries must be at most 3, the number of seeds, not 4"), ("-1", "must be at least 0, not -1")],
)
def test_wrong_numbers_of_discoveries_are_refused(number, message, tmp_path, capsys):
    which = ["grid-4x4-2p", "--method", "iql+mask", "--seeds", "3", f"--learning.macro.discoveries={number}"]
    with pytest.raises(SystemExit):
        main(["train", *which, *TINY, "--out", str(tmp_path)])
    assert message in " ".join(capsys.readouterr().err.split())


def test_defaults_behind_a_name_are_recorded(tmp_path, monkeypatch):
    config = Config("grid-4x4-2p")
    assert plain_fields(config.env)["time_limit"] == 100
    with open_run(tmp_path, stage_configs(config, "walk")) as opened:
        assert config_of_run(opened).scenario == "grid-4x4-2p"
        opened.save("walk", {"states": np.ones(1)}, seconds=0.0)
    monkeypatch.setattr("cooptions.runs.config.make_env", lambda _: Grid(4, 4, 2, time_limit=50))  # a later default
    message = "env.time_limit is 100 there, 50 now"
    with pytest.raises(ArtifactError, match=message), open_run(tmp_path, stage_configs(Config("grid-4x4-2p"), "walk")):
        pass


def _map(path, *rows):
    path.write_text("\n".join(rows))
    return Config(f"grid-2x3-2p,map={path}", walk=WalkConfig(transitions=40, num_envs=4))


def test_a_map_that_changed_is_another_configuration(tmp_path):
    map_file, place = tmp_path / "map.txt", tmp_path / "run"
    with open_run(place, stage_configs(_map(map_file, "...", ".#."), "walk")) as run:
        _ = Run(config_of_run(run), run).walk
    with open_run(place, stage_configs(_map(map_file, "...", ".#."), "walk")):
        pass
    with (
        pytest.raises(ArtifactError, match=r"walk: files\..*map\.txt is '.*' there, '.*' now; choose another --out"),
        open_run(place, stage_configs(_map(map_file, "...", "#.."), "walk")),
    ):
        pass


def test_an_option_set_that_changed_is_another_configuration(tmp_path):
    """Its manifest has the hashes of all its files."""

    def configs():
        macro = MacroConfig(option_set=str(tmp_path))
        return stage_configs(Config("grid-4x4-2p", learning=LearningConfig("iql", macro=macro)), "learning")

    named = configs()
    assert "files" not in named["learning"]  # no such set; loading raises the error
    (tmp_path / "manifest.json").write_text("one")
    one = configs()
    (tmp_path / "manifest.json").write_text("two")
    assert len({str(each) for each in (named, one, configs())}) == 3
    assert "files" not in stage_configs(SHARING, "learning")["learning"]


@pytest.mark.slow
def test_a_run_reads_each_artefact_at_most_once(learned, monkeypatch):
    read, load = [], RunDirectory.load
    monkeypatch.setattr(RunDirectory, "load", lambda place, name: read.append(name) or load(place, name))
    main(["options", str(learned)])
    main(["show", str(learned)])
    assert max(map(read.count, set(read))) == 1, read


def test_shapes_come_from_the_configuration(learned):
    """Options are restored without the walk or the representation."""
    with Run.reopen(learned) as opened:
        for name in ("walk", "representation", "spectrum"):
            opened.directory.file(f"{name}.safetensors").rename(opened.directory.file(f"{name}.gone"))
        try:
            assert opened.options.num_options == 2
        finally:
            for name in ("walk", "representation", "spectrum"):
                opened.directory.file(f"{name}.gone").rename(opened.directory.file(f"{name}.safetensors"))


@pytest.mark.slow
def test_a_second_run_of_an_equal_configuration_compiles_nothing(tmp_path):
    """A process may make many runs, and each compiled program holds memory until it ends."""
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **details: compiled.append(event) if event.endswith("compile_duration") else None
    )
    for seed in ("0", "1"):
        compiled.clear()
        main(["train", "grid-4x4-2p,time_limit=10", "--seed", seed, *TINY, "--out", str(tmp_path / seed)])
        with Run.reopen(tmp_path / seed) as run:
            evaluate_run(run, 3, run.config.keys("evaluate"))
        assert bool(compiled) == (seed == "0")
