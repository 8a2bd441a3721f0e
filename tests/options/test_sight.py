"""The views of option policies are the same in training and execution, and independent of the task."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cooptions.envs.grid import Grid
from cooptions.envs.scenarios import make_env
from cooptions.envs.team import Team
from cooptions.options.sight import View, relations
from cooptions.options.train import OptionsConfig, eigenoptions, option_weights, tasks_on
from cooptions.types import Feature


def test_on_a_plain_grid_relations_are_what_agents_observe():
    env = Grid(7, 5, 3)
    state, timestep = env.reset(jax.random.key(0))
    np.testing.assert_allclose(relations(Team.of(env), env.agent_states(state)), timestep.observation, atol=1e-6)


def test_relations_of_every_kind_of_feature_and_type():
    features = Feature.coordinate("x", 5), Feature.categorical("held", 3), Feature.continuous("heat", -1.0, 1.0)
    team = Team(features, ((True, True, True), (False, True, True)), (0, 1))
    seen = relations(team, jnp.array([[1.0, 2.0, 0.5], [0.0, 0.0, -1.0]]))
    first = [[-0.5, 0, 0, 1, 0.5, 1, 0], [0, 1, 0, 0, -0.75, 0, 1]]  # the teammate has no x; it is colder
    second = [[0, 1, 0, 0, -1, 0, 1], [0.25, 0, 0, 1, 0.75, 1, 0]]  # its own x is 0, its teammate's absolute
    np.testing.assert_allclose(seen.reshape(2, 2, 7), [first, second], atol=1e-6)


def test_relations_distinguish_all_joint_states():
    env = Grid(3, 2, 3)
    cells = np.argwhere(env.free)
    joint = cells[np.stack(np.meshgrid(*[np.arange(6)] * 3), -1).reshape(-1, 3)]
    seen = np.asarray(jax.vmap(lambda state: relations(Team.of(env), state))(jnp.asarray(joint, jnp.float32)))
    for agent in range(3):
        assert len(np.unique(seen[:, agent].round(4), axis=0)) == 6**3


@pytest.mark.parametrize("scenario", ["lbf-8x8-2p-2f", pytest.param("overcooked-cramped_room", marks=pytest.mark.slow)])
@pytest.mark.parametrize("sight", ["relation", "observation"])
def test_training_and_execution_have_the_same_view(scenario, sight):
    env = make_env(scenario)
    config = OptionsConfig(sight=sight, num_starts=16, start_steps=3)
    functions = jax.tree_util.Partial(lambda states: jnp.abs(states[0] - states[1]))
    num = len(env.features)
    weights = option_weights(eigenoptions(2, num), num)
    tasks = tasks_on(env, config, functions, weights, jax.random.split(jax.random.key(0), 1))
    task = jax.tree.map(lambda leaf: leaf[0], tasks)
    task = replace(task, weights=task.weights[0], pace=task.pace[0])
    view, still = View.of(env, sight), jnp.full(2, env.noop)
    begun, first = task.reset(jax.random.key(1))
    _, plain = env.step(begun.inner, still, jax.random.key(2))
    after, later = task.step(begun, still, jax.random.key(2))
    np.testing.assert_array_equal(first.observation, view(env.agent_states(begun.inner), first.observation))
    np.testing.assert_array_equal(later.observation, view(env.agent_states(after.inner), plain.observation))
    assert first.observation.shape[1:] == later.observation.shape[1:] == view.shape(env)
    assert (later.observation.ndim == 2) == (sight == "relation" or not env.shows_pictures)
