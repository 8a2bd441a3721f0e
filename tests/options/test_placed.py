"""Options of small teams in larger ones: who takes part, what they see, and what they do there."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cooptions.envs.base import check_env
from cooptions.envs.grid import Grid
from cooptions.envs.rollout import start
from cooptions.envs.scenarios import make_env
from cooptions.errors import ConfigError
from cooptions.learners.exploration import ChoiceConfig
from cooptions.learners.q_learning import QConfig, QLearner
from cooptions.options.handmade import handmade_options
from cooptions.options.macro import MacroEnv
from cooptions.options.placed import PlacedOptions, join, placed, placements
from cooptions.options.primitives import Primitives

PAIR, TEAM = Grid(7, 7, 2), Grid(7, 7, 4)
GATHER = handmade_options(PAIR, ("gather",))


@pytest.mark.parametrize(
    ("fits", "expected"),
    [
        (np.ones((2, 3)), [(0, 1), (0, 2), (1, 2)]),  # alike: each pair once
        (np.ones((3, 3)), [(0, 1, 2)]),
        ([[0, 1, 1], [1, 0, 0]], [(1, 0), (2, 0)]),  # unlike: in the order of the roles
        ([[1, 1, 0, 0], [0, 0, 1, 1]], [(0, 2), (0, 3), (1, 2), (1, 3)]),
        ([[1, 1, 0], [0, 0, 1], [1, 1, 0]], [(0, 2, 1)]),
        ([[1, 1, 0], [1, 1, 0], [1, 1, 0]], []),  # too few
    ],
)
def test_who_can_take_part(fits, expected):
    assert list(placements(np.array(fits, bool))) == expected


def test_names_say_the_members():
    options = placed(handmade_options(PAIR, ("gather", "spread")), TEAM)
    names = [option.name for option in options.options]
    assert names[:3] == ["gather of 1,2", "gather of 1,3", "gather of 1,4"]
    assert names[6] == "spread of 1,2"
    assert options.members[1].tolist() == [True, False, True, False]
    assert options.thresholds.tolist() == [2] * 12
    assert options.kinds == (0,) * 6 + (1,) * 6
    assert [option.name for option in options.first(6).options] == names[:6]
    check_env(MacroEnv(TEAM, options))


def test_options_of_whole_teams_stay_as_they_are():
    options = handmade_options(TEAM)
    assert placed(options, TEAM) is options
    assert MacroEnv(TEAM, options).options is options


def seen(env, num=32):
    begun = start(env, num, key=jax.random.key(0))
    return jax.vmap(env.agent_states)(begun.state), begun.timestep.observation, begun.timestep.action_mask


@pytest.mark.parametrize("trained", [False, True])
def test_members_do_what_the_small_team_would_do_where_they_stand(trained, make_set):
    small = make_set(sight="relation", env=PAIR) if trained else handmade_options(PAIR)
    options = placed(small, TEAM)
    assert isinstance(options, PlacedOptions)
    states, observation, mask = seen(TEAM)
    everything = np.asarray(jax.vmap(options.actions)(states, observation, mask))
    for index in (1, 4, 5 + len(options.places)):
        kind, place = divmod(index, len(options.places))
        members = np.array(options.places[place])
        own = jax.vmap(small.actions)(states[:, members], observation[:, members], mask[:, members])
        np.testing.assert_array_equal(everything[:, index, members], own[:, kind])
    assert len(np.unique(everything)) > 2


@pytest.mark.parametrize("trained", [False, True])
def test_each_agent_follows_the_option_that_is_its_own(trained, make_set):
    """Side by side, alone, or none at all; and an agent whose sub-team it is not asked for is free to do anything."""
    options = placed(make_set(sight="relation", env=PAIR) if trained else handmade_options(PAIR), TEAM)
    given, states = seen(TEAM), options.places.index((0, 2))
    beside = len(options.places) + options.places.index((1, 3))
    option = jnp.array([[states, beside, states, beside], [states, -1, states, -1], [-1] * 4])[jnp.arange(32) % 3]
    told = np.asarray(jax.jit(jax.vmap(options.actions_of))(option, *given))
    everything = np.asarray(jax.vmap(options.actions)(*given))
    expected = np.take_along_axis(everything, np.asarray(option)[:, None].clip(0), axis=1)[:, 0]
    led = np.asarray(option) >= 0
    np.testing.assert_array_equal(told[led], expected[led])
    assert len(np.unique(told[led])) > 1


def test_pairs_gather_side_by_side():
    """Each pair at a place of its own, and both at once."""
    env = MacroEnv(TEAM, GATHER, foresight=False)
    votes = jnp.array([env.action_names.index(f"option gather of {pair}") for pair in ("1,3", "2,4", "1,3", "2,4")])

    @jax.jit
    def play(key):
        def step(state, _):
            state, timestep = env.step(state, votes, key)
            return state, timestep.macro.active

        state, _ = env.reset(key)
        return jax.lax.scan(step, state, None, length=15)

    state, active = play(jax.random.key(1))
    position = state.inner.position
    assert (active[0] == votes - env.num_primitives).all()
    assert (position[0] == position[2]).all()
    assert (position[1] == position[3]).all()
    assert not (position[0] == position[1]).all()


@pytest.mark.parametrize(("end", "steps_of_first"), [("each", 1), ("together", 5)])
def test_a_pair_that_is_done_leaves_or_waits_for_the_others(end, steps_of_first):
    task = MacroEnv(TEAM, GATHER, foresight=False, end=end)
    places = np.array([[0, 0], [0, 1], [6, 0], [6, 5]], np.float32)  # the first pair is one step apart
    inner, shown = TEAM.reset_to(places, jax.random.key(0))
    state = dataclasses.replace(task.reset(jax.random.key(0))[0], inner=inner, available=shown.action_mask)
    votes = jnp.array([5, 5, 10, 10])  # gather of 1,2 and of 3,4
    led = []
    for _ in range(5):
        choice = jnp.where((state.active >= 0) | (not led), votes, TEAM.noop)
        state, timestep = task.step(state, choice, jax.random.key(1))
        led.append((timestep.macro.option >= 0).tolist())
    assert [sum(each[agent] for each in led) for agent in range(4)] == [steps_of_first] * 2 + [5] * 2
    place = TEAM.agent_states(state.inner).astype(int).tolist()
    assert place[0] == place[1]
    assert place[2] == place[3]


@pytest.mark.parametrize(("valued", "dtype"), [(False, "int8"), (True, "int16")])
def test_learners_take_hundreds_of_placed_options(valued, dtype):
    """Replay holds the numbers of actions that have values: of primitives alone, or of all options as well."""
    learner = QLearner(QConfig(steps=1000, num_envs=4, choice=ChoiceConfig(valued=valued)))
    env = MacroEnv(Grid(7, 7, 8), join(handmade_options(PAIR), handmade_options(Grid(7, 7, 3))), foresight=valued)
    assert env.num_options == 4 * (28 + 56)
    state = jax.eval_shape(lambda env: learner.init(env, key=jax.random.key(0)), env)
    assert state.replay.ticks.action.dtype == dtype
    assert len(state.merit.led) == 8, "one record for each kind"
    after, _ = jax.eval_shape(lambda state, env: learner.step(state, env, key=jax.random.key(0)), state, env)
    assert jax.tree.structure(after) == jax.tree.structure(state)


def test_unlike_agents_take_the_part_that_they_are_made_for():
    """The first agent of `types=12` has x alone, the second x and y: among types 1, 2, 2 there are two such pairs."""
    small = handmade_options(make_env("grid-7x7-2p,types=12"), ("same x",))
    options = placed(small, make_env("grid-7x7-3p,types=122"))
    assert [option.name for option in options.options] == ["same x of 1,2", "same x of 1,3"]
    turned = placed(small, make_env("grid-7x7-3p,types=221"))
    assert [option.name for option in turned.options] == ["same x of 3,1", "same x of 3,2"]
    assert turned.members.tolist() == [[True, False, True], [False, True, True]]
    with pytest.raises(ConfigError, match="same x is for 2 agents of which the environment has none, or too few"):
        placed(small, make_env("grid-7x7-3p,types=222"))


def test_options_that_cannot_be_placed_are_refused(make_set):
    with pytest.raises(ConfigError, match='sees the observation of a task for 2 agents .* sight "relation"'):
        MacroEnv(TEAM, make_set(sight="observation", env=PAIR))
    with pytest.raises(ConfigError, match="by x 0 to 6, y 0 to 6, the environment has x 0 to 8, y 0 to 8"):
        MacroEnv(Grid(9, 9, 4), make_set(sight="relation", env=PAIR))
    with pytest.raises(ConfigError, match="same x is for 4 agents, the environment has 2"):
        placed(handmade_options(TEAM), PAIR)
    with pytest.raises(ConfigError, match="the first 5 are no multiple of 6 places"):
        placed(GATHER, TEAM).first(5)


def test_sets_find_their_actions_in_a_task_that_has_others(make_set):
    """The task may have further actions, and another order, as for sets of the whole team."""
    env = make_env("lbf-7x7-3p-2f")
    options = make_set(sight="relation", env=PAIR)
    there = placed(options, env)
    assert isinstance(there, PlacedOptions)
    assert there.team.primitives == Primitives.of(env, options.primitives.names)
    check_env(MacroEnv(env, there, foresight=False))


def test_whole_teams_and_pairs_are_joined():
    whole = handmade_options(TEAM, ("gather",))
    env = MacroEnv(TEAM, join(GATHER, whole))
    options = env.options
    assert options.kinds == (0,) * 6 + (1,)
    assert options.members[-1].all()
    assert options.options[-1].name == "gather"
    given = seen(TEAM)
    option = jnp.array([[1, -1, 1, -1], [6, 6, 6, 6]])[jnp.arange(32) % 2]
    told = np.asarray(jax.vmap(options.actions_of)(option, *given))
    everything = np.asarray(jax.vmap(options.actions)(*given))
    np.testing.assert_array_equal(told[1::2], everything[1::2, 6])
    np.testing.assert_array_equal(told[::2, [0, 2]], everything[::2, 1][:, [0, 2]])
    assert options.first(6).num_options == 6
    check_env(env)


def test_sets_that_differ_are_not_joined():
    with pytest.raises(ConfigError, match=r"one max_steps, not \[50, 9\]"):
        join(GATHER, dataclasses.replace(GATHER, max_steps=9))
    with pytest.raises(ConfigError, match="several that are joined are called gather"):
        join(GATHER, GATHER)


def test_every_seed_may_have_a_set_of_its_own(make_set):
    """As in a run: weights lead with seeds, places are the same for all."""
    sets = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[make_set(i, sight="relation", env=PAIR) for i in range(2)])
    envs = MacroEnv(TEAM, sets, foresight=False)

    @jax.jit
    @jax.vmap
    def go(env):
        state, _ = env.reset(jax.random.key(0))
        votes = jnp.full(4, env.num_primitives)
        return env.step(state, votes, jax.random.key(1))[1].macro

    macro = go(envs)
    assert macro.option.tolist() == [[0, 0, -1, -1]] * 2
    one = MacroEnv(TEAM, make_set(1, sight="relation", env=PAIR), foresight=False)
    state, _ = one.reset(jax.random.key(0))
    alone = one.step(state, jnp.full(4, one.num_primitives), jax.random.key(1))[1].macro
    np.testing.assert_array_equal(macro.action[1], alone.action)
