"""What a team chooses: the truth tables of exploring, greedy and going on."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cooptions.errors import ConfigError
from cooptions.learners.exploration import ChoiceConfig, choose, draw_together, follow
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


# Options of sub-teams: four agents, two pairs side by side, a pair between them, and the whole team.

MEMBERS = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [0, 1, 1, 0], [1, 1, 1, 1]], bool)


def crowd(active=(-1, -1, -1, -1), num=2000):
    """The same moment in many environments, in which free agents may do a primitive or vote as they are members."""
    members, busy = MEMBERS.T, np.array(active) >= 0
    possible = members & ~(MEMBERS & busy).any(axis=1)
    mask = np.concatenate([np.ones((4, PRIMITIVES), bool), possible], axis=1)
    going_on = np.arange(PRIMITIVES + 4) == PRIMITIVES + np.array(active)[:, None]
    mask = jnp.asarray(np.where(busy[:, None], going_on, mask))
    choices = jnp.asarray(np.concatenate([np.ones((4, PRIMITIVES), bool), members], axis=1))
    zeros, nothing = jnp.zeros(4, jnp.int32), jnp.zeros(4, bool)
    macro = MacroStep(jnp.array(active), zeros, zeros - 1, zeros, nothing, nothing, choices, most_at_once=2)
    one = dataclasses.replace(restart(jnp.zeros((4, 1)), mask, 0), macro=macro)
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (num, *leaf.shape)), one)


def drawn(now, weights=None, chance=1.0):
    """The different partitions that were drawn, as options (-1 for a primitive), and how often."""
    still = jnp.zeros(now.action_mask.shape[:2], jnp.int32)
    weights = None if weights is None else jnp.array(weights)
    action = np.asarray(draw_together(now, still, chance, key=KEY, weights=weights))
    rows, counts = np.unique(np.maximum(action - PRIMITIVES, -1), axis=0, return_counts=True)
    return {tuple(row): count / len(action) for row, count in zip(rows.tolist(), counts, strict=True)}


def test_a_team_draws_options_until_none_fits():
    """One at random, then another one of free agents: after the first pair there is only the second."""
    assert drawn(crowd()) == {
        (0, 0, 1, 1): pytest.approx(0.5, abs=0.04),
        (-1, 2, 2, -1): pytest.approx(0.25, abs=0.04),
        (3, 3, 3, 3): pytest.approx(0.25, abs=0.04),
    }


def test_options_are_drawn_by_weight_among_those_that_fit():
    assert drawn(crowd(), [0.1, 0.0, 0.5, 0.4]) == {
        (0, 0, -1, -1): pytest.approx(0.1, abs=0.03),  # the other pair has no weight
        (-1, 2, 2, -1): pytest.approx(0.5, abs=0.04),
        (3, 3, 3, 3): pytest.approx(0.4, abs=0.04),
    }


def test_the_chance_is_that_of_a_whole_partition():
    found = drawn(crowd(), [0.5, 0.5, 0.0, 0.0], chance=0.3)
    assert found == {(0, 0, 1, 1): pytest.approx(0.3, abs=0.04), (-1, -1, -1, -1): pytest.approx(0.7, abs=0.04)}


def test_agents_that_are_free_draw_while_others_are_busy():
    assert drawn(crowd((0, 0, -1, -1))) == {(-1, -1, 1, 1): 1.0}
    assert drawn(crowd((-1, 2, 2, -1))) == {(-1, -1, -1, -1): 1.0}
    followed = follow(crowd((0, 0, -1, -1)), jnp.ones((2000, 4), jnp.int32))
    assert (followed == jnp.array([PRIMITIVES, PRIMITIVES, 1, 1])).all(), "who is led votes for its own option"


def test_options_that_may_be_interrupted_are_not_drawn_over():
    """Where members may vote for anything, those that follow an option are busy all the same."""
    now = crowd((0, 0, -1, -1))
    now = eqx.tree_at(lambda t: t.action_mask, now, now.macro.choices)
    assert drawn(now) == {(-1, -1, 1, 1): 1.0}
