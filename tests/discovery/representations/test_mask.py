"""`mask` on an open grid: order, no leak at all, exact Fermat states."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_walks import OPEN, encoded, random_teams, trained

from cooptions.discovery import oracles
from cooptions.discovery.representations.distance import DistanceConfig
from cooptions.discovery.representations.mask import Mask
from cooptions.envs.team import Team

MASK = Mask(DistanceConfig(num_pairs=64, hidden=(32,), learning_rate=1e-2), steps=300)
TEAM = Team.of(OPEN)


@pytest.fixture(scope="module")
def state(open_data):
    return trained(MASK, TEAM, open_data)


def test_z_orders_teams_by_their_spread(state):
    joint = random_teams(OPEN, 2000)
    z, spreads = encoded(MASK, TEAM, state, joint), oracles.spread(joint)
    for f in range(2):
        assert oracles.spearman(z[:, f], spreads[:, f]) > 0.95


def test_z_knows_nothing_of_the_other_feature(state):
    joint = random_teams(OPEN, 100)
    moved = joint.copy()
    moved[..., 1] = random_teams(OPEN, 100, seed=1)[..., 1]
    before, after = (encoded(MASK, TEAM, state, x) for x in (joint, moved))
    np.testing.assert_array_equal(before[:, 0], after[:, 0])
    assert np.abs(before[:, 1] - after[:, 1]).max() > 0.1


def test_fermat_states_are_medians(state):
    joint = random_teams(OPEN, 1000)
    found = jax.jit(jax.vmap(lambda s: MASK.fermat_state(TEAM, state, s)))(jnp.asarray(joint))
    assert oracles.distance_to_medians(np.asarray(found), joint).mean() < 0.1


@pytest.mark.parametrize("feature", [0, 1])
def test_z_is_the_least_summed_distance(state, feature):
    joint = random_teams(OPEN, 20)

    def moved(agent_state, value):
        """How far the agent is from having this value, the other feature left as it is."""
        return MASK.pair_distance(TEAM, state, agent_state, agent_state.at[feature].set(value), jnp.int32(0))

    summed = jax.vmap(lambda agents, value: jax.vmap(moved, (0, None))(agents, value).sum(), (None, 0))
    least = jax.jit(jax.vmap(lambda agents: summed(agents, jnp.arange(6.0)).min()))(jnp.asarray(joint))
    np.testing.assert_allclose(encoded(MASK, TEAM, state, joint)[:, feature], least, rtol=1e-4, atol=1e-5)
