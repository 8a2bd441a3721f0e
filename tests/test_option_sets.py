"""The commands that train, list and load options, on a tiny run."""

import numpy as np
import pytest
from PIL import Image

from cooptions.artifacts import open_run
from cooptions.cli import main
from cooptions.config import config_of_run
from cooptions.envs import make_env
from cooptions.option_sets import load_options
from cooptions.options.storage import load_option_set, load_reports

DISCOVER = [
    *("--representation", "mask", "--representation.steps", "3", "--walk.transitions", "400", "--walk.num-envs", "10"),
    *("--laplacian.num-eigenfunctions", "1", "--laplacian.num-landmarks", "20"),
]
TRAIN = [
    *("--options.learner.steps", "1280", "--options.learner.batch", "8", "--options.learner.num-envs", "8"),
    *("--options.learner.learning-starts", "100", "--options.num-starts", "32", "--options.max-steps", "6"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "grid"
    main(["discover", "grid-4x4-2p", "--seeds", "2", "--out", str(path), *DISCOVER])
    main(["options", str(path), *TRAIN])
    return path


def test_every_seed_has_a_set_that_loads(run):
    env = make_env("grid-4x4-2p")
    sets = [load_option_set(run / "option_sets" / f"seed-{seed}", env) for seed in range(2)]
    assert [option.name for option in sets[0].options] == ["+e1", "-e1"]
    first, second = (options.network.head.weights[0] for options in sets)
    assert first.shape[:2] == (2, 2)  # option, agent
    assert np.abs(first - second).max() > 1e-3
    assert {report.num_starts for report in load_reports(run / "option_sets" / "seed-0")} == {256}
    assert (run / "figures" / "options.png").exists()


def test_show_lists_the_set_and_writes_a_gif(run, capsys):
    main(["show", str(run), "--seed", "1", "--gif", "+e1"])
    shown = capsys.readouterr().out
    assert "+e1" in shown
    assert "-e1" in shown
    with Image.open(run / "figures" / "option+e1.gif") as image:
        assert image.n_frames >= 1


def test_trained_options_are_not_trained_again(run):
    before = (run / "options.safetensors").stat().st_mtime_ns, (run / "option_sets" / "seed-0").stat().st_mtime_ns
    main(["options", str(run), *TRAIN])
    after = (run / "options.safetensors").stat().st_mtime_ns, (run / "option_sets" / "seed-0").stat().st_mtime_ns
    assert before == after
    with open_run(run, {}) as opened:
        config = config_of_run(opened)
        assert config.options.max_steps == 6
        assert load_options(config, opened, 0).max_steps == 6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["options", "nowhere"], "nowhere is not a run directory"),
        (["show", "nowhere"], "nowhere is not a run directory"),
        (["options", "RUN", "--options", "nope"], "options: unknown 'nope'; there are ours, paper"),
        (["options", "RUN", "--options.step-cost", "-1"], "options.step_cost must not be negative"),
        (["options", "RUN", *TRAIN, "--options.max-steps", "7"], "options.max_steps is 6 there, 7 now"),
        (["show", "RUN", "--gif", "+e7"], "option: unknown '+e7'; there are +e1, -e1"),
    ],
)
def test_bad_input_is_one_line(arguments, message, run, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([str(run) if word == "RUN" else word for word in arguments])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
