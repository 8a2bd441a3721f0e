"""What options of a set would do: all of them, or one that leads."""

import jax
import jax.numpy as jnp
import numpy as np


def test_one_option_does_what_it_does_among_all_and_none_is_asked_for_nothing(tiny_env, tiny_starts, make_set):
    """In environments side by side, for seeds with sets of their own."""
    sets = jax.tree.map(lambda *leaves: jnp.stack(leaves), make_set(0), make_set(1), make_set(2))
    timestep = tiny_starts.timestep
    seen = jax.vmap(tiny_env.agent_states)(tiny_starts.state), timestep.observation, timestep.action_mask
    option = jax.random.randint(jax.random.key(1), (3, 64), -1, 4)

    def all_and_one(options, option):
        everything = jax.vmap(options.actions)(*seen)
        return everything, jax.vmap(options.actions_of)(option, *seen)

    everything, one = jax.jit(jax.vmap(all_and_one))(sets, option)
    led = np.asarray(option) >= 0
    expected = np.take_along_axis(np.asarray(everything), np.asarray(option)[..., None, None].clip(0), axis=2)[:, :, 0]
    assert 0 < led.sum() < led.size
    assert len(np.unique(expected[led])) > 1
    np.testing.assert_array_equal(np.asarray(one), np.where(led[..., None], expected, 0))
