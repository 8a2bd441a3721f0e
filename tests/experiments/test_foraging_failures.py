"""What becomes of apples, told apart in states and episodes made by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cooptions.envs.lbf import Foraging
from cooptions.runs.presets import LearnerRecipe
from experiments.foraging_failures import Firsts, apples_now, failures, play

LIMIT = 10


def test_an_apple_is_seen_then_reached_by_enough_levels_then_eaten():
    env = Foraging(grid_size=8, num_agents=2, num_apples=1)
    level, apple = jnp.array([1, 2]), jnp.array([[4, 4]])

    def at(first, second):
        state, _ = env.begin(jnp.array([first, second]), level, apple, jnp.array([3]))
        return [bool(each[0]) for each in apples_now(env, state)]

    assert at((0, 0), (7, 7)) == [False, False, False]
    assert at((2, 4), (7, 7)) == [True, False, False]
    assert at((3, 3), (7, 7)) == [True, False, False]  # in reach, but of level 1 alone
    assert at((3, 3), (5, 5)) == [True, True, False]


def test_failures_are_shares_of_all_apples_and_steps_are_those_of_eaten_ones():
    seen, reached, eaten = [[2, LIMIT], [4, 3]], [[5, LIMIT], [LIMIT, 4]], [[6, LIMIT], [LIMIT, LIMIT]]
    told = failures(Firsts(*(np.array(each) for each in (seen, reached, eaten))), LIMIT)
    shares = ("eaten", "never seen", "seen, never reached by enough", "reached, never loaded together")
    assert [told[name] for name in shares] == [25.0] * 4
    steps = ("steps until seen", "steps from seen to reached", "steps from reached to eaten")
    assert [told[name] for name in steps] == [2.0, 3.0, 1.0]


def test_first_steps_are_kept():
    never = jnp.array([LIMIT])
    yes, no = jnp.array([True]), jnp.array([False])
    firsts = Firsts(never, never, never).at(jnp.int32(3), (yes, no, no)).at(jnp.int32(5), (yes, yes, no))
    assert [int(each[0]) for each in (firsts.seen, firsts.reached, firsts.eaten)] == [3, 5, LIMIT]


def test_every_apple_of_an_episode_counts_once():
    env = Foraging(grid_size=6, num_agents=2, num_apples=1, time_limit=5)
    config = LearnerRecipe("iql", (("steps", 640), ("num_envs", 4), ("rollout", 5))).for_env(env)
    built = config.build()
    policy = built.policy(built.init(env, key=jax.random.key(0)))
    told = failures(play(env, policy, built, 16, key=jax.random.key(1)), env.time_limit)
    assert sum(value for name, value in told.items() if "steps" not in name) == pytest.approx(100.0)
