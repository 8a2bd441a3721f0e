import json
from dataclasses import replace

import jax
import numpy as np
import pytest

from cooptions.discovery.laplacian.nystrom import Nystrom
from cooptions.discovery.representations.raw import RawJoint
from cooptions.discovery.walks import Walk, WalkConfig
from cooptions.envs.grid import Grid
from cooptions.envs.rollout import start
from cooptions.envs.scenarios import make_env
from cooptions.envs.team import Team
from cooptions.errors import ArtifactError, ConfigError
from cooptions.figures.ceo import CoveringFigure, draw_cycles
from cooptions.learners.networks import NetworkConfig
from cooptions.learners.q_learning import QConfig
from cooptions.options.macro import MacroEnv
from cooptions.options.train import OptionsConfig
from cooptions.runs.config import Config
from cooptions.runs.covering import CeoConfig, TeamDraw, ceo_cycles, cosines, coverage
from cooptions.runs.directory import RunDirectory
from cooptions.runs.run import Run
from cooptions.training.progress import Progress
from cooptions.types import Feature

LEARNER = QConfig(
    steps=320, num_envs=4, batch=8, capacity=400, learning_starts=80, fixed_last=True, network=NetworkConfig((8, 8))
)
SMALL = Config(
    scenario="grid-5x5-2p,time_limit=20",
    seeds=3,
    walk=WalkConfig(transitions=4000, num_envs=20),
    representation=RawJoint(),
    laplacian=Nystrom(num_eigenfunctions=6, num_landmarks=20),
    basis="learned",
    options=OptionsConfig(learner=LEARNER, max_steps=8, num_starts=32, start_steps=5),
)
TWICE = CeoConfig(num_cycles=2, option_share=0.2)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("ceo")


@pytest.fixture(scope="module")
def cycles(directory):
    return ceo_cycles(SMALL, TWICE, directory, Progress.silent())


@pytest.fixture(scope="module")
def walks(cycles, directory):
    return [Walk(**RunDirectory(directory / f"cycle-{number}").load("walk")) for number in (1, 2)]


def test_every_cycle_adds_an_option_upwards_and_one_downwards(cycles):
    first, second = (cycle.options for cycle in cycles)
    assert [option.name for option in first.options] == ["+cycle1", "-cycle1"]
    assert [option.name for option in second.options] == ["+cycle1", "-cycle1", "+cycle2", "-cycle2"]
    assert [option.sign for option in second.options] == [1, -1, 1, -1]
    for before, after in zip(jax.tree.leaves(first.network), jax.tree.leaves(second.network), strict=True):
        assert after.shape == (4, *before.shape[1:])
        assert np.array_equal(after[:2], before)
        assert not np.array_equal(after[2:], before)


def test_only_later_walks_have_options(cycles, walks):
    plain, led = walks
    assert plain.votes is None
    assert (cycles[0].coverage.led, plain.states.shape) == (0.0, led.states.shape)
    assert cycles[1].coverage.led == (led.votes[..., 0] >= 0).mean() > 0.2
    assert set(np.unique(led.votes)) == {-1, 0, 1}


def test_agents_follow_the_active_option(cycles, walks):
    env, options, led = SMALL.env, cycles[0].options, walks[1]
    assert isinstance(env, Grid)

    def next_places(place):
        state = env.place(place)
        wanted = options.actions(env.agent_states(state), env.observe(state), env.action_mask(state))
        wanted = jax.numpy.where(wanted == env.num_actions, env.noop, wanted)
        return jax.vmap(lambda action: env.step(state, action, jax.random.key(0))[0].position)(wanted)

    before, after = (getattr(led, name)[0].reshape(-1, 2, 2).astype(np.int32) for name in ("states", "next_states"))
    option = led.votes[0, ..., 0].ravel()
    follows = (np.asarray(jax.jit(jax.vmap(next_places))(before))[np.arange(len(option)), option] == after).all((1, 2))
    assert follows[option >= 0].mean() > 0.88  # each agent acts at random one time in twenty
    assert follows[option < 0].mean() < 0.3


def test_votes_are_those_of_the_whole_team(walks):
    votes = walks[1].votes
    assert (votes == votes[..., :1]).all()


def test_the_team_draws_options_together_and_uniformly(cycles):
    env = MacroEnv(SMALL.env, cycles[1].options)

    @jax.jit
    def draw(key):
        return TeamDraw(0.25)(start(env, 8000, key=key).timestep, key)

    votes = np.asarray(draw(jax.random.key(0))) - env.num_primitives
    drawn = votes[(votes >= 0).any(axis=1)]
    assert len(drawn) / len(votes) == pytest.approx(0.25, abs=0.02)
    assert (drawn == drawn[:, :1]).all()
    assert np.bincount(drawn[:, 0]) / len(drawn) == pytest.approx([0.25] * 4, abs=0.05)


def test_cycles_are_compared_on_common_states(cycles, walks, directory):
    assert [cycle.cosines.shape for cycle in cycles] == [(0,), (1,)]
    common = cycles[1].common
    assert np.array_equal(cycles[0].common, common)
    function = [np.asarray(jax.jit(jax.vmap(cycle.found))(common)) for cycle in cycles]
    assert function[0].shape == (len(common), 1)
    expected = np.corrcoef(function[0][:, 0], function[1][:, 0])[0, 1]
    assert cycles[1].cosines[0] == pytest.approx(expected, abs=1e-4)
    assert abs(expected) < 1 - 1e-4
    assert not np.array_equal(walks[0].states[:, 0], walks[1].states[:, 0])
    summary = json.loads((directory / "summary.json").read_text())
    assert summary["cosines"][1] == pytest.approx(cycles[1].cosines, abs=1e-3)
    assert summary["coverage"][1]["led"] == cycles[1].coverage.led


def test_finished_cycles_are_not_run_again(cycles, directory):
    made = [RunDirectory(directory / f"cycle-{number}").manifest for number in (1, 2)]
    again = ceo_cycles(SMALL, TWICE, directory, Progress.silent())
    assert [RunDirectory(directory / f"cycle-{number}").manifest for number in (1, 2)] == made
    assert np.array_equal(again[1].values, cycles[1].values)
    with pytest.raises(ArtifactError, match="option_share is 0.2 there, 0.5 now"):
        ceo_cycles(SMALL, replace(TWICE, option_share=0.5), directory, Progress.silent())


def test_figure_has_a_column_for_every_cycle(cycles):
    axes = draw_cycles(cycles, [np.array([[1.0, 1.0]]), np.array([[2.0, 3.0]])]).axes
    assert len(axes) == 4
    assert axes[0].get_title().strip() == "cycle 1"
    assert axes[1].get_title() == f"cycle 2\n$|\\cos|$ {abs(cycles[1].cosines[0]):.2f}"
    assert [axes[row].get_ylabel() for row in (0, 2)] == ["(1, 1)", "(2, 3)"]


def test_figure_refuses_another_scenario(tmp_path):
    with pytest.raises(ConfigError, match="grid-15x15-3p"):
        CoveringFigure().plot(Run(SMALL, RunDirectory(tmp_path)))
    assert not list(tmp_path.iterdir())


def test_cosine_ignores_means_and_sizes():
    wave = np.sin(np.arange(100.0))
    rest = np.cos(np.arange(100.0))
    values = np.stack([wave, -3 * wave + 7, rest, 2 * wave + 1])
    assert cosines(values) == pytest.approx([1.0, -1.0, 0.0], abs=0.02)
    assert cosines(values[:1]).shape == (0,)


def test_coverage_of_a_known_walk():
    team = Team.of(make_env("grid-3x2-2p"))
    places = [[[0, 0], [0, 1]], [[0, 0], [0, 1]], [[0, 0], [2, 0]], [[2, 0], [0, 0]]]  # spreads 0, 1 and 2, 0
    states = np.array(places, np.uint8)[None, :, None]
    votes = np.array([-1, 0, 1, -1], np.int16)[None, :, None, None].repeat(2, axis=-1)
    seen = coverage(team, Walk(states, states, np.zeros((1, 4, 1), bool), votes))
    assert (seen.visited, seen.led) == (2 / 6, 0.5)
    assert seen.evenness == pytest.approx(2 / 6)
    assert (seen.mean_spread, seen.max_spread) == ((1.0, 0.5), (2.0, 1.0))


def test_coverage_of_features_that_are_continuous_or_have_no_order():
    features = Feature.continuous("v", -1.0, 1.0), Feature.categorical("held", 2)
    team = Team(features, ((True, True),) * 3, (0, 0, 0))
    states = np.array([[[-1, 0], [1, 0], [1, 1]], [[0, 1], [0, 1], [0, 1]]], np.float32)[None, :, None]
    seen = coverage(team, Walk(states, states, np.zeros((1, 2, 1), bool)))
    assert seen.visited == 2 / (20 * 2)  # at most one of three can differ from the two others
    assert (seen.max_spread, seen.led) == ((2.0, 1.0), 0.0)


@pytest.mark.parametrize("field", [{"num_cycles": 0}, {"option_share": -0.1}, {"option_share": 1.5}])
def test_bad_fields_are_named(field):
    with pytest.raises(ConfigError, match=f"ceo.{next(iter(field))}"):
        CeoConfig(**field)
