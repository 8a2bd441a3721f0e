"""Learning a task: when it is evaluated, what is scored, and that a seed that diverges is nobody else's matter."""

import io
import json
from dataclasses import dataclass, field, replace
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Bool, Float
from rich.console import Console

from cooptions.cli.main import main
from cooptions.envs.probe import Matching, Recall
from cooptions.envs.scenarios import make_env
from cooptions.envs.wrapper import AbstractWrapper
from cooptions.errors import ConfigError
from cooptions.files import decode, encode
from cooptions.learners.base import LEARNERS
from cooptions.learners.learn import Learning, by_episodes, evaluate, learn_seeds, per_episode, scores_by_metric
from cooptions.learners.networks import NetworkConfig
from cooptions.learners.q_learning import QConfig, QLearner
from cooptions.options.handmade import handmade_options
from cooptions.options.macro import MacroConfig
from cooptions.runs.config import LearningConfig
from cooptions.runs.paper import TEAM_LEARNERS
from cooptions.runs.presets import LEARNING_SWAPS, PRESETS, preset, with_parts
from cooptions.training.chunks import init_seeds, step_seed
from cooptions.training.loop import MetricsFile
from cooptions.training.progress import Progress

KEYS = jax.random.split(jax.random.key(0), 3)
Q = QConfig(
    steps=6000,
    num_envs=4,
    rollout=5,
    capacity=1000,
    learning_starts=100,
    learning_rate=1e-2,
    target_interval=2,
    max_gradient_norm=10.0,
    epsilon_decay=0.5,
    network=NetworkConfig(hidden=(16, 16)),
)
CONFIG = LearningConfig(learner=Q, evaluations=3, episodes=8)


class Scaled(AbstractWrapper):
    """A task whose rewards are multiplied: by NaN, if a seed is to diverge."""

    factor: Float[Array, ""]
    env: Matching = eqx.field(static=True, default=Matching())

    def step(self, state, action, key):
        state, timestep = self.env.step(state, action, key)
        return state, replace(timestep, reward=timestep.reward * self.factor)


class Unscored(AbstractWrapper):
    """A task that scores the seeds that are marked with what is no number; their rewards are as ever."""

    marked: Bool[Array, ""]
    env: Matching = eqx.field(static=True, default=Matching())

    def step(self, state, action, key):
        state, timestep = self.env.step(state, action, key)
        return state, replace(timestep, score=jnp.where(self.marked, jnp.nan, timestep.score))


@dataclass(frozen=True)
class Told(QLearner):
    """Agents that play what a table says for each cue, not what they learned."""

    config: QConfig = field(default_factory=lambda: Q)

    def act(self, policy, memory, timestep, first, *, key):
        cue = (timestep.observation[..., 0] > 0).astype(jnp.int32)
        return memory, policy[cue]


@pytest.mark.parametrize(("table", "score"), [([0, 1], 1.0), ([1, 0], 0.0), ([1, 1], 0.5)])
def test_every_episode_is_scored_by_what_was_done_in_it(table, score):
    scores = evaluate(Told(), jnp.array(table), Matching(), 400, key=jax.random.key(1))
    assert scores.shape == (400, 2)
    np.testing.assert_array_equal(scores[:, 0], scores[:, 1])  # the probe's score is its return
    assert float(scores[:, 0].mean()) == pytest.approx(score, abs=0.08)
    assert set(np.asarray(scores).ravel()) <= {0.0, 1.0}


@dataclass(frozen=True)
class Lasting(Matching):
    """Episodes of one step or three, by their cue, that earn 1 a step."""

    def step(self, state, action, key):
        state, timestep = super().step(state, action, key)
        last = state.time >= jnp.where(state.cue > 0, 3, 1)
        return state, replace(timestep, reward=jnp.float32(1.0), last=last, discount=1.0 - last)


def test_rewards_after_an_end_do_not_count():
    """Short episodes wait for long ones."""
    scores = evaluate(Told(), jnp.array([0, 0]), Lasting(), 32, key=jax.random.key(1))
    assert set(np.asarray(scores[:, 1])) == {1.0, 3.0}


def test_memory_is_carried_through_an_episode_and_begins_anew_with_it():
    """The cue is shown at the start alone: who plays it later must have been told `first` once, and remembered."""

    class Remembers(Told):
        def init_memory(self, env, num_envs):
            return jnp.full((num_envs, env.num_agents, 1), 7.0)

        def act(self, policy, memory, timestep, first, *, key):
            shown = timestep.observation[..., :1]
            memory = jnp.where(first[:, None, None], shown, memory)
            return memory, (memory[..., 0] > 0).astype(jnp.int32)

    scores = evaluate(Remembers(), None, Recall(), 64, key=jax.random.key(1))
    assert (scores[:, 0] == scores[0, 0]).all()
    assert float(scores[0, 0]) > 0


def test_evaluations_are_evenly_spaced_and_the_last_is_at_the_end():
    stage = CONFIG.stage
    assert stage.steps.tolist() == [2000, 4000, 6000]
    with pytest.raises(ConfigError, match="evaluations must be between 1 and the 300 updates"):
        LearningConfig(learner=Q, evaluations=301)
    with pytest.raises(ConfigError, match="episodes must be at least 1"):
        LearningConfig(learner=Q, episodes=0)


@pytest.fixture(scope="module")
def learned():
    return learn_seeds(CONFIG.stage, Scaled(jnp.ones(3)), KEYS)


def test_team_learns_and_its_scores_are_kept(learned):
    _, scores = learned
    assert scores.shape == (3, 3, 8, 2)
    assert float(scores[:, -1].mean()) > 0.9
    by_metric = scores_by_metric(CONFIG.name, "matching", CONFIG.stage.steps, ("score", "return"), scores)
    assert [each.metric for each in by_metric] == ["score", "return"]
    np.testing.assert_array_equal(by_metric[1].values, scores[..., 1])
    last = scores_by_metric(CONFIG.name, "matching", CONFIG.stage.steps, ("score", "return"), scores[:, -1:])[0]
    assert last.steps.tolist() == by_metric[0].steps[-1:].tolist()


def test_seed_that_diverges_is_left_out_and_the_others_keep_their_numbers(learned, tmp_path, capsys):
    _, scores = learn_seeds(CONFIG.stage, Scaled(jnp.array([1.0, jnp.nan, 1.0])), KEYS, directory=tmp_path)
    assert np.isnan(scores[1]).all()
    np.testing.assert_array_equal(scores[jnp.array([0, 2])], learned[1][jnp.array([0, 2])])
    assert scores_by_metric(CONFIG.name, "matching", CONFIG.stage.steps, ("score", "return"), scores)[
        0
    ].diverged.tolist() == [
        False,
        True,
        False,
    ]


@pytest.mark.slow
def test_scores_that_are_no_numbers_are_the_environments_and_not_the_teams():
    told = io.StringIO()
    env, progress = Unscored(jnp.array([False, True, False])), Progress(Console(file=told, width=200))
    policy, values = learn_seeds(CONFIG.stage, env, KEYS, progress=progress)
    sound, _ = learn_seeds(CONFIG.stage, Unscored(jnp.zeros(3, bool)), KEYS)
    assert jax.tree.all(jax.tree.map(lambda one, two: (one == two).all(), policy, sound))
    score, earned = scores_by_metric(CONFIG.name, "matching", CONFIG.stage.steps, ("score", "return"), values)
    assert not score.diverged.any()
    assert score.unscored.tolist() == [False, True, False]
    assert not earned.unscored.any()
    assert score.left_out == "1 with scores that are no numbers"
    line = "warning: learning: seed 1: return is not finite, but what was learned is: look at the environment"
    assert told.getvalue().count(line) == 1, "the score of this probe is called so"
    found = evaluate(QLearner(Q), jax.tree.map(lambda leaf: leaf[1], policy), Unscored(jnp.bool_(True)), 3, key=KEYS[0])
    assert np.isposinf(found[:, 0]).all()
    assert np.isfinite(found[:, 1]).all()


def test_scores_of_training_count_episodes_not_updates():
    metrics = {
        "reward": jnp.array([1.0, 2.0, 3.0, 4.0]),
        "deliveries": jnp.array([0.0, 10.0, 0.0, 4.0]),
        "episodes": jnp.array([0.0, 2.0, 0.0, 1.0]),
    }
    weighted = by_episodes(metrics, ("deliveries",))
    told = per_episode({name: value.mean() for name, value in weighted.items()}, ("deliveries",))
    assert {name: float(value) for name, value in told.items()} == {"reward": 2.5, "deliveries": 8.0, "episodes": 0.75}
    none = per_episode({"deliveries": jnp.float32(0.0), "episodes": jnp.float32(0.0)}, ("deliveries",))
    assert float(none["deliveries"]) == 0.0


@pytest.mark.parametrize("name", [name for name, (learner, _) in TEAM_LEARNERS.items() if isinstance(learner, QConfig)])
def test_cooks_copy_the_target_network_as_often_as_foragers(name):
    """And not every 100 updates, as the paper does: see below what becomes of them."""
    assert [learner.target_interval for learner in TEAM_LEARNERS[name]] == [10, 10]


@pytest.mark.parametrize("name", LEARNERS.names())
def test_a_step_keeps_the_types_of_the_state(name):
    """Otherwise every program of training would be compiled twice."""
    meeting = make_env("grid-5x5-2p,task=meet")
    task = MacroConfig().around(meeting, handmade_options(meeting))
    stage = Learning(LEARNERS[name]().build(), evaluations=2, episodes=1)
    state = jax.eval_shape(partial(init_seeds, stage), KEYS, task)
    after, _ = jax.eval_shape(jax.vmap(partial(step_seed, stage), in_axes=(0, None, 0)), state, task, KEYS)
    types = [[(leaf.shape, leaf.dtype, leaf.weak_type) for leaf in jax.tree.leaves(each)] for each in (state, after)]
    assert types[0] == types[1]


@pytest.mark.parametrize("name", [name for each in TEAM_LEARNERS for name in (each, f"{each}+wander")])
def test_what_is_written_of_a_method_is_read_again(name):
    config = preset("lbf-8x8-2p-2f")
    config = with_parts(config, LEARNING_SWAPS["method"].parts(name, config))
    assert decode(type(config), json.loads(json.dumps(encode(config))), "config") == config


@pytest.mark.parametrize(
    ("swap", "name", "method"),
    [
        ("representation", "mask", "iql+hit, mask"),
        ("laplacian", "allo", "iql+hit, allo"),
        ("options", "paper", "iql+hit"),
    ],
)
def test_a_method_with_another_discovery_has_another_name(swap, name, method):
    config = preset("lbf-8x8-2p-2f")
    assert with_parts(config, LEARNING_SWAPS[swap].parts(name, config)).learning.name == method


@pytest.mark.parametrize("name", ["iql", "vdn"])
def test_learners_with_layer_normalisation_are_else_the_papers(name):
    for learner, plain in zip(TEAM_LEARNERS[f"{name}-ln"], TEAM_LEARNERS[name], strict=True):
        assert learner == replace(plain, network=replace(plain.network, normalised=True))


@pytest.mark.parametrize("name", ["ippo", "mappo"])
def test_policies_of_foragers_are_evaluated_as_they_act(name):
    """The likeliest action of each makes far less of them; cooks of Q-learning are greedy, and so are those of PPO."""
    assert [learner.evaluation for learner in TEAM_LEARNERS[name]] == ["sampled", "greedy"]


@pytest.mark.parametrize("name", [*PRESETS, "lbf-15x15-4p-3f", "overcooked-cramped_room"])
@pytest.mark.parametrize("options", ["", "+hit"])
def test_methods_of_a_preset_differ_by_options_alone(name, options):
    """As `make demo` compares them: the preset, and the same learner without options."""
    config = preset(name)
    method = config.learning.name.partition("+")[0] + options
    swapped = with_parts(config, LEARNING_SWAPS["method"].parts(method, config))
    assert swapped.learning.learner == config.learning.learner
    assert (swapped.learning.evaluations, swapped.learning.episodes) == (
        config.learning.evaluations,
        config.learning.episodes,
    )


@pytest.mark.slow
def test_cooks_keep_what_they_found(tmp_path):
    """Where the target network is copied too rarely values run away with the first soups, and none is delivered. Two
    teams together: how far each gets in so few steps depends on the machine's arithmetic."""
    small = "network.no-half", "network.channels=16", "network.kernels=1", "steps=400000"
    flags = [f"--learning.learner.{flag}" for flag in small] + ["--learning.evaluations=10", "--learning.episodes=4"]
    main(["train", "overcooked-cramped_room", "--method", "iql", "--seeds", "2", *flags, "--out", str(tmp_path)])
    last = MetricsFile(tmp_path / "metrics" / "learning.jsonl").rows()[-1]
    earned = np.array(last["reward"]) / (1 - 0.99)
    assert np.mean(last["deliveries"]) > 1
    assert np.mean(last["value"]) < 1.5 * earned.mean()
