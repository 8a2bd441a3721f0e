"""Options by which an agent that sees an apple calls its teammates."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cooptions.envs.lbf import Foraging
from cooptions.envs.rollout import start, uniform_action
from cooptions.envs.scenarios import make_env
from cooptions.envs.subteam import SubteamEnv
from cooptions.errors import ConfigError
from cooptions.options.handmade import handmade_options
from cooptions.options.macro import MacroEnv
from cooptions.options.placed import join, placed
from cooptions.options.rally import rally_options

STILL, UP, DOWN, LEFT, RIGHT, LOAD, END = range(7)
ENV = Foraging(9, 3, 1)


def foragers(places, apple=(4, 4)):
    """A state and its time step."""
    level = jnp.ones(len(places), jnp.int32)
    return ENV.begin(jnp.array(places), level, jnp.array([apple]), jnp.array([len(places)]))


@eqx.filter_jit
def begun(task, state, timestep):
    """The first time step of a task with options whose inner environment is in this state."""
    macro = task._state(state, timestep)
    nothing = jnp.zeros(task.num_options, bool)
    return macro, task._timestep(macro, timestep, macro.active, jnp.zeros(3, jnp.int32), nothing, nothing)


def test_teammates_walk_to_the_caller_and_end_beside_it():
    state, timestep = foragers([[4, 2], [8, 2], [0, 1]])
    options = rally_options(ENV)
    wanted = jax.jit(lambda o, s, t: o.actions(ENV.agent_states(s), t.observation, t.action_mask))(
        options, state, timestep
    )
    assert wanted[0, 1:].tolist() == [UP, DOWN]
    assert wanted[1, [0, 2]].tolist() == [DOWN, DOWN]
    state, timestep = foragers([[4, 2], [5, 2], [3, 2]])
    wanted = options.actions(ENV.agent_states(state), timestep.observation, timestep.action_mask)
    assert wanted[0, 1:].tolist() == [END, END]


def test_only_an_agent_that_sees_an_apple_can_call():
    task = MacroEnv(ENV, rally_options(ENV), foresight=False)
    _, timestep = begun(task, *foragers([[4, 2], [8, 2], [0, 1]]))
    votes = np.asarray(timestep.action_mask[:, ENV.num_actions :])
    assert votes.T.tolist() == [[False, True, True], [False] * 3, [False] * 3], "the caller goes on by itself"
    _, timestep = begun(task, *foragers([[8, 8], [8, 2], [0, 1]]))
    assert not timestep.action_mask[:, ENV.num_actions :].any(), "nobody sees the apple"


def test_the_caller_goes_on_choosing_while_its_teammates_come():
    task = MacroEnv(ENV, rally_options(ENV), foresight=False)
    macro, _ = begun(task, *foragers([[4, 2], [8, 2], [0, 1]]))
    vote = ENV.num_actions
    macro, timestep = jax.jit(task.step)(macro, jnp.array([RIGHT, vote, vote]), jax.random.key(0))
    assert timestep.macro.option.tolist() == [-1, 0, 0]
    assert macro.inner.position.tolist() == [[4, 3], [7, 2], [1, 1]]
    assert timestep.action_mask[0, : ENV.num_actions].any()
    assert timestep.action_mask[1].nonzero()[0].tolist() == [vote], "its teammates have no other choice"


@pytest.mark.parametrize("flag", ["sees", "reaches"])
def test_foragers_signal_what_their_teammates_observe(flag):
    env = ENV if flag == "sees" else make_env("lbf-9x9-3p-1f,rules=jumanji")
    begun = jax.jit(lambda key: start(env, 512, key=key))(jax.random.key(0))
    signals = np.asarray(jax.vmap(env.signals)(begun.state))
    np.testing.assert_array_equal(signals, begun.timestep.observation[..., 3])
    assert signals.any()
    assert not signals.all()


def test_members_of_a_sub_team_signal_what_they_see():
    pairs = SubteamEnv(ENV, 2)
    begun = jax.jit(lambda key: start(pairs, 64, key=key))(jax.random.key(0)).state
    of_all = np.asarray(jax.vmap(ENV.signals)(begun.inner))
    np.testing.assert_array_equal(
        jax.vmap(pairs.signals)(begun), np.take_along_axis(of_all, np.asarray(begun.members), axis=1)
    )


def test_other_environments_have_nothing_to_tell():
    env = make_env("grid-5x5-2p")
    state, _ = jax.jit(env.reset)(jax.random.key(0))
    assert not env.signals(state).any()


def test_calls_are_one_kind_and_keep_their_callers_among_others():
    rally, others = rally_options(ENV), handmade_options(ENV, max_steps=30)
    assert rally.kinds == (0, 0, 0)
    assert rally.callers == (0, 1, 2)
    assert others.callers == (None,) * 4
    assert join(others, rally).callers == (None, None, None, None, 0, 1, 2)
    pairs = placed(rally_options(Foraging(9, 2, 1)), ENV)
    assert [option.name for option in pairs.options[:2]] == ["rally to 1 of 2", "rally to 1 of 3"]
    assert pairs.callers == (0, 0, 1, 1, 2, 2)


@pytest.mark.parametrize(
    ("scenario", "message"),
    [("probe-constant", "needs the coordinates x and y"), ("grid-5x5-2p", "agents of Grid never signal")],
)
def test_only_for_agents_on_a_grid_that_signal(scenario, message):
    with pytest.raises(ConfigError, match=message):
        rally_options(make_env(scenario))


@pytest.mark.slow
def test_calls_bring_rewards_that_random_play_does_not_find():
    task = MacroEnv(make_env("lbf-15x15-3p-5f"), rally_options(make_env("lbf-15x15-3p-5f")), foresight=False)
    paid = {share: _paid(task, share) for share in (0.0, 0.1)}
    assert paid[0.1] > 10 * max(paid[0.0], 1)


def _paid(task, share, num=1000, steps=500):
    """How many of many steps of random play are paid."""
    from cooptions.envs.rollout import advance
    from cooptions.learners.exploration import draw_together, follow

    @jax.jit
    def play(key):
        def step(runners, key):
            own_key, draw_key, env_key = jax.random.split(key, 3)
            mask = runners.timestep.action_mask & (jnp.arange(task.num_actions) < task.num_primitives)
            own = uniform_action(mask, key=own_key)
            action = follow(runners.timestep, draw_together(runners.timestep, own, share, key=draw_key))
            outcome, runners = advance(task, runners, action, key=env_key)
            return runners, (outcome.timestep.reward > 0).sum()

        return jax.lax.scan(step, start(task, num, key=key), jax.random.split(key, steps))[1].sum()

    return int(play(jax.random.key(0)))
