import numpy as np
import pytest

from cooptions.envs.grid import Grid
from cooptions.oracles.option_values import joint_model, optimal_values, policy_values, step_rewards

ENV = Grid(height=3, width=1, num_agents=2)
"""Three cells in a row: nine joint states."""


@pytest.fixture(scope="module")
def model():
    return joint_model(ENV)


def apart(model):
    return np.abs(model.positions[:, 0, 0] - model.positions[:, 1, 0]).astype(float)


def test_walks_of_the_model_are_those_of_the_grid(model):
    assert model.positions.shape == (9, 2, 2)
    state = np.flatnonzero((model.positions[:, :, 0] == [0, 1]).all(axis=1))[0]
    joint = np.flatnonzero((model.actions == [2, model.terminate]).all(axis=1))[0]
    assert model.positions[model.following[state, joint], :, 0].tolist() == [1, 1]  # one steps down, one stands still
    up = np.flatnonzero((model.actions == [1, 0]).all(axis=1))[0]
    assert not model.allowed[state, up]


@pytest.mark.parametrize(("step_cost", "gained"), [(0.0, 2.0), (0.5, 1.5), (2.5, 0.0)])
def test_the_best_team_meets_in_one_step_if_that_pays(model, step_cost, gained):
    """From two cells apart both step to the middle: one step earns 2, for its cost."""
    reward = step_rewards(model, -apart(model), step_cost, 0.0)
    best = optimal_values(model, reward, 0.9)
    assert best[apart(model) == 2] == pytest.approx(gained)
    assert best[apart(model) == 0] == pytest.approx(0.0)


def test_effort_is_paid_by_each_mover(model):
    reward = step_rewards(model, -apart(model), 0.0, 0.3)
    assert optimal_values(model, reward, 0.9)[apart(model) == 2] == pytest.approx(2 - 0.6)
    assert optimal_values(model, reward, 0.9)[apart(model) == 1] == pytest.approx(1 - 0.3)


def test_a_policy_that_stands_still_pays_for_every_step_and_one_that_ends_does_not(model):
    reward = step_rewards(model, -apart(model), 0.5, 0.0)
    still, end = np.zeros((9, 2), int), np.full((9, 2), model.terminate)
    assert policy_values(model, reward, still, 0.5, 3) == pytest.approx(-0.5 * (1 + 0.5 + 0.25))
    assert policy_values(model, reward, end, 0.5, 3) == pytest.approx(0.0)
