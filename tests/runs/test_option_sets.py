"""The commands that train, list and load options, on a tiny run."""

import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image, ImageSequence

from cooptions.cli.main import main
from cooptions.envs.scenarios import make_env
from cooptions.errors import CooptionsError
from cooptions.figures import options as options_figure
from cooptions.options.handmade import handmade_options
from cooptions.options.sharing.storage import load_option_set, load_reports
from cooptions.runs.option_sets import follow_named, load_options, write_option_sets
from cooptions.runs.presets import preset
from cooptions.runs.run import Run

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
    main(["discover", "grid-4x4-2p", "--seeds", "2", "--seed", "3", "--out", str(path), *DISCOVER])
    main(["options", str(path), *TRAIN])
    return path


@pytest.mark.slow
def test_every_seed_has_a_set_that_loads(run):
    env = make_env("grid-4x4-2p")
    sets = [load_option_set(run / "option_sets" / f"seed-{seed}", env) for seed in (3, 4)]
    assert [option.name for option in sets[0].options] == ["+e1", "-e1"]
    first, second = (options.network.head.weights[0] for options in sets)
    assert first.shape[:2] == (2, 2)  # option, agent
    assert np.abs(first - second).max() > 1e-3
    assert {report.num_starts for report in load_reports(run / "option_sets" / "seed-3")} == {256}
    assert (run / "figures" / "options.png").exists()


@pytest.mark.slow
def test_reports_are_of_the_eigenfunctions_of_their_own_seed(run):
    with Run.reopen(run) as opened:
        exact = np.asarray(opened.found.eigenvalues)[:, 0]
    assert exact[0] != exact[1]
    reported = [load_reports(run / "option_sets" / f"seed-{seed}")[0].eigenvalue for seed in (3, 4)]
    assert reported == pytest.approx(exact.tolist())


def test_options_are_followed_by_name():
    config = preset("grid-4x4-2p")
    options = handmade_options(config.env, ("spread", "gather"))
    gathered = follow_named(config, options, "gather", seed=0).agent_states[-1]
    np.testing.assert_array_equal(gathered[0], gathered[1])


@pytest.mark.slow
def test_show_lists_the_set_and_writes_a_gif(run, capsys):
    main(["show", str(run), "--seed", "1", "--gif", "+e1"])
    shown = capsys.readouterr().out
    assert not (run / "figures" / "option+e1-seed-3.gif").exists()
    assert "+e1" in shown
    assert "-e1" in shown
    assert "seed-4" in shown
    with Image.open(run / "figures" / "option+e1-seed-4.gif") as image:
        assert sum(1 for _ in ImageSequence.Iterator(image)) >= 1


@pytest.mark.slow
def test_trained_options_are_not_trained_again(run):
    before = (run / "options.safetensors").stat().st_mtime_ns, (run / "option_sets" / "seed-3").stat().st_mtime_ns
    main(["options", str(run), *TRAIN])
    after = (run / "options.safetensors").stat().st_mtime_ns, (run / "option_sets" / "seed-3").stat().st_mtime_ns
    assert before == after
    with Run.reopen(run) as opened:
        assert opened.config.options.max_steps == 6
        assert load_options(opened, 0).max_steps == 6


@pytest.fixture
def lose(run, monkeypatch):
    """Set weights of the trained options to NaN, by [seed, option], wherever they are read."""
    with Run.reopen(run) as opened:
        trained = opened.options

    def patch(lost):
        damaged = jax.tree.map(lambda leaf: jnp.asarray(leaf).at[lost].set(jnp.nan), trained)
        monkeypatch.setattr(Run, "options", damaged)

    return patch


@pytest.mark.slow
def test_a_seed_that_diverged_is_left_out_with_a_warning(run, tmp_path, lose, monkeypatch, capsys):
    copy = shutil.copytree(run, tmp_path / "copy")
    shutil.rmtree(copy / "option_sets" / "seed-3")
    drawn, panel = [], options_figure._panel
    monkeypatch.setattr(options_figure, "_panel", lambda found, *rest: drawn.append(found) or panel(found, *rest))
    lose((0, 1))
    main(["options", str(copy), *TRAIN])
    printed = " ".join(capsys.readouterr().out.split())
    assert "warning: seed 3 diverged (-e1): no option set is written for it" in printed
    assert "what it does" in printed
    assert [path.name for path in (copy / "option_sets").iterdir()] == ["seed-4"]
    with Run.reopen(copy) as opened:
        assert {float(found.eigenvalues[0]) for found in drawn} == {float(opened.found.seed(1).eigenvalues[0])}
    main(["show", str(copy), "--seed", "1"])
    with pytest.raises(SystemExit):
        main(["show", str(copy)])
    assert "seed-3: no option set" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_whose_seeds_all_diverged_fails(run, lose):
    lose(...)
    with Run.reopen(run) as opened, pytest.raises(CooptionsError, match="the options of every seed diverged"):
        write_option_sets(opened)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["options", "nowhere"], "nowhere is not a run directory"),
        (["show", "nowhere"], "nowhere is not a run directory"),
        (["options", "RUN", "--options", "nope"], "options: unknown 'nope'; there are ours, paper"),
        (["options", "RUN", "--options.step-cost", "-1"], "options.step_cost must not be negative"),
        (["options", "RUN", "--options.max-steps", "7"], "options.max_steps is 50 there, 7 now"),
        (["show", "RUN", "--seed", "1"], "seed: options were discovered by seeds 0 to 0, not 1"),
        (["show", "RUN", "--gif", "+e7"], "option: unknown '+e7'; there are +e1, -e1"),
    ],
)
def test_bad_input_is_one_line(arguments, message, learned, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([str(learned) if word == "RUN" else word for word in arguments])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
