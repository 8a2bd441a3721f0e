import numpy as np
import pytest

from cooptions.discovery.oracles.option_values import joint_model, optimal_values, policy_values, step_rewards
from cooptions.envs.grid import Grid

ENV = Grid(height=3, width=1, num_agents=2)
"""Three cells in a row: nine joint states."""

UP, DOWN = 1, 2


@pytest.fixture(scope="module")
def model():
    return joint_model(ENV)


def apart(model):
    return np.abs(model.positions[:, 0, 0] - model.positions[:, 1, 0]).astype(float)


def place(model, *rows):
    return np.flatnonzero((model.positions[:, :, 0] == rows).all(axis=1))[0]


def joint(model, *actions):
    return np.flatnonzero((model.actions == actions).all(axis=1))[0]


def test_walks_of_the_model_are_those_of_the_grid(model):
    assert model.positions.shape == (9, 2, 2)
    state = place(model, 0, 2)
    assert model.positions[model.following[state, joint(model, DOWN, model.terminate)], :, 0].tolist() == [1, 2]
    assert not model.allowed[state, joint(model, UP, 0)]
    assert model.allowed[state, joint(model, DOWN, UP)]


@pytest.mark.parametrize(("step_cost", "gained"), [(0.0, 2.0), (0.5, 1.5), (2.5, 0.0)])
def test_the_optimal_team_meets_in_one_step_if_that_is_rewarding(model, step_cost, gained):
    """From two cells apart, both step to the middle: one step has reward 2 minus its cost."""
    reward = step_rewards(model, -apart(model), step_cost, 0.0)
    best = optimal_values(model, reward, 0.9)
    assert best[apart(model) == 2] == pytest.approx(gained)
    assert best[apart(model) == 0] == pytest.approx(0.0)


def test_later_rewards_are_discounted():
    """From four cells apart, it takes two steps to meet, each with reward 2."""
    line = joint_model(Grid(height=5, width=1, num_agents=2))
    best = optimal_values(line, step_rewards(line, -apart(line), 0.5, 0.0), 0.8)
    assert best[apart(line) == 4] == pytest.approx(1.5 + 0.8 * 1.5)
    assert best[apart(line) == 3] == pytest.approx(1.5 + 0.8 * 0.5)


def test_effort_is_for_movers_and_termination_for_whole_teams(model):
    reward = step_rewards(model, -apart(model), 0.5, 0.25)[place(model, 0, 2)]
    assert reward[joint(model, DOWN, 0)] == pytest.approx(1 - 0.5 - 0.25)
    assert reward[joint(model, DOWN, model.terminate)] == pytest.approx(1 - 0.5 - 0.25)
    assert reward[joint(model, 0, model.terminate)] == pytest.approx(-0.5)
    assert reward[joint(model, model.terminate, model.terminate)] == 0.0


def test_effort_is_paid_by_each_mover(model):
    reward = step_rewards(model, -apart(model), 0.0, 0.3)
    assert optimal_values(model, reward, 0.9)[apart(model) == 2] == pytest.approx(2 - 0.6)
    assert optimal_values(model, reward, 0.9)[apart(model) == 1] == pytest.approx(1 - 0.3)


def test_a_policy_is_followed_until_it_ends(model):
    """The first agent walks to the second, which votes to terminate all the time."""
    ahead = model.positions[:, 1, 0] - model.positions[:, 0, 0]
    first = np.select([ahead > 0, ahead < 0], [DOWN, UP], model.terminate)
    policy = np.stack([first, np.full(9, model.terminate)], axis=1)
    values = policy_values(model, step_rewards(model, -apart(model), 0.5, 0.0), policy, 0.8, 10)
    for distance, value in ((0, 0.0), (1, 0.5), (2, 0.5 + 0.8 * 0.5)):
        assert values[apart(model) == distance] == pytest.approx(value)


def test_a_policy_that_stands_still_pays_for_every_step_and_one_that_ends_does_not(model):
    reward = step_rewards(model, -apart(model), 0.5, 0.0)
    still, end = np.zeros((9, 2), int), np.full((9, 2), model.terminate)
    assert policy_values(model, reward, still, 0.5, 3) == pytest.approx(-0.5 * (1 + 0.5 + 0.25))
    assert policy_values(model, reward, end, 0.5, 3) == pytest.approx(0.0)
