"""A set trained in an empty grid behaves the same in every task on the same grid."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cooptions.envs.scenarios import make_env
from cooptions.learners.networks import NetworkConfig
from cooptions.learners.q_learning import QConfig
from cooptions.options.execution import follow_all, spreads
from cooptions.options.sharing.storage import load_option_set, save_option_set
from cooptions.options.task import collect_starts
from cooptions.options.train import (
    OptionsConfig,
    eigenoptions,
    option_set,
    option_weights,
    tasks_on,
    train_option_networks,
)

HOME = "grid-5x5-2p"


def nearness(agent_states):
    """The negative distance of two agents, summed over x and y."""
    return -jnp.abs(agent_states[0] - agent_states[1]).sum(keepdims=True)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """ "Gather" and "spread" for two agents, trained in the empty grid."""
    learner = QConfig(
        steps=30_000,
        num_envs=8,
        rollout=5,
        batch=64,
        capacity=20_000,
        learning_starts=1000,
        learning_rate=2e-3,
        discount=0.9,
        fixed_last=True,
        anneal=True,
        network=NetworkConfig(hidden=(32, 32)),
    )
    config = OptionsConfig(learner=learner, max_steps=20, num_starts=256, start_steps=5)
    env, options = make_env(HOME), eigenoptions(2, 1)
    keys = jax.random.split(jax.random.key(0), 1)
    tasks = tasks_on(env, config, jax.tree_util.Partial(nearness), option_weights(options, 1), keys)
    network = jax.tree.map(lambda leaf: leaf[0], train_option_networks(config, tasks, keys))
    path = tmp_path_factory.mktemp("travel") / "set"
    save_option_set(path, option_set(config, network, options, env), env, (), provenance={})
    return path


def followed_in(scenario, path, begun=None):
    env = make_env(scenario)
    options = load_option_set(path, env)
    begun = collect_starts(env, 256, 5, key=jax.random.key(5)) if begun is None else begun
    return env, follow_all(env, options, begun, key=jax.random.key(6))


def test_roll_outs_in_meeting_equal_those_in_the_empty_grid(saved):
    """From the same states with the same random numbers; agents that spread do not meet on the way."""
    begun = collect_starts(make_env(HOME), 256, 5, key=jax.random.key(5))
    home, met = (followed_in(scenario, saved, begun)[1] for scenario in (HOME, f"{HOME},task=meet"))
    apart = (np.asarray(home.agent_states[1, :, 1:, 0]) != np.asarray(home.agent_states[1, :, 1:, 1])).any(-1).all(-1)
    assert apart.mean() > 0.5
    np.testing.assert_array_equal(met.agent_states[1][apart], home.agent_states[1][apart])
    np.testing.assert_array_equal(met.length[1][apart], home.length[1][apart])


@pytest.mark.parametrize(
    "scenario", [HOME, f"{HOME},task=meet", "lbf-5x5-2p-1f", "lbf-2s-5x5-2p-1f", "lbf-5x5-2p-1f,rules=jumanji"]
)
def test_gathering_and_spreading_work_in_every_task(scenario, saved):
    env, followed = followed_in(scenario, saved)
    apart = spreads(env.features, env.agent_features, followed.agent_states).sum(axis=-1)
    start, (gather, spread) = apart[0, :, 0].mean(), apart[:, :, -1].mean(axis=1)
    least = 1.0 if scenario.startswith("lbf") else 0.0  # agents that forage never share a cell
    assert gather - least <= 0.3 * (start - least)
    assert spread >= 1.5 * start
    ended = np.asarray(followed.terminated) | (np.asarray(followed.length) < 20)  # having met ends the meeting task
    assert ended.mean(axis=1).min() >= (0.6 if scenario.startswith("lbf") else 0.9)
    loads = np.asarray(followed.actions) == 5
    assert env.num_actions == 5 or loads.mean() < 0.02, "apples are loaded by exploration alone, if at all"
