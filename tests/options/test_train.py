from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cooptions.discovery.oracles.option_values import joint_model, optimal_values, policy_values, step_rewards
from cooptions.envs.grid import Grid, State
from cooptions.envs.rollout import Runners, start
from cooptions.envs.wrapper import AbstractWrapper
from cooptions.errors import ConfigError
from cooptions.learners.networks import NetworkConfig, init_team
from cooptions.learners.q_learning import QConfig, QLearner
from cooptions.options.execution import follow_all, spreads
from cooptions.options.task import collect_starts
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
    tasks_on,
    train_option_networks,
)
from cooptions.types import Feature

ENV = Grid(height=4, width=4, num_agents=2)
TERMINATE = ENV.num_actions


def exact_functions(agent_states):
    """Togetherness in x and in y, known by hand, in the place of eigenfunctions."""
    return 1.5 - jnp.abs(agent_states[0] - agent_states[1])


def make_tasks(config, num_starts=64, **settings):
    """The tasks of the four options of the hand-made functions."""
    config = replace(config, num_starts=num_starts, start_steps=5)
    settings = {"env": ENV, "weights": option_weights(eigenoptions(2, 2), 2)} | settings
    keys = jax.random.split(jax.random.key(0), 1)
    return tasks_on(config=config, evaluate=jax.tree_util.Partial(exact_functions), keys=keys, **settings)


def one(task, option):
    """The task of one option of one seed."""
    single = jax.tree.map(lambda leaf: leaf[0], task)
    return replace(single, weights=single.weights[option], pace=single.pace[option])


def costs(config, pace):
    """Of a step, and of each agent that moves in it."""
    return config.step_cost * float(pace), config.effort * float(pace)


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
    network = jax.tree.map(lambda leaf: leaf[0], train_option_networks(config, tasks, keys))
    return tasks, option_set(config, network, eigenoptions(2, 2), ENV)


def test_options_come_near_the_best_joint_policy(config, trained):
    tasks, options = trained
    model = joint_model(ENV)
    states = jax.vmap(ENV.place)(jnp.asarray(model.positions))
    joint = jax.vmap(ENV.agent_states)(states)
    observed = jax.vmap(ENV.observe)(states), jax.vmap(ENV.action_mask)(states)
    chosen = np.asarray(jax.vmap(options.actions)(joint, *observed))
    functions = np.asarray(jax.vmap(exact_functions)(joint) @ tasks.weights[0].T, np.float64)
    for option in range(4):
        reward = step_rewards(model, functions[:, option], *costs(config, tasks.pace[0, option]))
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
    step_cost, effort = costs(config, task.pace)
    assert float(timestep.reward) == pytest.approx(unit - step_cost - effort, abs=1e-6)
    assert not timestep.last
    assert float(timestep.discount) == 1.0
    back, timestep = task.step(after, jnp.array([1, 0]), jax.random.key(1))  # one steps back, one stands still
    assert float(timestep.reward) == pytest.approx(-unit - step_cost - effort, abs=1e-6)
    assert timestep.score.tolist() == pytest.approx([-2 * (step_cost + effort), 2.0], abs=1e-6)
    assert float(back.value) == pytest.approx(float(state.value), abs=1e-6)
    _, timestep = task.step(state, jnp.array([0, 5]), jax.random.key(1))
    assert float(timestep.reward) == pytest.approx(-step_cost, abs=1e-6)
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


class Final(AbstractWrapper[State]):
    """A grid whose every step ends the task."""

    env: Grid = eqx.field(static=True)

    def step(self, state, action, key):
        state, timestep = self.env.step(state, action, key)
        return state, replace(timestep, discount=jnp.float32(0.0))


@pytest.mark.parametrize(
    ("env", "ends"), [(Grid(4, 4, 2, time_limit=1), False), (Final(ENV), True)], ids=["time limit", "end"]
)
def test_the_end_of_the_environment_ends_the_task_but_its_time_limit_does_not(env, ends):
    task = one(make_tasks(replace(OptionsConfig(), start_steps=0), env=env), 0)
    state, _ = task.reset(jax.random.key(0))
    _, timestep = task.step(state, jnp.array([0, 0]), jax.random.key(1))
    assert bool(timestep.last) == ends


def test_tasks_begin_at_all_their_starts_and_know_the_value_there(config):
    task = one(make_tasks(config), 0)
    states, timesteps = jax.vmap(task.reset)(jax.random.split(jax.random.key(0), 50))
    assert len(np.unique(states.inner.position.reshape(50, -1), axis=0)) > 20
    np.testing.assert_allclose(states.value, jax.vmap(task.value)(states.inner), atol=1e-6)
    np.testing.assert_allclose(timesteps.observation, jax.vmap(ENV.observe)(states.inner), atol=1e-6)


@pytest.mark.parametrize(("scale", "gain"), [("gain", 1.0), ("variance", None)])
def test_the_unit_of_reward_is_what_there_is_to_gain(config, scale, gain):
    task = jax.tree.map(lambda leaf: leaf[0], make_tasks(replace(config, scale=scale)))
    if gain is None:
        np.testing.assert_array_equal(task.weights, option_weights(eigenoptions(2, 2), 2))
    else:
        np.testing.assert_allclose(available_gain(task.start_values, task.weights), gain, rtol=1e-5)


def test_gain_is_measured_from_a_typical_start():
    values = jnp.array([[0.0, 1.0, 3.0], [2.0, 1.0, 3.0], [4.0, -2.0, 3.0]])
    weights = jnp.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    np.testing.assert_allclose(available_gain(values, weights), [2.0, 2.0, 1.0, 1.0])  # the last has nothing to gain


@pytest.mark.parametrize(
    ("values", "settings", "chosen"),
    [
        ((0.0, 0.2, 0.5, -1.0, -1.0), {}, 2),
        ((0.45, 0.2, 0.5, -1.0, -1.0), {}, TERMINATE),
        ((0.45, 0.2, 0.5, -1.0, -1.0), {"still_ends": False}, 0),
        ((0.45, 0.2, 0.5, -1.0, -1.0), {"margin": 0.0}, 2),
        ((-0.3, -0.2, 0.05, -1.0, -1.0), {}, TERMINATE),
        ((-0.3, -0.2, 0.15, -1.0, -1.0), {}, 2),
        ((-0.3, 0.2, 0.15, 0.1, -0.1, 0.15), {"fixed_last": False}, TERMINATE),
        ((-0.3, 0.2, 0.15, 0.1, -0.1, 0.05), {"fixed_last": False}, 1),
        ((0.2, 9.0, 0.1, 0.1, 0.1), {"mask": [True, False, True, True, True]}, TERMINATE),
    ],
)
def test_a_move_has_to_be_worth_more_than_resting_and_who_rests_wants_to_end(values, settings, chosen):
    """Values of the five actions, and of "terminate" where that is learned; the margin is 0.1."""
    settings = {"margin": 0.1, "still_ends": True, "fixed_last": True, "mask": [True] * 5} | settings
    mask = jnp.array([settings.pop("mask")] * 2)
    learner = QConfig(network=NetworkConfig(hidden=(2,)), fixed_last=settings.pop("fixed_last"))
    shapes = jax.eval_shape(lambda: init_team(ENV, learner.network, len(values), key=jax.random.key(0)))
    network = jax.tree.map(lambda leaf: jnp.zeros((2, *leaf.shape)), shapes)
    network = eqx.tree_at(lambda n: n.head.biases[0], network, jnp.broadcast_to(jnp.array(values), (2, 2, len(values))))
    config = OptionsConfig(learner=learner, **settings)
    options = option_set(config, network, eigenoptions(2, 1), ENV)
    begun = ENV.place(jnp.array([[1, 1], [2, 2]]))
    told = options.actions(ENV.agent_states(begun), ENV.observe(begun), mask)
    assert told.tolist() == [[chosen] * 2] * 2


def test_no_option_touches_another():
    """Training options 0 and 1 together or option 0 twice gives option 0 the same policy."""
    learner = QConfig(steps=3200, num_envs=4, rollout=4, batch=8, capacity=400, learning_starts=100, fixed_last=True)
    stage = OptionTraining(QLearner(learner))
    tasks = jax.tree.map(lambda leaf: leaf[0], make_tasks(OptionsConfig()))
    keys = jax.random.split(jax.random.key(2), 12)
    pair, twice = (
        replace(tasks, weights=tasks.weights[rows], pace=tasks.pace[rows])
        for rows in (jnp.array([0, 1]), jnp.array([0, 0]))
    )

    @jax.jit
    def trained_from(state, task):
        return jax.lax.scan(lambda state, key: stage.step(state, task, key=key), state, keys)[0]

    begun = jax.jit(lambda task: stage.init(task, key=jax.random.key(1)))(twice)
    first_weights = begun.network.body.weights[0]
    assert np.abs(first_weights[0] - first_weights[1]).max() > 1e-3, "each begins with weights of its own"
    left, right = (trained_from(begun, task).network for task in (pair, twice))
    for one_leaf, other in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        np.testing.assert_array_equal(one_leaf[0], other[0])
    alike = trained_from(jax.tree.map(lambda leaf: leaf.at[1].set(leaf[0]), begun), twice)
    position = alike.team.runners.state.inner.position
    assert (position[0] != position[1]).any(), "each explores by itself, even if all began alike"


def test_pace_is_what_one_agents_move_changes(config):
    env = Grid(height=30, width=30, num_agents=2)
    tasks = make_tasks(config, num_starts=4096, env=env)
    unit = np.abs(np.asarray(tasks.weights[0])).sum(axis=1)
    # Two of an agent's five moves change x, by one: a mean square of 2/5, but for those against a wall.
    np.testing.assert_allclose(tasks.pace[0], unit * np.sqrt(2 / 5), rtol=0.05)


def test_costs_may_be_in_units_of_reward(config):
    tasks = make_tasks(replace(config, cost_unit="reward", step_cost=0.25, effort=0.0, scale="variance"))
    np.testing.assert_array_equal(tasks.pace, np.ones((1, 4)))
    state, _ = one(tasks, 0).reset(jax.random.key(0))
    _, timestep = one(tasks, 0).step(state, jnp.array([0, 0]), jax.random.key(1))
    assert float(timestep.reward) == pytest.approx(-0.25)


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
    assert (learner.fixed_last, learner.double) == (False, False)


@pytest.mark.parametrize("config", RECIPES["paper"])
def test_the_papers_recipe_has_nothing_of_ours(config):
    assert (config.max_steps, config.epsilon, config.scale) == (50, 0.05, "variance")
    assert (config.step_cost, config.cost_unit) == (0.1, "reward")  # docs/findings/paper-options.md
    assert (config.effort, config.margin, config.still_ends) == (0.0, 0.0, False)
    assert (config.learner.discount, config.learner.fixed_last, config.learner.double) == (0.99, False, False)


def test_options_have_no_memory():
    with pytest.raises(ConfigError, match="options have no memory"):
        OptionsConfig(learner=QConfig(network=NetworkConfig(recurrent=True)))
