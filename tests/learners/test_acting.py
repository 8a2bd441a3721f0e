"""A team that acts: which steps an option led."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cooptions.envs.scenarios import make_env
from cooptions.learners.acting import Acting, act, leading_option
from cooptions.options.macro import MacroConfig
from cooptions.options.wander import wandering_options


@pytest.mark.parametrize("max_steps", [1, 2, 7])
def test_every_step_of_an_option_counts_its_last_one_too(max_steps):
    """The team votes for it wherever it can, so that none of its steps is its own."""
    inner = make_env("grid-4x4-2p")
    env = MacroConfig().around(inner, wandering_options(inner, max_steps=max_steps), foresight=False)

    def decide(memory, timestep, first, key):
        return memory, jnp.full((3, env.num_agents), env.num_primitives), None

    team = Acting.begin(env, jnp.zeros((3, env.num_agents, 0)), key=jax.random.key(0))
    _, (option, begins), metrics = act(
        env, team, 20, decide, lambda step, _: (leading_option(step.after), step.before.last), key=jax.random.key(1)
    )
    np.testing.assert_array_equal(np.asarray(option)[~np.asarray(begins)], 0)
    assert float(metrics["led"]) == pytest.approx(float((option >= 0).mean()))


def test_without_options_none_leads():
    env = make_env("grid-4x4-2p")
    team = Acting.begin(env, jnp.zeros((3, env.num_agents, 0)), key=jax.random.key(0))
    assert leading_option(team.timestep).tolist() == [[-1, -1]] * 3
