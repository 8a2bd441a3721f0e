import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import chisquare

from cooptions.envs.grid import Grid
from cooptions.envs.rollout import advance, start, uniform_action


def test_final_state_is_kept_and_the_next_episode_is_fresh():
    env = Grid(5, 5, 2, time_limit=2)
    runners = start(env, 8, key=jax.random.key(0))
    still = jnp.zeros((8, 2), int)
    outcome, onward = advance(env, runners, still, key=jax.random.key(1))
    assert not outcome.timestep.last.any()
    assert jax.tree.all(jax.tree.map(jnp.array_equal, outcome, onward))
    outcome, onward = advance(env, onward, still, key=jax.random.key(2))
    assert outcome.timestep.last.all()
    assert jnp.array_equal(outcome.state.position, runners.state.position)
    assert (onward.state.step_count == 0).all()
    assert not onward.timestep.last.any()
    assert (onward.state.position != runners.state.position).any()


def test_only_finished_environments_start_again():
    env = Grid(5, 5, 2, time_limit=5)
    runners = start(env, 2, key=jax.random.key(0))
    runners = eqx.tree_at(lambda r: r.state.step_count, runners, jnp.array([4, 0]))
    outcome, onward = advance(env, runners, jnp.zeros((2, 2), int), key=jax.random.key(1))
    assert outcome.timestep.last.tolist() == [True, False]
    assert onward.state.step_count.tolist() == [0, 1]


def test_uniform_action_is_uniform_over_the_available():
    mask = jnp.array([True, False, True, True])
    actions = uniform_action(jnp.broadcast_to(mask, (9000, 4)), key=jax.random.key(0))
    counts = np.bincount(np.asarray(actions), minlength=4)
    assert counts[1] == 0
    assert chisquare(counts[[0, 2, 3]]).pvalue > 1e-3
