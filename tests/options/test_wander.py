"""The control for discovered options: it lasts as long, and leads nowhere."""

import jax
import numpy as np
import pytest

from cooptions.envs.rollout import start
from cooptions.envs.scenarios import make_env
from cooptions.options.macro import MacroConfig
from cooptions.options.wander import wandering_options

STEPS = 7


@pytest.mark.parametrize("scenario", ["grid-5x5-2p", "overcooked-cramped_room"])
def test_the_team_acts_at_random_until_time_is_up(scenario):
    inner = make_env(scenario)
    env = MacroConfig().around(inner, wandering_options(inner, max_steps=STEPS), foresight=False)
    num = 256
    vote = np.full((num, env.num_agents), env.num_primitives)

    @jax.jit
    def follow(key):
        begun = start(env, num, key=key)

        def step(state, key):
            state, timestep = jax.vmap(env.step)(state, vote, jax.random.split(key, num))
            return state, (timestep.macro.action, state.active)

        return jax.lax.scan(step, begun.state, jax.random.split(key, STEPS))[1]

    actions, active = follow(jax.random.key(0))
    assert (active[:-1] == 0).all()
    assert (active[-1] == -1).all()
    counts = np.bincount(np.asarray(actions).ravel(), minlength=env.num_primitives)
    assert counts.shape == (env.num_primitives,)
    np.testing.assert_allclose(counts / counts.sum(), 1 / env.num_primitives, atol=0.1)
    first, second = np.asarray(actions)[..., 0], np.asarray(actions)[..., 1]
    assert (first == second).mean() < 0.5, "each agent draws for itself"
