"""Hitting distances against the exact ones, on a map with a wall, and on a line without cells."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_walks import encoded, random_teams, trained, walked

from cooptions.discovery import oracles
from cooptions.discovery.representations.hit import Hit, sample_windows
from cooptions.discovery.walks import Walk, index_futures
from cooptions.envs.grid import Grid
from cooptions.envs.team import Team
from cooptions.types import Feature

HIT = Hit(steps=600, batch=256, hidden=(64, 64), learning_rate=5e-3, steps_ahead=16)


def fermat_states(representation: Hit, team: Team, state: Any, joint: np.ndarray) -> np.ndarray:
    return np.asarray(jax.jit(jax.vmap(lambda s: representation.fermat_state(team, state, s)))(jnp.asarray(joint)))


def test_it_agrees_with_exact_hitting_distances_around_a_wall():
    env = Grid(7, 7, 2, map="door")
    team = Team.of(env)
    state = trained(HIT, team, walked(env))
    cells, transitions = oracles.grid_cells(env.free), oracles.grid_transitions(env.free)
    joint = random_teams(env, 1000)
    indices = oracles.cell_indices(env.free, joint)
    z, fermat = encoded(HIT, team, state, joint), fermat_states(HIT, team, state, joint)
    for f in range(2):
        exact = np.asarray(HIT.capped(oracles.hitting_distance(transitions, cells[:, f], HIT.discount)))
        values = jnp.arange(7.0)
        learned = jax.vmap(lambda s, f=f, v=values: HIT.hit_distances(team, state, s, jnp.int32(0), f, v))(
            jnp.asarray(cells, jnp.float32)
        )
        assert np.corrcoef(np.ravel(learned), np.ravel(exact))[0, 1] > 0.985
        assert np.abs(np.asarray(learned) - exact).mean() < 0.15
        exact_z, _ = oracles.fermat_value(exact, indices)
        assert np.corrcoef(z[:, f], exact_z)[0, 1] > 0.97
        summed = np.asarray(learned)[indices].sum(axis=1)[np.arange(1000), fermat[:, f].astype(int)]
        np.testing.assert_allclose(summed, z[:, f], atol=1e-4)
        aligned = joint[:, 0, f] == joint[:, 1, f]
        assert (z[aligned, f] == 0).all()
        assert (z[~aligned, f] > 0).all()


def test_a_team_that_agrees_meets_where_it_is(mixed_team, mixed_data):
    """In a coordinate, a categorical and a continuous feature; two agents lack the second, and have 0 in its place."""
    team = Team(mixed_team.features, ((True, True, True), (True, False, True), (True, False, True)), (0, 1, 1))
    representation = Hit(num_bins=8, hidden=(8,))
    state = representation.init(team, jax.tree.map(lambda x: x[0], mixed_data), key=jax.random.key(0))
    agreed = np.array([[3.0, 2.0, 0.123], [0.0, 1.0, -0.9]], np.float32)
    joint = np.repeat(agreed[:, None], 3, axis=1)
    joint[:, 1:, 1] = 0.0
    np.testing.assert_array_equal(fermat_states(representation, team, state, joint), agreed)


def test_windows_stop_where_the_episode_does():
    """Two environments count their steps; episodes of environment e have 3 + 2 e steps."""
    time = np.arange(12)
    lengths = np.array([3, 5])
    clock = (time[:, None] % lengths)[None, ..., None, None].astype(np.float32)
    last = (time[:, None] % lengths == lengths - 1)[None]
    data = index_futures(Walk(jnp.asarray(clock), jnp.asarray(clock + 1), jnp.asarray(last)))
    windows = sample_windows(jax.tree.map(lambda x: x[0], data), 200, 6, key=jax.random.key(0))
    source, ahead, alive = (np.asarray(x) for x in (windows.source, windows.ahead, windows.alive))
    steps = ahead[:, :, 0] - source
    assert alive[:, 0].all()
    assert (steps[alive] == np.broadcast_to(np.arange(1, 7), alive.shape)[alive]).all()
    final = ahead[np.arange(200), alive.sum(axis=1) - 1, 0]
    assert set(final) == {2.0, 3.0, 5.0}, "3 and 5 end episodes; the walk of environment 1 is cut after 2 steps"


LINE = Team((Feature.continuous("x", 0.0, 1.0), Feature.continuous("y", 0.0, 1.0)), ((True, True),) * 3, (0, 0, 0))


@pytest.fixture(scope="module")
def line_data():
    """Gaussian steps of deviation 0.1 along both axes, reflected at 0 and 1."""
    rng = np.random.default_rng(0)
    place, states, following, last = rng.random((100, 3, 2)), [], [], []
    for time in range(200):
        onward = 1 - np.abs(1 - np.abs(place + 0.1 * rng.standard_normal(place.shape)))
        states.append(place)
        following.append(onward)
        last.append(np.full(100, time % 50 == 49))
        place = rng.random(place.shape) if time % 50 == 49 else onward
    states, following = (jnp.asarray(np.stack(x)[None], jnp.float32) for x in (states, following))
    return index_futures(Walk(states, following, jnp.asarray(np.stack(last)[None])))


def _largest_jump(representation: Hit, state: Any) -> float:
    """As one agent passes the two others, in shares of the range of z."""
    path = np.full((2001, 3, 2), 0.5, np.float32)
    path[:, 0, 0], path[:, 1, 0], path[:, 2, 0] = np.linspace(0, 1, 2001), 0.3, 0.31
    z = encoded(representation, LINE, state, path)[:, 0]
    return float(np.abs(np.diff(z)).max() / np.ptp(z))


def test_z_is_continuous_and_0_where_continuous_features_agree(line_data):
    representation = Hit(num_bins=16, hidden=(8,))
    one_seed = jax.tree.map(lambda leaf: leaf[0], line_data)
    state = representation.init(LINE, one_seed, key=jax.random.key(0))
    aligned = np.repeat(np.random.default_rng(1).random((100, 1, 2)), 3, axis=1)
    assert (encoded(representation, LINE, state, aligned) == 0).all()
    assert _largest_jump(representation, state) < 0.02


@pytest.mark.slow
def test_continuous_features_are_ordered_by_their_spread(line_data):
    representation = Hit(num_bins=16, steps=600, batch=256, hidden=(64, 64), learning_rate=5e-3, steps_ahead=16)
    state = trained(representation, LINE, line_data)
    joint = np.random.default_rng(1).random((3000, 3, 2)).astype(np.float32)
    z, spreads = encoded(representation, LINE, state, joint), oracles.spread(joint)
    for f in range(2):
        assert oracles.spearman(z[:, f], spreads[:, f]) > 0.96
    assert _largest_jump(representation, state) < 0.02
