"""Options of two agents, followed by the teammates of an agent that signals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cooptions.envs.lbf import Foraging
from cooptions.envs.scenarios import make_env
from cooptions.errors import ConfigError
from cooptions.options.calls import calls
from cooptions.options.handmade import handmade_options
from cooptions.options.macro import MacroEnv

STILL, UP, DOWN, LEFT, RIGHT, LOAD, END = range(7)
TEAM, PAIR = Foraging(9, 3, 1), Foraging(9, 2, 1)
GATHER = handmade_options(PAIR, ("gather", "spread"))


def begin(places, apple=(4, 4)):
    """The state of a task with calls, and its time step, when foragers stand at these places."""
    task, level = MacroEnv(TEAM, GATHER, foresight=False, placing="calls"), jnp.ones(3, jnp.int32)
    inner, timestep = TEAM.begin(jnp.array(places), level, jnp.array([apple]), jnp.array([3]))
    state = task._state(inner, timestep)
    nothing = jnp.zeros(task.num_options, bool)
    return task, state, task._timestep(state, timestep, state.active, jnp.zeros(3, jnp.int32), nothing, nothing)


def test_each_option_has_a_call_for_each_agent():
    options = calls(GATHER, TEAM)
    names = [option.name for option in options.options]
    assert names == [f"{name} called by {caller}" for name in ("gather", "spread") for caller in (1, 2, 3)]
    assert options.kinds == (0, 0, 0, 1, 1, 1)
    assert options.callers == (0, 1, 2, 0, 1, 2)
    assert options.members[1].tolist() == [True, False, True]
    assert options.thresholds.tolist() == [2] * 6
    assert calls(options, TEAM) is options
    assert [option.name for option in options.first(3).options] == names[:3]
    with pytest.raises(ConfigError, match="the first 4 are no multiple of 3 callers"):
        options.first(4)


@pytest.mark.parametrize("trained", [False, True])
def test_every_teammate_plays_its_part_in_a_pair_with_the_caller(make_set, trained):
    """With equal answers from the one question about all options and from that about a single agent."""
    pair = make_set(sight="relation", env=PAIR) if trained else GATHER
    options = calls(pair, TEAM)
    states, observation = jnp.array([[4.0, 2.0], [8.0, 2.0], [0.0, 1.0]]), jnp.zeros((3, 1))
    mask = jnp.ones((3, TEAM.num_actions), bool).at[:, LOAD].set(False)
    told = np.asarray(jax.jit(lambda options: options.actions(states, observation, mask))(options))
    for number, (kind, caller) in enumerate(zip(options.kinds, options.callers, strict=True)):
        for agent in range(3):
            if agent == caller:
                assert told[number, agent] == STILL
                continue
            two = np.array(sorted((agent, caller)))
            role = int(agent > caller)
            alone = pair.actions(states[two], observation[two], mask[two])[kind, role]
            one = options.action_of(jnp.int32(number), jnp.int32(agent), states, observation, mask)
            assert told[number, agent] == alone == one


def test_teammates_come_while_the_caller_goes_on_choosing():
    task, state, timestep = begin([[4, 2], [8, 2], [0, 1]])
    gather_to_first = task.num_primitives
    votes = np.asarray(timestep.action_mask[:, task.num_primitives :])
    assert votes.T.tolist() == [[False, True, True], [False] * 3, [False] * 3] * 2, "only the first sees the apple"
    action = jnp.array([RIGHT, gather_to_first, gather_to_first])
    state, timestep = jax.jit(task.step)(state, action, jax.random.key(0))
    assert timestep.macro.option.tolist() == [-1, 0, 0]
    assert state.inner.position.tolist() == [[4, 3], [7, 2], [0, 1]], "the third stands at the middle of its pair"


@pytest.mark.parametrize(
    ("scenario", "options", "message"),
    [
        ("lbf-9x9-3p-1f", handmade_options(TEAM), "same x is for 3 agents; calls need options of two"),
        ("grid-9x9-3p", GATHER, "agents of Grid never signal, so no agent can call: define `signals`"),
        ("grid-9x9-3p,types=122", GATHER, "same|agents differ in features|types"),
    ],
)
def test_what_cannot_be_called_is_refused(scenario, options, message):
    with pytest.raises(ConfigError, match=message):
        MacroEnv(make_env(scenario), options, placing="calls")
