import json
from dataclasses import replace

import jax
import numpy as np
import pytest
from rich.console import Console

from cooptions.cli.main import main
from cooptions.discovery.discover import Standard, encode_walk, fit_representation, fit_spectrum
from cooptions.discovery.discovered import Discovered, untrained
from cooptions.discovery.laplacian.allo import Allo
from cooptions.discovery.laplacian.exact import Exact
from cooptions.discovery.laplacian.kronecker import Kronecker
from cooptions.discovery.laplacian.nystrom import Nystrom
from cooptions.discovery.oracles import eigen_cosine, eigenvalue_clusters, joint_grid_spectrum
from cooptions.discovery.representations.distance import DistanceConfig
from cooptions.discovery.representations.hit import Hit
from cooptions.discovery.representations.mask import Mask
from cooptions.discovery.representations.raw import RawJoint
from cooptions.discovery.walks import WalkConfig, index_futures, walk_seeds
from cooptions.errors import ConfigError
from cooptions.figures.draw import draw
from cooptions.files import decode, encode
from cooptions.runs.config import Config
from cooptions.runs.directory import RunDirectory
from cooptions.runs.paper import METHODS
from cooptions.runs.presets import preset
from cooptions.runs.run import Run
from cooptions.training.progress import Progress

SMALL_MASK = Mask(distance=DistanceConfig(num_pairs=64, hidden=(32,)), steps=400)
SMALL = Config(
    scenario="grid-7x7-2p",
    walk=WalkConfig(transitions=20_000),
    representation=SMALL_MASK,
    laplacian=Nystrom(num_eigenfunctions=4, num_landmarks=60),
)


@pytest.fixture(scope="module")
def found():
    dataset = index_futures(walk_seeds(SMALL.env, SMALL.walk, SMALL.keys("walk")))
    state = fit_representation(SMALL.discovery, dataset, SMALL.keys("representation"))
    spectrum = fit_spectrum(SMALL.discovery, state, dataset.walk, SMALL.keys("laplacian"))
    one_state, one_spectrum = jax.tree.map(lambda leaf: leaf[0], (state, spectrum))
    evaluator = jax.jit(Discovered.evaluator)(Discovered(SMALL.discovery, one_state, one_spectrum))
    return dataset, jax.jit(jax.vmap(evaluator)), spectrum


def test_eigenfunctions_are_standardised_along_the_walk(found):
    dataset, eigenfunctions, _ = found
    values = np.asarray(eigenfunctions(dataset.walk.states[0].reshape(-1, 2, 2)))
    assert values.mean(axis=0) == pytest.approx(np.zeros(4), abs=0.05)
    assert np.corrcoef(values.T) == pytest.approx(np.eye(4), abs=0.08)
    assert values.std(axis=0) == pytest.approx(np.ones(4), abs=0.05)


def test_first_function_gathers_and_second_sets_x_against_y(found):
    _, eigenfunctions, _ = found
    together, same_x, same_y, apart = np.asarray(
        eigenfunctions(np.array([[[3, 3], [3, 3]], [[3, 0], [3, 6]], [[0, 3], [6, 3]], [[0, 0], [6, 6]]]))
    )
    assert together[0] > max(same_x[0], same_y[0])
    assert min(same_x[0], same_y[0]) > apart[0]
    assert np.sign(same_x[1]) == -np.sign(same_y[1])
    assert abs(same_x[1] - same_y[1]) > 3 * abs(together[1] - apart[1])


def test_eigenvalues_are_those_of_slow_functions(found):
    _, _, spectrum = found
    values = np.asarray(spectrum.canonical.eigenvalues[0])
    assert (values > 0).all()
    assert (values < 0.6).all()


def test_eigenfunctions_that_are_no_numbers_are_refused(tmp_path):
    config = Config(
        scenario="grid-3x3-2p",
        walk=WalkConfig(transitions=2_000),
        representation=RawJoint(),
        laplacian=Exact(num_eigenfunctions=2, max_values=10),
    )
    with Run.open(config, tmp_path, "spectrum") as run:
        with pytest.raises(ConfigError, match="laplacian.max_values distinct values"):
            run.make("spectrum")
        assert not run.has("spectrum")


def test_eigenfunctions_that_there_are_none_of_are_told(tmp_path, capsys):
    """Two agents on three cells are in one of nine states: eight functions, and a constant."""
    config = Config(
        scenario="grid-1x3-2p",
        seed=5,
        walk=WalkConfig(transitions=2_000),
        representation=RawJoint(),
        laplacian=Nystrom(num_eigenfunctions=12, num_landmarks=20),
    )
    with Run.open(config, tmp_path, "spectrum", Progress(Console(width=200))) as run:
        spectrum = run.spectrum
    assert spectrum.num_missing.tolist() == [4]
    assert "the walk of seed 5 has 8 eigenfunctions, not 12" in capsys.readouterr().out


def test_kronecker_finds_the_joint_eigenspace_from_single_agents():
    config = Config(
        scenario="grid-5x5-2p",
        walk=WalkConfig(transitions=100_000),
        representation=RawJoint(),
        laplacian=Kronecker(8, Exact(num_eigenfunctions=12, max_values=30)),
        basis="learned",
    )
    dataset = index_futures(walk_seeds(config.env, config.walk, config.keys("walk")))
    state = fit_representation(config.discovery, dataset, config.keys("representation"))
    spectrum = fit_spectrum(config.discovery, state, dataset.walk, config.keys("laplacian"))
    teams, exact = joint_grid_spectrum(config.env.free, 2, 20)
    one_state, one_spectrum = jax.tree.map(lambda leaf: leaf[0], (state, spectrum))
    function = jax.jit(jax.vmap(lambda s: config.discovery.eigenfunctions(one_state, one_spectrum, s)))
    values = np.asarray(function(teams.astype(np.uint8)), float)
    cosine = eigen_cosine(values, exact.weights, exact.eigenfunctions, eigenvalue_clusters(exact.eigenvalues))
    assert cosine[:4].min() > 0.97


def test_z_follows_the_walk_across_the_ends_of_episodes(found):
    """Each state is encoded once; where an episode ended, what follows is not where the next one begins."""
    dataset, _, _ = found
    assert dataset.walk.last.sum() > 100
    config = replace(SMALL, representation=RawJoint())
    _, pairs = encode_walk(config.discovery, None, dataset.walk)
    expected = [np.asarray(s[0]).reshape(-1, 4) / 3.0 - 1 for s in (dataset.walk.states, dataset.walk.next_states)]
    np.testing.assert_allclose(pairs.z[0], expected[0], atol=1e-6)
    np.testing.assert_allclose(pairs.next_z[0], expected[1], atol=1e-6)


def test_uninformative_component_is_left_out():
    rng = np.random.default_rng(0)
    z = jax.numpy.asarray(np.stack([rng.normal(size=1000), np.full(1000, 2.0)], axis=1), np.float32)
    standard = Standard.of(z, z + 0.01)
    assert np.asarray(standard(z))[:, 1] == pytest.approx(np.zeros(1000))
    assert np.asarray(standard(z))[:, 0].std() == pytest.approx(1.0, abs=1e-3)


FLAGS = [
    "--representation", "mask", "--representation.steps", "30", "--representation.distance.num-pairs", "32",
    "--walk.transitions", "5000", "--laplacian.num-landmarks", "30", "--laplacian.num-eigenfunctions", "5",
]  # fmt: skip


@pytest.fixture(scope="module")
def run_path(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "discovered"
    main(["discover", "grid-5x5-2p", "--out", str(out), *FLAGS])
    return out


def test_discover_leaves_artefacts_and_pictures(run_path):
    assert set(RunDirectory(run_path).manifest) == {"representation", "spectrum", "walk"}
    assert (run_path / "figures/relations.png").stat().st_size > 10_000
    rows = (run_path / "metrics/representation.jsonl").read_text().splitlines()
    assert json.loads(rows[-1])["step"] == 30


def test_spectrum_is_restored_to_the_bit(run_path):
    with Run.reopen(run_path) as run:
        assert run.config.representation.steps == 30
        first, again = (Run(run.config, run.directory).spectrum for _ in range(2))
        saved = run.directory.load("spectrum")
    assert jax.tree.all(jax.tree.map(lambda a, b: np.array_equal(a, b), first, again))
    assert np.array_equal(saved["canonical.eigenvalues"], first.canonical.eigenvalues)


def test_figure_command_draws_into_the_run(run_path, capsys):
    (run_path / "figures/relations.png").unlink()
    main(["figure", "relations", "--run", str(run_path)])
    assert (run_path / "figures/relations.png").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["figure", "none", "--run", "{run}"], "figure: unknown 'none'"),
        (["figure", "n-distance", "--run", "{run}"], "it is drawn for grid-15x15-3p, not for grid-5x5-2p"),
        (["figure", "heterogeneous", "--run", "{run}"], "has one"),
        (
            ["figure", "walk", "--run", "{run}-nowhere"],
            "is not a run directory",
        ),
        (["discover", "quick", "--representation", "nope"], "representation: unknown 'nope'; there are cmi, hit"),
        (["discover", "quick", "--method", "nope"], "method: unknown 'nope'; there are iaro"),
        (
            ["discover", "quick", "--representation", "hit", "--representation.discount", "1.5"],
            "representation.discount",
        ),
    ],
)
def test_bad_input_is_one_line(run_path, arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main([argument.format(run=run_path) for argument in arguments])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_heterogeneous_figure(tmp_path):
    main(["discover", "grid-4x4-2p,types=12", "--out", str(tmp_path / "run"), *FLAGS])
    with Run.reopen(tmp_path / "run") as run:
        paths = draw("heterogeneous", run)
    assert all(path.stat().st_size > 5000 for path in paths)


@pytest.mark.slow
def test_verify_prints_one_object_last_with_lists_over_seeds(capsys):
    main(["verify", "grid-5x5-2p", *FLAGS, "--seeds", "2", "--json"])
    result = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert {"spearman_own", "leak", "own_share", "fermat_error_cells", "distance_pearson", "eigen_cosine"} <= set(
        result
    )
    assert [len(result["spearman_own"]["x"]), len(result["leak"]["y"]), len(result["eigen_cosine"])] == [2, 2, 2]
    assert len(result["agreement"]) == 5
    assert result["config"]["representation"]["type"] == "Mask"
    assert set(result["seconds"]) >= {"walk", "representation", "spectrum"}


@pytest.mark.parametrize("method", METHODS)
def test_configurations_survive_json(method):
    config = Config(scenario="grid-5x5-2p")
    config = replace(config, **METHODS[method](config))
    assert decode(Config, json.loads(json.dumps(encode(config))), "config") == config


def test_every_method_names_its_parts():
    config = Config(scenario="grid-5x5-2p")
    assert METHODS["iaro"](config)["laplacian"] == Allo()
    assert METHODS["hit"](config)["representation"] == Hit()


@pytest.mark.parametrize(
    ("scenario", "rate"), [("lbf-8x8-2p-2f", 1e-3), ("overcooked-cramped_room", 5e-5)], ids=["vectors", "pictures"]
)
@pytest.mark.parametrize("method", ["iaro-paper", "iaro-scalar-paper"])
def test_the_papers_settings_are_those_of_its_column(method, scenario, rate):
    assert METHODS[method](preset(scenario))["representation"].distance.learning_rate == rate


@pytest.mark.parametrize("representation", [Hit(), RawJoint()])
def test_what_equal_discoveries_found_is_the_same_program(representation):
    """With and without a table: a program is found again by what its arguments are made of."""

    def found():
        config = Config("grid-4x4-2p", walk=WalkConfig(transitions=200, num_envs=10), representation=representation)
        return jax.eval_shape(jax.vmap(Discovered.evaluator), untrained(config.discovery, 1, config.walk.shape))

    assert jax.tree.structure(found()) == jax.tree.structure(found())
