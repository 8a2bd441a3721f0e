from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cooptions.envs.grid import Grid
from cooptions.envs.rollout import Runners, start
from cooptions.errors import ConfigError
from cooptions.learners.networks import NetworkConfig
from cooptions.learners.q_learning import QConfig, QLearner
from cooptions.options.execution import follow_all, spreads
from cooptions.options.task import OptionTask, collect_starts
from cooptions.options.train import (
    PAPER,
    RECIPES,
    OptionsConfig,
    OptionTraining,
    available_gain,
    eigenoptions,
    option_set,
    option_weights,
    recipe,
    train_options,
)
from cooptions.oracles.option_values import joint_model, optimal_values, policy_values, step_rewards
from cooptions.types import Feature

ENV = Grid(height=4, width=4, num_agents=2)


def exact_functions(agent_states):
    """Togetherness in x and in y, known by hand, in the place of eigenfunctions."""
    return 1.5 - jnp.abs(agent_states[0] - agent_states[1])


def make_tasks(config, num_seeds=1):
    """The tasks of the four options of the hand-made functions."""
    begun = [collect_starts(ENV, 64, 5, key=jax.random.key(seed)) for seed in range(num_seeds)]
    starts = jax.tree.map(lambda *leaves: jnp.stack(leaves), *begun)
    values = jax.vmap(jax.vmap(lambda state: exact_functions(ENV.agent_states(state))))(starts.state)
    weights = option_weights(eigenoptions(2, 2), 2)
    weights = jnp.broadcast_to(weights, (num_seeds, *weights.shape))
    if config.scale == "gain":
        weights = weights / jax.vmap(available_gain)(values, weights)[..., None]
    return OptionTask(
        env=ENV,
        columns=(0, 1),
        step_cost=config.step_cost,
        effort=config.effort,
        max_steps=config.max_steps,
        evaluate=jax.tree_util.Partial(exact_functions),
        weights=weights,
        starts=starts,
        start_values=values,
    )


def one(task, option):
    """The task of one option of one seed."""
    single = jax.tree.map(lambda leaf: leaf[0], task)
    return replace(single, weights=single.weights[option])


@pytest.fixture(scope="module")
def config():
    learner = replace(
        OptionsConfig().learner,
        steps=40_000,
        num_envs=8,
        rollout=5,
        batch=64,
        learning_starts=1000,
        learning_rate=2e-3,
        network=NetworkConfig(hidden=(32, 32)),
    )
    return replace(OptionsConfig(), learner=learner, max_steps=20)


@pytest.fixture(scope="module")
def trained(config):
    keys = jax.random.split(jax.random.key(3), 1)
    tasks = make_tasks(config)
    network = jax.tree.map(lambda leaf: leaf[0], train_options(config, tasks, keys))
    return tasks, option_set(config, network, eigenoptions(2, 2), ENV.noop)


def test_options_come_near_the_best_joint_policy(config, trained):
    tasks, options = trained
    model = joint_model(ENV)
    states = jax.vmap(ENV.place)(jnp.asarray(model.positions))
    joint = jax.vmap(ENV.agent_states)(states)
    observed = jax.vmap(ENV.observe)(states), jax.vmap(ENV.action_mask)(states)
    chosen = np.asarray(jax.vmap(options.actions)(joint, *observed))
    functions = np.asarray(jax.vmap(exact_functions)(joint) @ tasks.weights[0].T, np.float64)
    for option in range(4):
        reward = step_rewards(model, functions[:, option], config.step_cost, config.effort)
        best = optimal_values(model, reward, config.learner.discount)
        reached = policy_values(model, reward, chosen[:, option], config.learner.discount, config.max_steps)
        assert reached.mean() >= 0.9 * best.mean(), options.options[option].name


def test_same_x_aligns_x_alone_and_ends_by_itself(trained):
    _, options = trained
    begun = start(ENV, 64, key=jax.random.key(8))
    followed = follow_all(ENV, options, begun, key=jax.random.key(9))
    apart = spreads(ENV.features, ENV.agent_features, followed.agent_states)
    before, after = apart[:, :, 0].mean(axis=1), apart[:, :, -1].mean(axis=1)
    assert after[0, 0] <= 0.2 * before[0, 0]  # same x
    assert after[0, 1] >= 0.7 * before[0, 1]
    assert after[1, 0] >= 1.5 * before[1, 0]  # its negative
    assert after[2, 1] <= 0.2 * before[2, 1]  # same y
    assert np.asarray(followed.terminated).mean(axis=1).min() >= 0.9
    assert np.asarray(followed.length).max() <= options.max_steps


def test_reward_is_the_climb_less_its_costs_and_ending_together_earns_nothing(config):
    task = one(make_tasks(config), 0)
    begun = ENV.place(jnp.array([[0, 0], [2, 1]]))
    state, _ = task.reset(jax.random.key(0))
    state = replace(state, inner=begun, value=task.value(begun))
    after, timestep = task.step(state, jnp.array([2, 5]), jax.random.key(1))  # one steps down, one wants to end
    assert after.inner.position.tolist() == [[1, 0], [2, 1]]
    unit = float(task.weights[0])
    assert float(timestep.reward) == pytest.approx(unit - config.step_cost - config.effort, abs=1e-6)
    assert not timestep.last
    assert float(timestep.discount) == 1.0
    _, timestep = task.step(state, jnp.array([5, 5]), jax.random.key(1))
    assert float(timestep.reward) == 0.0
    assert timestep.last
    assert float(timestep.discount) == 0.0


def test_the_step_limit_is_no_end_of_the_task(config):
    task = one(make_tasks(config), 0)
    state, _ = task.reset(jax.random.key(0))
    state = replace(state, age=jnp.int32(config.max_steps - 1))
    _, timestep = task.step(state, jnp.array([0, 0]), jax.random.key(1))
    assert timestep.last
    assert float(timestep.discount) == 1.0


def test_gain_is_measured_from_a_typical_start():
    values = jnp.array([[0.0, 1.0], [2.0, 1.0], [4.0, -2.0]])
    weights = jnp.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    np.testing.assert_allclose(available_gain(values, weights), [2.0, 2.0, 1.0])


def test_no_option_touches_another():
    """Training options 0 and 1 together or option 0 twice gives option 0 the same policy."""
    learner = QConfig(steps=3200, num_envs=4, rollout=4, batch=8, capacity=400, learning_starts=100, fixed_last=True)
    stage = OptionTraining(QLearner(learner))
    tasks = jax.tree.map(lambda leaf: leaf[0], make_tasks(OptionsConfig()))
    keys = jax.random.split(jax.random.key(2), 12)
    pair, twice = (replace(tasks, weights=tasks.weights[jnp.array(rows)]) for rows in ([0, 1], [0, 0]))

    @jax.jit
    def first_network(task):
        state = stage.init(task, key=jax.random.key(1))
        state, _ = jax.lax.scan(lambda state, key: stage.step(state, task, key=key), state, keys)
        return [leaf[0] for leaf in jax.tree.leaves(state.network)]

    for left, right in zip(first_network(pair), first_network(twice), strict=True):
        np.testing.assert_array_equal(left, right)


def test_starts_differ_and_are_where_random_play_leads():
    begun = collect_starts(Grid(height=9, width=9, num_agents=2), 200, 10, key=jax.random.key(0))
    assert isinstance(begun, Runners)
    steps = np.asarray(begun.state.step_count)
    assert set(steps) == set(range(11))


def test_spread_counts_what_each_kind_of_feature_means():
    features = (Feature.coordinate("x", 9), Feature.categorical("held", 3))
    has = np.array([[True, True], [True, True], [False, True]])
    states = np.array([[1.0, 2.0], [5.0, 2.0], [0.0, 1.0]])
    np.testing.assert_allclose(spreads(features, has, states), [4.0, 1.0])


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_fit_what_is_shown(name):
    assert recipe(name, ENV).learner.num_envs == 32
    assert RECIPES[name][1].learner.num_envs == 16


def test_the_papers_recipe_is_its_table():
    learner = PAPER.learner
    table = (learner.learning_rate, learner.anneal, learner.network.hidden, learner.num_envs, learner.rollout)
    assert table == (1e-3, False, (64, 64), 32, 10)
    assert (learner.discount, learner.capacity, learner.batch, learner.target_interval) == (0.99, 5000, 32, 10)
    assert (learner.max_gradient_norm, learner.learning_starts, learner.epochs) == (1.0, 5000, 4)
    assert (PAPER.max_steps, PAPER.epsilon, PAPER.step_cost, learner.fixed_last) == (50, 0.05, 0.0, False)


def test_options_have_no_memory():
    with pytest.raises(ConfigError, match="options have no memory"):
        OptionsConfig(learner=QConfig(network=NetworkConfig(recurrent=True)))
