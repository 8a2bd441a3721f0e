import os
import signal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Int
from rich.console import Console

from cooptions.discovery import walks
from cooptions.discovery.walks import (
    Extent,
    Walk,
    WalkConfig,
    compact_dtype,
    dataset_shapes,
    index_futures,
    require_in_range,
    sample_futures,
    sample_transitions,
    walk_seeds,
)
from cooptions.envs.grid import Grid
from cooptions.envs.scenarios import make_env
from cooptions.envs.team import Team
from cooptions.errors import ConfigError, Interrupted
from cooptions.options.base import AbstractOptions, Option
from cooptions.options.macro import MacroEnv
from cooptions.runs.directory import open_run
from cooptions.training.progress import Progress
from cooptions.types import Feature

KEYS = jax.random.split(jax.random.key(0), 2)


@pytest.fixture(scope="module")
def foraging():
    env = make_env("lbf-6x6-2p-1f,coop=none,time_limit=20")
    return env, walk_seeds(env, WalkConfig(4000, 8), KEYS)


def test_walk_is_compact_and_has_the_asked_size(foraging):
    _, walks = foraging
    assert walks.states.dtype == np.uint8
    assert walks.states.shape == (2, 500, 8, 2, 2)
    assert not np.array_equal(walks.states[0], walks.states[1])


def test_each_state_follows_from_the_one_before_unless_the_episode_ended(foraging):
    _, walks = foraging
    follows = (walks.states[:, 1:] == walks.next_states[:, :-1]).all(axis=(-1, -2))
    assert follows[~walks.last[:, :-1]].all()
    assert not follows[walks.last[:, :-1]].all()
    moved = np.abs(walks.states.astype(int) - walks.next_states).sum(-1)
    assert moved.max() == 1


def test_episodes_end_by_the_task_and_by_the_limit(foraging):
    _, walks = foraging
    lengths = np.diff(np.flatnonzero(np.concatenate([[True], walks.last[0, :, 0]])))
    assert lengths.max() == 20
    assert lengths.min() < 20


def test_walk_is_saved_and_reloaded(foraging, tmp_path):
    _, walks = foraging
    with open_run(tmp_path / "run", {"walk": {}}) as run:
        run.save("walk", walks, seconds=0.0)
        again = Walk(**run.load("walk"))
    assert all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(walks), jax.tree.leaves(again), strict=True))


def test_same_key_same_walk_whatever_the_number_of_chunks(foraging, monkeypatch):
    env, walks = foraging
    monkeypatch.setattr("cooptions.discovery.walks.NUM_CHUNKS", 3)
    again = walk_seeds(env, WalkConfig(4000, 8), KEYS)
    assert np.array_equal(walks.states, again.states)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_a_walk_after_its_part(foraging, number):
    class Stop(Progress):
        """A part was made."""

        def stage(self, name, num_steps, done=0):
            os.kill(os.getpid(), number)
            return super().stage(name, num_steps, done)

    with pytest.raises(Interrupted, match="walk: stopped"):
        walk_seeds(foraging[0], WalkConfig(4000, 8), KEYS, progress=Stop(Console(quiet=True)))


def test_a_walk_that_cannot_fit_is_refused_with_the_memory_it_would_take(foraging):
    with pytest.raises(
        ConfigError, match=r"walk: needs [\d,.]+ GB, the machine has .*; make walk.transitions or seeds"
    ):
        walk_seeds(foraging[0], WalkConfig(10**12, 100), KEYS)


def test_futures_of_a_seed_do_not_depend_on_how_long_others_last():
    """Seed 0 has episodes of 2 steps, seed 1 one of 40: goals lie in the episode of their source all the same."""
    time = np.arange(40)
    episode = np.stack([time // 2, 0 * time])
    states = np.broadcast_to(episode[:, :, None, None, None], (2, 40, 1, 1, 1)).astype(np.uint8)
    last = np.stack([time % 2 == 1, time == 39])[..., None]
    dataset = index_futures(Walk(states, states, last))
    keys = jax.random.split(jax.random.key(0))
    futures = jax.vmap(lambda each, key: sample_futures(each, 500, 0.95, key=key))(dataset, keys)
    np.testing.assert_array_equal(futures.source, futures.goal)


def test_walks_of_one_size_have_one_shape_whatever_their_longest_episode(foraging):
    """Or the next seed would need programs of its own; and it is known before anything is walked."""
    env, walks = foraging
    cut = eqx.tree_at(lambda walk: walk.last, walks, walks.last | (np.arange(500) % 5 == 0)[:, None])
    expected = dataset_shapes(Team.of(env), 2, (500, 8))
    for each in (walks, cut):
        found = index_futures(each)
        shapes = jax.tree.map(
            lambda leaf: (leaf.shape, leaf.dtype), (found.by_remaining, found.num_with, found.horizon)
        )
        assert shapes == jax.tree.map(
            lambda leaf: (leaf.shape, leaf.dtype), (expected.by_remaining, expected.num_with, expected.horizon)
        )
        assert jax.tree.map(jnp.shape, found.walk.states) == expected.walk.states.shape
    assert index_futures(walks).horizon.tolist() == [21, 21]
    assert index_futures(cut).horizon.tolist() == [6, 6]


def test_features_can_be_chosen_by_name(foraging):
    env, walks = foraging
    only_y = walk_seeds(env, WalkConfig(400, 8, features=("y",)), KEYS)
    assert np.array_equal(only_y.states[..., 0], walks.states[:, :50, ..., 1])
    with pytest.raises(ConfigError, match="unknown feature 'z'; there are x, y"):
        walk_seeds(env, WalkConfig(400, 8, features=("z",)), KEYS)


class Marching(AbstractOptions):
    """Options that move each agent the same way all the time."""

    moves: Int[Array, "option agent"]
    max_steps: int = eqx.field(static=True, default=3)
    epsilon: float = eqx.field(static=True, default=0.0)

    @property
    def options(self):
        return tuple(Option(name, (True, True), 2) for name in "AB"[: len(self.moves)])

    def actions(self, agent_states, observation, action_mask):
        return self.moves


def _vote_for_second(timestep, key):
    return jnp.full(timestep.action_mask.shape[:2], timestep.action_mask.shape[-1] - 1)


@pytest.mark.parametrize(("move", "row"), [(1, 0), (2, 3)])
def test_environment_with_arrays_is_walked_and_votes_are_kept(move, row):
    env = MacroEnv(make_env("grid-4x3-2p,time_limit=10"), Marching(jnp.array([[0, 0], [move, move]])))
    walks = walk_seeds(env, WalkConfig(40, 4), KEYS, policy=_vote_for_second)
    assert walks.states.shape == (2, 10, 4, 2, 2)
    assert (walks.next_states[:, 3:, :, :, 0] == row).all()
    assert np.array_equal(walks.states[..., 1], walks.next_states[..., 1])
    assert np.array_equal(np.asarray(walks.votes), np.ones((2, 10, 4, 2)))


def test_primitives_are_no_votes(foraging):
    _, walks = foraging
    assert walks.votes is None
    env = MacroEnv(make_env("grid-4x3-2p"), Marching(jnp.array([[0, 0]])))
    votes = np.asarray(walk_seeds(env, WalkConfig(400, 4), KEYS).votes)
    assert set(np.unique(votes)) == {-1, 0}
    assert (votes == -1).mean() > 0.3


def _labelled_walk(lengths, num_steps=60):
    """A walk whose states are (episode, time within it), one environment per entry of `lengths`."""
    time = np.arange(num_steps)[:, None]
    length = np.array(lengths)[None]
    states = np.stack([time // length, time % length], axis=-1)
    last = (time + 1) % length == 0
    states, following = (np.repeat(s[:, :, None], 3, axis=2) for s in (states, states + np.array([0, 1])))
    return Walk(*(array[None] for array in (states.astype(np.uint8), following.astype(np.uint8), last)))


def test_futures_are_geometric_and_stay_in_their_episode():
    dataset = jax.tree.map(lambda leaf: leaf[0], index_futures(_labelled_walk([7, 20, 60])))
    pairs = sample_futures(dataset, 200_000, 0.8, key=jax.random.key(0))
    source, goal = np.asarray(pairs.source).astype(int), np.asarray(pairs.goal).astype(int)
    assert (source[:, 0] == goal[:, 0]).all()
    offset = goal[:, 1] - source[:, 1]
    assert offset.min() == 0
    share = np.bincount(offset, minlength=20)[:20] / len(offset)
    assert share == pytest.approx(0.2 * 0.8 ** np.arange(20), abs=0.004)
    assert np.bincount(np.asarray(pairs.agent)) / len(offset) == pytest.approx([1 / 3] * 3, abs=0.01)


def test_futures_beyond_every_episode_are_cut():
    dataset = jax.tree.map(lambda leaf: leaf[0], index_futures(_labelled_walk([4])))
    pairs = sample_futures(dataset, 5000, 0.99, key=jax.random.key(0))
    offset = np.asarray(pairs.goal)[:, 1].astype(int) - np.asarray(pairs.source)[:, 1]
    assert (offset.min(), offset.max()) == (0, 4)


def test_transitions_are_of_the_walk():
    dataset = jax.tree.map(lambda leaf: leaf[0], index_futures(_labelled_walk([7, 20])))
    before, after = sample_transitions(dataset, 1000, key=jax.random.key(0))
    assert before.shape == (1000, 3, 2)
    assert jnp.array_equal(after, before + jnp.array([0, 1], before.dtype))


def test_dtype_holds_every_value():
    assert compact_dtype((Feature.coordinate("x", 256),)) is np.uint8
    assert compact_dtype((Feature.coordinate("x", 257),)) is np.uint16
    assert compact_dtype((Feature.coordinate("x", 65_537),)) is np.uint32
    assert compact_dtype((Feature.coordinate("x", 3), Feature.continuous("v", -1.0, 1.0))) is np.float32


@pytest.mark.parametrize(
    ("fields", "named"),
    [((0, 1), "transitions"), ((-5, 1), "transitions"), ((10, 3), "multiple"), ((9, 0), "num_envs")],
)
def test_bad_fields_are_named(fields, named):
    with pytest.raises(ConfigError, match=named):
        WalkConfig(*fields)


class Narrow(Grid):
    """A grid whose first feature is declared too small, by which its values would be stored as others."""

    @property
    def features(self):
        return Feature.coordinate("x", 3), Feature.coordinate("y", self.width)


def test_a_walk_out_of_the_declared_range_is_refused_and_says_by_how_much():
    message = "walk: feature x is declared to take whole numbers from 0 to 2, but took values from 0 to 4: declare"
    with pytest.raises(ConfigError, match=message) as error:
        walk_seeds(Narrow(5, 4, 2), WalkConfig(400, 8), KEYS)
    assert "feature y" not in str(error.value)


def test_features_that_are_not_kept_may_take_any_values():
    walks = walk_seeds(Narrow(5, 4, 2), WalkConfig(80, 8, ("y",)), KEYS)
    assert walks.states.shape == (2, 10, 8, 2, 1)


@pytest.mark.parametrize(
    ("feature", "values", "told"),
    [
        (Feature.continuous("x", -0.1, 0.1), [-0.1, 0.1], None),  # 0.1 is more than 0.1 in half the digits
        (Feature.continuous("x", -0.1, 0.1), [0.0, 0.2], "numbers from -0.1 to 0.1, but took values from 0 to 0.2"),
        (Feature.continuous("x", 0.0, 1.0), [0.0, np.nan], "took values from nan to nan"),
        (Feature.coordinate("x", 3), [0.0, 2.0], None),
        (Feature.coordinate("x", 3), [-1.0, 2.0], "whole numbers from 0 to 2, but took values from -1 to 2"),
        (Feature.categorical("x", 3), [0.0, 1.5], "whole numbers from 0 to 2, but took values from 0 to 1.5"),
    ],
)
def test_values_are_compared_with_what_a_feature_declares(feature, values, told):
    extent = Extent.of(jnp.array(values)[:, None, None], np.ones((1, 1), bool))
    if told is None:
        require_in_range((feature,), extent)
        return
    with pytest.raises(ConfigError, match=told):
        require_in_range((feature,), extent)


def test_what_an_agent_lacks_is_not_looked_at():
    states = jnp.array([[[1.0, 0.0], [2.0, 5.0]]])
    extent = Extent.of(states, np.array([[True, False], [True, True]]))
    assert [extent.low.tolist(), extent.high.tolist()] == [[1.0, 5.0], [2.0, 5.0]]


def test_the_extent_of_many_is_that_of_all():
    many = Extent(jnp.array([[[0.0], [2.0]]]), jnp.array([[[1.0], [3.0]]]), jnp.array([[[0.0], [0.5]]]))
    assert [leaf.tolist() for leaf in jax.tree.leaves(many.whole())] == [[0.0], [3.0], [0.5]]


def test_a_part_of_a_walk_keeps_the_types_of_its_start():
    """Otherwise the walk would be compiled twice. A forager's discount has a weak type."""
    env, keys = make_env("lbf-5x5-2p-1f"), jax.random.split(jax.random.key(0), 1)
    begun = walks._start(env, 2, keys)
    onward, _ = jax.eval_shape(
        lambda runners: walks._walk_chunk(env, walks.random_policy, (0, 1), 2, runners, keys, jnp.int32(0)), begun
    )
    types = [[(leaf.dtype, leaf.weak_type) for leaf in jax.tree.leaves(each)] for each in (begun, onward)]
    assert types[0] == types[1]
