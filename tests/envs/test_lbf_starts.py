"""Start states of foraging: the guarantees of the generator about positions and levels."""

import jax
import numpy as np
import pytest
from scipy.stats import chisquare

from cooptions.envs.lbf import Foraging

NUM_STARTS = 40_000


@pytest.fixture(scope="module")
def starts():
    env = Foraging(15, 4, 5)
    state, _ = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), NUM_STARTS))
    return env, jax.tree.map(np.asarray, (state.position, state.apple_position))


def test_apples_lie_apart_and_off_the_edge(starts):
    env, (_, apples) = starts
    assert apples.min() >= 1
    assert apples.max() <= env.grid_size - 2
    distance = np.abs(apples[:, :, None] - apples[:, None]).sum(-1)
    assert (distance[:, ~np.eye(env.num_apples, dtype=bool)] >= 2).all()


def test_first_apple_is_uniform_over_inner_cells(starts):
    env, (_, apples) = starts
    cells = (apples[:, 0, 0] - 1) * (env.grid_size - 2) + apples[:, 0, 1] - 1
    assert chisquare(np.bincount(cells, minlength=(env.grid_size - 2) ** 2)).pvalue > 1e-4


@pytest.mark.parametrize("agent", [0, 3])
def test_agents_are_uniform_over_free_cells(starts, agent):
    env, (agents, apples) = starts
    num_cells = env.grid_size**2
    flat_apples = apples[..., 0] * env.grid_size + apples[..., 1]
    taken = np.bincount(flat_apples.ravel(), minlength=num_cells)
    expected = (NUM_STARTS - taken) / (num_cells - env.num_apples)
    cells = agents[:, agent, 0] * env.grid_size + agents[:, agent, 1]
    assert chisquare(np.bincount(cells, minlength=num_cells), expected).pvalue > 1e-4


def test_no_row_or_column_of_an_apple_is_avoided(starts):
    env, (agents, apples) = starts
    for axis in (0, 1):
        shares = (agents[:, 0, axis, None] == apples[:, :, axis]).mean()
        assert shares == pytest.approx((env.grid_size - 1) / (env.grid_size**2 - 1), rel=0.1)


def test_no_two_items_share_a_cell(starts):
    env, (agents, apples) = starts
    items = np.concatenate([agents, apples], axis=1)
    flat = np.sort(items[..., 0] * env.grid_size + items[..., 1], axis=1)
    assert (np.diff(flat, axis=1) > 0).all()


def test_crowded_grid_still_places_every_apple():
    env = Foraging(grid_size=8, num_agents=2, num_apples=6)
    state, _ = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), 2000))
    apples = np.asarray(state.apple_position)
    distance = np.abs(apples[:, :, None] - apples[:, None]).sum(-1)
    assert (distance[:, ~np.eye(6, dtype=bool)] >= 2).all()
    assert 1 <= apples.min() <= apples.max() <= 6


@pytest.mark.parametrize(
    ("coop", "num_agents"),
    [("all", 4), ("three_lowest", 4), ("two_lowest", 4), ("none", 4), ("two_lowest", 6), ("three_lowest", 8)],
)
def test_apple_levels_follow_coop(coop, num_agents):
    state, _ = jax.vmap(Foraging(coop=coop, num_agents=num_agents).reset)(jax.random.split(jax.random.key(0), 200))
    agents, apples = np.asarray(state.level), np.asarray(state.apple_level)
    assert set(np.unique(agents)) == {1, 2}
    num = {"all": 4, "three_lowest": 3, "two_lowest": 2, "none": 3}[coop]
    required = np.sort(agents, axis=1)[:, :num].sum(1, keepdims=True)
    if coop == "none":
        assert (apples >= 1).all()
        assert (apples <= required).all()
        assert (apples.min(), len(np.unique(apples))) == (1, 6)
    else:
        assert (apples == required).all()


@pytest.mark.parametrize(("rules", "num"), [("paper", 4), ("jumanji", 3)])
def test_each_rule_set_has_its_apple_levels(rules, num):
    state, _ = jax.vmap(Foraging(rules=rules).reset)(jax.random.split(jax.random.key(0), 50))
    assert (np.asarray(state.apple_level)[:, 0] == np.sort(np.asarray(state.level), axis=1)[:, :num].sum(1)).all()
