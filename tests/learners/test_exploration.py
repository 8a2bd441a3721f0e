"""What a team chooses: the truth tables of exploring, greedy and going on."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cooptions.errors import ConfigError
from cooptions.learners.exploration import ChoiceConfig, choose, draw_together
from cooptions.types import MacroStep, restart

KEY = jax.random.key(0)
NUM, AGENTS, PRIMITIVES, OPTIONS = 400, 3, 2, 2
ACTIONS = PRIMITIVES + OPTIONS
SHARED = ChoiceConfig()
INDEPENDENT = ChoiceConfig(exploration="independent")
VALUED = ChoiceConfig(valued=True, patience=0.0)


def timestep(active=-1, mask=None, num=NUM):
    """The same moment in many environments: which option is active, what may be done."""
    mask = jnp.ones((AGENTS, ACTIONS), bool) if mask is None else jnp.asarray(mask)
    nothing = jnp.zeros(OPTIONS, bool)
    none, still = jnp.full(AGENTS, -1, jnp.int32), jnp.zeros(AGENTS, jnp.int32)
    active = jnp.broadcast_to(jnp.int32(active), AGENTS)
    macro = MacroStep(active, still, none, still, nothing, nothing, mask)
    one = dataclasses.replace(restart(jnp.zeros((AGENTS, 1)), mask, 0), macro=macro)
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (num, *leaf.shape)), one)


def values(*of_actions):
    return jnp.broadcast_to(jnp.array(of_actions, jnp.float32), (NUM, AGENTS, len(of_actions)))


def chosen(config, of_actions, now, epsilon):
    return np.asarray(choose(config, values(*of_actions), now, jnp.float32(epsilon), key=KEY))


def test_shared_coin_lets_all_agents_vote_for_the_same_option():
    action = chosen(dataclasses.replace(SHARED, option_share=1.0), [0.0, 1.0], timestep(), 1.0)
    assert (action == action[:, :1]).all()
    assert set(action.ravel()) == {2, 3}
    counts = np.bincount(action[:, 0])[2:]
    assert counts.min() > 0.4 * NUM


def test_share_of_exploration_that_is_an_option():
    now = timestep()
    action = chosen(dataclasses.replace(SHARED, option_share=0.3), [0.0, 1.0], now, 0.5)
    assert (action >= PRIMITIVES).all(axis=1).mean() == pytest.approx(0.15, abs=0.05)
    alone = action[(action < PRIMITIVES).any(axis=1)]
    assert (alone < PRIMITIVES).all()  # nobody votes on his own
    assert (alone == 0).mean() == pytest.approx(0.25, abs=0.06)
    assert (chosen(SHARED, [0.0, 1.0], now, 0.0) == 1).all()


def test_independent_agents_seldom_agree():
    action = chosen(INDEPENDENT, [0.0, 1.0], timestep(), 1.0)
    assert set(action.ravel()) == {0, 1, 2, 3}
    together = (action == action[:, :1]).all(axis=1) & (action[:, 0] >= PRIMITIVES)
    assert together.mean() == pytest.approx(2 / 4**AGENTS, abs=0.03)


def test_only_offered_options_are_drawn_and_only_members_vote():
    mask = np.ones((AGENTS, ACTIONS), bool)
    mask[:, 2] = False
    mask[0, 3] = False
    now = timestep(mask=mask)
    action = np.asarray(draw_together(now, jnp.zeros((NUM, AGENTS), jnp.int32), 1.0, key=KEY))
    assert (action == [0, 3, 3]).all()
    mask[:, 3] = False
    assert (draw_together(timestep(mask=mask), jnp.zeros((NUM, AGENTS), jnp.int32), 1.0, key=KEY) == 0).all()


def test_options_are_drawn_as_often_as_their_weights_say():
    still = jnp.zeros((NUM, AGENTS), jnp.int32)
    weights = jnp.array([0.8, 0.2])
    action = np.asarray(draw_together(timestep(), still, 1.0, key=KEY, weights=weights))
    assert (action == action[:, :1]).all()
    assert (action == PRIMITIVES).mean() == pytest.approx(0.8, abs=0.06)
    mask = np.ones((AGENTS, ACTIONS), bool)
    mask[:, PRIMITIVES] = False
    assert (draw_together(timestep(mask=mask), still, 1.0, key=KEY, weights=weights) == PRIMITIVES + 1).all()
    # Where only one without weight is offered, agents do what they chose.
    assert (draw_together(timestep(mask=mask), still + 1, 1.0, key=KEY, weights=jnp.array([1.0, 0.0])) == 1).all()


@pytest.mark.parametrize(("weights", "share"), [(None, 0.2), ([0.8, 0.2], 0.2), ([0.4, 0.1], 0.1), ([0.0, 0.0], 0.0)])
def test_options_are_drawn_as_often_as_the_team_explores_and_they_do_not_yield(weights, share):
    config = dataclasses.replace(SHARED, option_share=0.4)
    weights = None if weights is None else jnp.array(weights)
    action = choose(config, values(0.0, 1.0), timestep(), jnp.float32(0.5), key=KEY, weights=weights)
    together = (np.asarray(action) >= PRIMITIVES).all(axis=1)
    assert together.mean() == pytest.approx(share, abs=0.05)


def test_options_are_chosen_greedily_only_if_they_have_values():
    assert (chosen(VALUED, [0.0, 1.0, 5.0, 2.0], timestep(), 0.0) == 2).all()
    assert (chosen(SHARED, [0.0, 1.0], timestep(), 0.0) == 1).all()


@pytest.mark.parametrize(
    ("config", "of_actions", "goes_on"),
    [
        (SHARED, [0.0, 9.0], True),  # without values, nothing speaks against going on
        (VALUED, [0.0, 1.0, 0.0, 2.0], True),
        (VALUED, [0.0, 1.0, 0.0, 0.9], False),  # the paper's rule: less than the best
        (VALUED, [0.0, 1.0, 3.0, 2.0], False),
        (ChoiceConfig(valued=True, patience=0.2), [0.0, 1.0, 0.0, 0.9], True),
        (ChoiceConfig(valued=True, patience=0.05), [0.0, 1.0, 0.0, 0.9], False),
        (ChoiceConfig(valued=True, patience=0.2), [-2.0, -1.0, -2.0, -1.1], True),
        (ChoiceConfig(valued=True, patience=0.2), [-2.0, -1.0, -2.0, -1.3], False),
    ],
)
def test_active_option_goes_on_as_long_as_it_is_worth_it(config, of_actions, goes_on):
    action = chosen(config, of_actions, timestep(active=1), 0.0)
    assert ((action == PRIMITIVES + 1) == goes_on).all()
    if not goes_on:
        assert (action == np.argmax(of_actions)).all()


def test_exploring_does_not_interrupt_what_is_worth_going_on():
    assert (chosen(VALUED, [0.0, 1.0, 0.0, 2.0], timestep(active=1), 1.0) == 3).all()


def test_member_of_an_option_that_cannot_be_interrupted_goes_on():
    mask = np.zeros((AGENTS, ACTIONS), bool)
    mask[:2, 3] = True  # two members, and one who is free
    mask[2, :2] = True
    for config, of_actions in ((SHARED, [0.0, 9.0]), (VALUED, [0.0, 9.0, 0.0, 0.0])):
        action = chosen(config, of_actions, timestep(active=[1, 1, -1], mask=mask), 0.0)
        assert (action == [3, 3, 1]).all()


def test_evaluation_explores_primitives_alone_and_chooses_options_only_if_told():
    now = timestep()
    evaluated = chosen(VALUED.when_evaluated, [0.0, 1.0, 5.0, 2.0], now, 0.0)
    assert (evaluated == 1).all()
    told = ChoiceConfig(valued=True, evaluated=True).when_evaluated
    assert (chosen(told, [0.0, 1.0, 5.0, 2.0], now, 0.0) == 2).all()
    explored = chosen(told, [0.0, 1.0, 5.0, 2.0], now, 1.0)
    assert set(explored.ravel()) == {0, 1}


def test_wrong_values_name_the_field():
    with pytest.raises(ConfigError, match="choice.option_share must lie"):
        ChoiceConfig(option_share=1.5)
    with pytest.raises(ConfigError, match="choice.merit_share must lie"):
        ChoiceConfig(merit_share=-0.5)
    with pytest.raises(ConfigError, match="choice.patience must not be negative"):
        ChoiceConfig(patience=-0.1)
