"""What options have earned, by hand; and that the team draws those that did."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from learners.test_option_values import CONFIG, corridor

from cooptions.learners.exploration import ChoiceConfig
from cooptions.learners.option_credit import AFTERMATH, FORGETTING, GRACE, PATIENCE, Merit
from cooptions.learners.q_learning import QLearner


def record(active, reward, first=(), merit=None):
    """The record of two options after a rollout of one environment."""
    ticks = len(active)
    begins = jnp.isin(jnp.arange(ticks), jnp.array(first, int))
    merit = merit or Merit.none(1, (0, 1))
    return merit.after(jnp.array(active)[:, None, None], begins[:, None], jnp.array(reward, jnp.float32)[:, None])


def test_reward_counts_for_the_option_that_leads_and_less_and_less_after_it():
    merit = record([0, 0, -1, -1], [1.0, 0.0, 0.0, 1.0])
    np.testing.assert_allclose(merit.earned, [1 + AFTERMATH**2, 0.0], rtol=1e-6)
    assert merit.led.tolist() == [2.0, 0.0]


def test_every_option_of_late_has_its_part():
    merit = record([0, 1, -1], [0.0, 0.0, 1.0])
    np.testing.assert_allclose(merit.earned, [AFTERMATH**2, AFTERMATH], rtol=1e-6)


def test_nothing_counts_across_the_beginning_of_an_episode():
    merit = record([0, -1, 1], [0.0, 1.0, 1.0], first=[1])
    np.testing.assert_allclose(merit.earned, [0.0, 1.0], rtol=1e-6)
    merit = record([1, -1], [0.0, 1.0], first=[0])  # one that leads from the beginning on is of this episode
    np.testing.assert_allclose(merit.earned, [0.0, AFTERMATH], rtol=1e-6)


def test_a_rollout_goes_on_where_the_last_one_ended():
    merit = record([-1, -1], [0.0, 1.0], merit=record([1, 1], [1.0, 0.0]))
    np.testing.assert_allclose(merit.earned, [0.0, FORGETTING + AFTERMATH**2], rtol=1e-6)
    np.testing.assert_allclose(merit.led, [0.0, 2 * FORGETTING], rtol=1e-6)


def test_weights_are_alike_until_something_is_earned_and_then_go_by_what_a_step_earns():
    np.testing.assert_allclose(Merit.none(1, (0, 1)).weights(0.8), [0.5, 0.5])
    merit = replace(Merit.none(1, (0, 1)), earned=jnp.array([3.0, 1.0]), led=jnp.array([PATIENCE, PATIENCE]))
    np.testing.assert_allclose(merit.weights(0.8), [0.1 + 0.8 * 0.75, 0.1 + 0.8 * 0.25], rtol=1e-6)
    lazy = replace(merit, earned=jnp.array([3.0, 3.0]), led=jnp.array([0.0, 2 * PATIENCE]))
    np.testing.assert_allclose(lazy.weights(1.0), [0.75, 0.25], rtol=1e-6)
    bad = replace(merit, earned=jnp.array([-3.0, 1.0]))
    np.testing.assert_allclose(bad.weights(1.0), [0.0, 1.0])


def test_a_reward_is_shared_between_options_and_the_team_by_itself_once():
    merit = record([-1, 0, 1, -1, -1], [1.0, 0.0, 0.0, 0.0, 1.0])
    np.testing.assert_allclose(merit.earned, [AFTERMATH**3, AFTERMATH**2], rtol=1e-6)
    np.testing.assert_allclose([merit.owed, merit.own], [AFTERMATH**2, 2 - AFTERMATH**2], rtol=1e-6)
    np.testing.assert_allclose([merit.under, merit.alone], [2 + AFTERMATH + AFTERMATH**2, 3 - AFTERMATH - AFTERMATH**2])
    under = merit.under
    merit = record([-1, 0], [1.0, 1.0], merit=merit)
    np.testing.assert_allclose(merit.under, under * FORGETTING + AFTERMATH**3 + 1, rtol=1e-6)
    np.testing.assert_allclose(merit.owed, AFTERMATH**2 * FORGETTING + AFTERMATH**3 + 1, rtol=1e-6)


def test_options_are_worth_less_the_less_a_step_earns_than_without_them():
    fresh = Merit.none(1, (0, 1))
    assert fresh.worth == 1
    lucky = replace(fresh, own=jnp.float32(10.0), alone=jnp.float32(100.0))
    np.testing.assert_allclose(lucky.worth, 1.0, rtol=1e-6)  # nothing is known of options
    poor = replace(lucky, under=jnp.float32(3 * GRACE))
    np.testing.assert_allclose(poor.worth, 1 / 4, rtol=1e-6)
    np.testing.assert_allclose(poor.weights(0.8, yields=True), [1 / 8, 1 / 8], rtol=1e-6)
    half = replace(poor, owed=jnp.float32(0.05 * 3 * GRACE))
    np.testing.assert_allclose(half.worth, (3 * 0.5 + 1) / 4, rtol=1e-6)
    assert replace(poor, owed=jnp.float32(4 * GRACE)).worth == 1  # never more than `option_share` says
    assert replace(poor, own=jnp.float32(0.0)).worth == 1  # nobody has earned anything


def test_an_option_is_credited_while_it_leads_anybody():
    """Two options side by side, each of one agent: both are credited, and the reward is owed once."""
    option = jnp.array([[[0, -1]], [[0, 1]], [[-1, -1]]])  # [time, env, agent]
    first = jnp.zeros((3, 1), bool)
    merit = Merit.none(1, (0, 1)).after(option, first, jnp.array([[1.0], [1.0], [0.0]]))
    assert merit.led.tolist() == [2.0, 1.0]
    np.testing.assert_allclose(merit.earned, [2.0, 1.0], rtol=1e-6)
    np.testing.assert_allclose([merit.owed, merit.own], [2.0, 0.0], rtol=1e-6)


def test_options_of_one_kind_share_a_record():
    """Options 0 and 1 are one behaviour of different agents: they have earned together, and are drawn alike."""
    option = jnp.array([[[0, 1, 2]], [[-1, 1, 2]]])
    merit = Merit.none(1, (0, 0, 1)).after(option, jnp.zeros((2, 1), bool), jnp.array([[1.0], [0.0]]))
    assert merit.led.tolist() == [2.0, 2.0], "steps at which it led somebody, however many"
    np.testing.assert_allclose(merit.weights(0.8), [0.25, 0.25, 0.5], rtol=1e-6)
    richer = replace(merit, earned=jnp.array([3.0, 1.0]))
    np.testing.assert_allclose(richer.weights(1.0), [0.375, 0.375, 0.25], rtol=1e-6)


def team_in_a_corridor(**choice):
    """A learner that can draw "forth to the reward" and "back to the start", how it begins, and what collects."""
    env = corridor(2, 5)
    config = replace(CONFIG, choice=ChoiceConfig(option_share=0.5, **choice), num_envs=16, rollout=20, capacity=6400)
    learner = QLearner(config)
    return learner.init(env, key=jax.random.key(0)), jax.jit(lambda state, key: learner.collect(state, env, key=key))


def test_a_team_comes_to_draw_the_option_that_pays():
    """Only the way forth leads to any reward."""

    def back_over_forth(share):
        state, collect = team_in_a_corridor(merit_share=share)
        for key in jax.random.split(jax.random.key(1), 20):
            state, _ = collect(state, key)
        forth, back = np.asarray(state.merit.led)
        return back / forth

    assert back_over_forth(1.0) < 0.5 * back_over_forth(0.0)


def test_a_team_that_earns_more_by_itself_draws_fewer_options():
    def led(yields):
        state, collect = team_in_a_corridor(yields=yields)
        earned = replace(state.merit, own=jnp.float32(100.0), alone=jnp.float32(100.0), under=jnp.float32(1e6))
        return collect(eqx.tree_at(lambda s: s.merit, state, earned), jax.random.key(1))[1]["led"]

    assert led(True) < 0.1 * led(False)
