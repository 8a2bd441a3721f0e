"""What options of a set would do: all of them, or one that leads."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cooptions.envs.grid import Grid
from cooptions.envs.rollout import start
from cooptions.envs.scenarios import make_env
from cooptions.errors import ConfigError
from cooptions.options.primitives import Primitives


def test_each_agent_does_what_its_option_does_among_all_and_none_is_asked_for_nothing(tiny_env, tiny_starts, make_set):
    """In environments side by side, for seeds with sets of their own."""
    sets = jax.tree.map(lambda *leaves: jnp.stack(leaves), make_set(0), make_set(1), make_set(2))
    timestep = tiny_starts.timestep
    seen = jax.vmap(tiny_env.agent_states)(tiny_starts.state), timestep.observation, timestep.action_mask
    option = jax.random.randint(jax.random.key(1), (3, 64, 2), -1, 4)

    def all_and_one(options, option):
        everything = jax.vmap(options.actions)(*seen)
        return everything, jax.vmap(options.actions_of)(option, *seen)

    everything, one = jax.jit(jax.vmap(all_and_one))(sets, option)
    led = np.asarray(option) >= 0
    expected = np.take_along_axis(np.asarray(everything), np.asarray(option)[:, :, None].clip(0), axis=2)[:, :, 0]
    assert 0 < led.sum() < led.size
    assert len(np.unique(expected[led])) > 1
    np.testing.assert_array_equal(np.asarray(one), np.where(led, expected, 0))


def test_sets_of_relations_see_nothing_of_the_task(make_set):
    """And an environment's other actions, and other order, are no concern of theirs."""
    env = make_env("lbf-7x7-2p-1f")
    options = make_set(sight="relation", env=Grid(7, 7, 2))
    primitives = Primitives(options.primitives.names, 0, (0, 1, 2, 4, 3), 6)  # as if y-1 and y+1 were swapped there
    elsewhere = replace(options, primitives=primitives)
    begun = start(env, 64, key=jax.random.key(0))
    states, mask = jax.vmap(env.agent_states)(begun.state), begun.timestep.action_mask
    mask = mask.at[..., 5].set(True)
    actions = jax.vmap(options.actions)(states, jnp.zeros((64, 2, 1)), mask[..., :5])
    there = jax.vmap(elsewhere.actions)(states, jnp.ones((64, 2, 3)), mask[..., jnp.array([0, 1, 2, 4, 3, 5])])
    assert {3, 4, 5} <= set(np.unique(actions))
    np.testing.assert_array_equal(there, jnp.array([0, 1, 2, 4, 3, 6])[actions])


def test_actions_that_an_environment_lacks_are_refused_by_name():
    with pytest.raises(ConfigError, match="actions: 'load' must be one of .* of stay, x-1, x"):
        Primitives.of(Grid(7, 7, 2), make_env("lbf-7x7-2p-1f").action_names)
