"""The environment that joint options make."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Int

from cooptions.envs.base import check_env
from cooptions.envs.grid import Grid, State
from cooptions.envs.rollout import uniform_action
from cooptions.envs.scenarios import make_env
from cooptions.errors import ConfigError
from cooptions.learners.q_learning import QConfig, QLearner
from cooptions.options.base import AbstractOptions, Option
from cooptions.options.macro import MacroEnv, share
from cooptions.options.smdp import SmdpEnv

STILL, UP, DOWN, LEFT, RIGHT, END = range(6)  # the primitives of the grid, then "terminate"
A, B = 5, 6  # votes for the first and the second option
KEY = jax.random.key(0)


class Scripted(AbstractOptions):
    """Options that read from a table what to do, by the x of the first agent."""

    table: Int[Array, "x option agent"]
    options: tuple[Option, ...] = eqx.field(static=True)
    max_steps: int = eqx.field(static=True, default=50)
    epsilon: float = eqx.field(static=True, default=0.0)

    def actions(self, agent_states, observation, action_mask):
        return self.table[agent_states[0, 0].astype(int)]


def whole_team(*names, num_agents=2):
    return tuple(Option(name, (True,) * num_agents, num_agents) for name in names)


def scripted(rows, options=None, **fields):
    """Options that do the same everywhere if `rows` is [option, agent], else by the first agent's x."""
    table = np.asarray(rows)
    table = np.broadcast_to(table, (9, *table.shape)) if table.ndim == 2 else table
    options = options or whole_team(*"AB"[: table.shape[1]], num_agents=table.shape[2])
    return Scripted(jnp.asarray(table), options, **fields)


def macro_env(rows, options=None, *, time_limit=100, max_steps=50, epsilon=0.0, **settings):
    made = scripted(rows, options, max_steps=max_steps, epsilon=epsilon)
    env = Grid(9, 9, made.table.shape[2], time_limit=time_limit)
    return MacroEnv(env, made, **settings)


def begin(env, places):
    """The state in which the agents stand at `places`, after a step of standing still: cheaper than a reset."""
    inner, timestep = env.env.step(State(places, jnp.int32(-1)), jnp.full(places.shape[0], STILL), KEY)
    return env._state(inner, timestep)


@jax.jit
def run(env, places, actions):
    def step(state, action):
        outcome = env.step(state, action, KEY)
        return outcome[0], outcome

    return jax.lax.scan(step, begin(env, places), actions)[1]


def play(env, places, *actions):
    """States and time steps after each joint action."""
    outcomes = jax.tree.map(np.asarray, run(env, jnp.array(places), jnp.array(actions)))
    return [jax.tree.map(lambda leaf, time=time: leaf[time], outcomes) for time in range(len(actions))]


def test_shared_observations_begin_with_ones_own():
    shared = share(jnp.array([[1, 2], [3, 4], [5, 6]]))
    assert shared.tolist() == [[1, 2, 3, 4, 5, 6], [3, 4, 1, 2, 5, 6], [5, 6, 1, 2, 3, 4]]


# Execution

MIDDLE = [[4, 4], [4, 4]]


def places(state):
    return state.inner.position.tolist()


def test_members_follow_from_the_very_step_of_the_vote():
    env = macro_env([[DOWN, UP], [LEFT, RIGHT]])
    (first, timestep), (second, _) = play(env, MIDDLE, [A, A], [A, A])
    assert places(first) == [[5, 4], [3, 4]]
    assert places(second) == [[6, 4], [2, 4]]
    assert (timestep.macro.active.tolist(), timestep.macro.age.tolist()) == ([0, 0], [1, 1])
    assert (second.active.tolist(), second.age.tolist()) == ([0, 0], [2, 2])


@pytest.mark.parametrize(
    ("action", "moved", "learned"),
    [
        ([UP, RIGHT], [[3, 4], [4, 5]], [UP, RIGHT]),
        ([A, RIGHT], [[4, 4], [4, 5]], [A, RIGHT]),  # a vote in vain: stands still and learns from that
        ([A, B], [[4, 4], [4, 4]], [A, B]),
        ([B, B], [[4, 3], [4, 5]], [LEFT, RIGHT]),
    ],
)
def test_what_is_done_and_learned_from(action, moved, learned):
    ((state, timestep),) = play(macro_env([[DOWN, UP], [LEFT, RIGHT]]), MIDDLE, action)
    assert places(state) == moved
    assert timestep.macro.action.tolist() == learned


def test_others_keep_their_primitives_while_a_sub_team_is_busy():
    options = (Option("A", (True, True, False), 2), Option("B", (False, True, True), 1))
    env = macro_env([[DOWN, UP, END], [END, LEFT, LEFT]], options)
    (first, _), (second, timestep) = play(env, [[4, 4]] * 3, [A, A, RIGHT], [A, A, B])
    assert places(first) == [[5, 4], [3, 4], [4, 5]]
    assert places(second) == [[6, 4], [2, 4], [4, 5]]  # the third votes in vain
    assert timestep.macro.action.tolist() == [DOWN, UP, B]
    assert timestep.action_mask[:, -2:].tolist() == [[True, False], [True, False], [False, False]]
    assert timestep.action_mask[:2, :5].sum() == 0
    assert timestep.action_mask[2, :5].all()


def test_members_who_did_not_vote_are_drawn_in():
    env = macro_env([[DOWN, UP]], (Option("A", (True, True), 1),))
    ((state, timestep),) = play(env, MIDDLE, [A, LEFT])
    assert places(state) == [[5, 4], [3, 4]]
    assert timestep.macro.action.tolist() == [DOWN, UP]


def test_an_unavailable_action_is_to_stand_still():
    ((state, timestep),) = play(macro_env([[LEFT, RIGHT]]), [[4, 0], [4, 4]], [A, A])
    assert places(state) == [[4, 0], [4, 5]]
    assert timestep.macro.action.tolist() == [STILL, RIGHT]
    assert timestep.macro.consistent.tolist() == [True]


def test_executing_agents_act_at_random_with_epsilon():
    env = macro_env([[END, UP]], epsilon=0.5)

    @jax.jit
    def many(action):
        state = begin(env, jnp.array([[0, 0], [4, 4]]))
        return jax.vmap(env.step, in_axes=(None, None, 0))(state, action, jax.random.split(KEY, 1000))

    _, timestep = many(jnp.array([A, A]))
    counts = np.stack([np.bincount(column, minlength=5) for column in timestep.macro.action.T]) / 1000
    np.testing.assert_allclose(counts[0], [0.5 + 1 / 6, 0, 1 / 6, 0, 1 / 6], atol=0.05)
    np.testing.assert_allclose(counts[1], [0.1, 0.6, 0.1, 0.1, 0.1], atol=0.05)
    as_planned = (timestep.macro.action == jnp.array([STILL, UP])).all(axis=1)
    assert (timestep.macro.consistent[:, 0] == as_planned).all()
    state, _ = many(jnp.array([STILL, LEFT]))
    assert (state.inner.position == jnp.array([[0, 0], [4, 3]])).all()  # nobody is disturbed in its own choice


# Side by side

PAIR_AB = (Option("A", (True, True, False, False), 2), Option("B", (False, False, True, True), 2))
LINE = [[4, 4]] * 4


def pairs(a=(DOWN, UP), b=(LEFT, RIGHT), **settings):
    """Four agents, of which the first two can follow A and the last two B."""
    return macro_env([[*a, STILL, STILL], [STILL, STILL, *b]], PAIR_AB, **settings)


def test_sub_teams_follow_options_side_by_side():
    (_, first), (state, timestep) = play(pairs(), LINE, [A, A, RIGHT, B], [A, A, B, B])
    assert first.macro.active.tolist() == [0, 0, -1, -1]
    assert timestep.macro.active.tolist() == timestep.macro.option.tolist() == [0, 0, 1, 1]
    assert timestep.macro.age.tolist() == [2, 2, 1, 1]
    assert places(state) == [[6, 4], [2, 4], [4, 4], [4, 5]]  # the third had moved by itself
    assert timestep.macro.most_at_once == 2


def test_each_option_ends_for_its_own_members():
    _, (_, timestep) = play(pairs(a=(END, END)), LINE, [UP, UP, B, B], [A, A, B, B])
    assert timestep.macro.option.tolist() == [0, 0, 1, 1]
    assert timestep.macro.active.tolist() == [-1, -1, 1, 1]
    assert timestep.macro.age.tolist() == [0, 0, 2, 2]
    _, (_, timestep) = play(pairs(max_steps=2), LINE, [UP, UP, B, B], [A, A, B, B])
    assert timestep.macro.active.tolist() == [0, 0, -1, -1]


def test_each_option_is_interrupted_by_its_own_members():
    _, (state, timestep) = play(pairs(keep="all"), LINE, [A, A, B, B], [A, A, B, UP])
    assert timestep.macro.active.tolist() == [0, 0, -1, -1]
    assert places(state) == [[6, 4], [2, 4], [4, 3], [3, 5]]


@pytest.mark.parametrize("keep", ["none", "all"])
def test_masks_while_one_sub_team_is_busy(keep):
    options = (*PAIR_AB, Option("C", (True, True, True, True), 4))
    rows = [[DOWN, UP, STILL, STILL], [STILL, STILL, LEFT, RIGHT], [UP] * 4]
    ((_, timestep),) = play(macro_env(rows, options, keep=keep), LINE, [A, A, STILL, STILL])
    busy, free = timestep.action_mask[:2], timestep.action_mask[2:]
    assert free[:, :5].all()
    if keep == "none":
        assert busy[:, 5:].tolist() == [[True, False, False]] * 2
        assert not busy[:, :5].any()
        assert free[:, 5:].tolist() == [[False, True, False]] * 2  # C needs agents that are busy
    else:
        assert busy[:, 5:].tolist() == [[True, False, True]] * 2
        assert free[:, 5:].tolist() == [[False, True, True]] * 2


@pytest.mark.parametrize(
    ("start", "follow"), [("threshold", [0, 0, -1]), ("majority", [0, 0, -1]), ("all", [-1, -1, -1])]
)
def test_votes_that_start_an_option_can_be_set_for_all(start, follow):
    env = macro_env([[DOWN, UP, STILL]], (Option("A", (True, True, False), 1),), start=start)
    ((_, timestep),) = play(env, [[4, 4]] * 3, [A, LEFT, LEFT])
    assert timestep.macro.active.tolist() == follow
    ((_, timestep),) = play(env, [[4, 4]] * 3, [A, A, LEFT])
    assert timestep.macro.active.tolist() == [0, 0, -1]


# The end of an option

ENDS_AT_6 = np.where(np.arange(9)[:, None, None] >= 6, END, np.array([[[DOWN, UP]]]))
ONE_ENDS = [[DOWN, END]]


@pytest.mark.parametrize(
    ("rows", "fields", "active"),
    [
        (ENDS_AT_6, {}, [0, -1]),  # all want to: seen on arrival
        (ONE_ENDS, {}, [0, 0]),  # one alone does not end it
        (ONE_ENDS, {"max_steps": 2}, [0, -1]),
        (ONE_ENDS, {"max_steps": 1}, [-1, -1]),
        (ONE_ENDS, {"time_limit": 2}, [0, -1]),
        ([[END, END]], {}, [-1, -1]),  # a step of standing still
    ],
)
def test_termination(rows, fields, active):
    outcomes = play(macro_env(rows, **fields), MIDDLE, [A, A], [A, A])
    assert [timestep.macro.active.tolist() for _, timestep in outcomes] == [[a, a] for a in active]
    ages = [k + 1 if a >= 0 else 0 for k, a in enumerate(active)]
    assert [timestep.macro.age.tolist() for _, timestep in outcomes] == [[age, age] for age in ages]


def test_one_who_terminates_alone_stands_still():
    (_, first), (state, second) = play(macro_env(ONE_ENDS), MIDDLE, [A, A], [A, A])
    assert places(state) == [[6, 4], [4, 4]]
    assert first.macro.action.tolist() == second.macro.action.tolist() == [DOWN, STILL]


def test_sub_teams_end_without_asking_others():
    env = macro_env([[END, END, UP]], (Option("A", (True, True, False), 2),))
    ((_, timestep),) = play(env, [[4, 4]] * 3, [A, A, STILL])
    assert timestep.macro.active.tolist() == [-1] * 3


# Interruption in the environment


@pytest.mark.parametrize(
    ("keep", "action", "moved", "active", "age"),
    [
        ("none", [LEFT, LEFT], [[6, 4], [2, 4]], 0, 2),
        ("majority", [A, LEFT], [[6, 4], [2, 4]], 0, 2),
        ("majority", [LEFT, LEFT], [[5, 3], [3, 3]], -1, 0),
        ("all", [A, A], [[6, 4], [2, 4]], 0, 2),
        ("all", [A, LEFT], [[5, 4], [3, 3]], -1, 0),  # who wanted to go on has voted, in vain
        ("all", [B, B], [[5, 3], [3, 5]], 1, 1),
    ],
)
def test_interrupted_steps_are_votes(keep, action, moved, active, age):
    env = macro_env([[DOWN, UP], [LEFT, RIGHT]], keep=keep)
    _, (state, timestep) = play(env, MIDDLE, [A, A], action)
    assert places(state) == moved
    assert (timestep.macro.active.tolist(), timestep.macro.age.tolist()) == ([active] * 2, [age] * 2)


@pytest.mark.parametrize("keep", ["none", "majority", "all"])
def test_action_masks(keep):
    env = macro_env([[DOWN, UP], [LEFT, RIGHT]], keep=keep)
    (_, before), (_, timestep) = play(env, [[0, 0], [8, 8]], [STILL, STILL], [A, A])
    free_before = [[True, False, True, False, True, True, True], [True, True, False, True, False, True, True]]
    free = [[True, True, True, False, True, True, True], [True, True, True, True, False, True, True]]
    only = [[False] * 5 + [True, False]] * 2
    assert before.action_mask.tolist() == free_before
    assert timestep.action_mask.tolist() == (only if keep == "none" else free)


def test_an_option_can_be_kept_to_acting_states():
    rows = [[END, END], [END, UP]]
    everywhere, acting = macro_env(rows), macro_env(rows, initiation="acting")
    ((_, timestep),) = play(everywhere, MIDDLE, [A, A])
    assert timestep.macro.action.tolist() == [STILL, STILL]
    assert timestep.action_mask[:, 5:].tolist() == [[True, True], [True, True]]
    ((_, timestep),) = play(acting, MIDDLE, [A, A])  # against the mask: a vote in vain
    assert timestep.macro.action.tolist() == [A, A]
    assert timestep.action_mask[:, 5:].tolist() == [[False, True], [False, True]]
    ((_, timestep),) = play(acting, MIDDLE, [B, B])
    assert timestep.macro.active.tolist() == [1, 1]


# What a learner is told


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ([DOWN, UP], [True, False, False]),  # primitives may do what an option would
        ([DOWN, STILL], [False, True, False]),  # and one that terminates alone stands still
        ([DOWN, B], [False, True, False]),  # be it for a vote in vain
        ([STILL, STILL], [False, False, True]),
        ([A, A], [True, False, False]),
        ([B, B], [False, True, False]),
        ([LEFT, UP], [False, False, False]),
    ],
)
def test_consistent_options(action, expected):
    env = macro_env([[DOWN, UP], [DOWN, END], [END, END]], whole_team("A", "B", "C"))
    ((_, timestep),) = play(env, MIDDLE, action)
    assert timestep.macro.consistent.tolist() == expected


def test_options_continue_unless_they_would_end_here():
    rows = np.stack([ENDS_AT_6[:, 0], np.broadcast_to([DOWN, END], (9, 2)), np.broadcast_to(END, (9, 2))], axis=1)
    env = macro_env(rows, whole_team("A", "B", "C"), time_limit=2, max_steps=1)
    (_, first), (_, second) = play(env, MIDDLE, [DOWN, STILL], [DOWN, STILL])
    assert first.macro.continues.tolist() == [True, True, False]
    assert second.macro.continues.tolist() == [False, True, False]  # a time limit ends no option
    assert second.last


def test_nothing_continues_after_the_end():
    env = MacroEnv(make_env("probe-constant"), scripted([[0, 0]]))
    _, timestep = jax.jit(lambda key: env.step(env.reset(key)[0], jnp.array([1, 1]), key))(KEY)
    assert timestep.discount == 0
    assert timestep.macro.continues.tolist() == [False]


def test_the_first_time_step_tells_nothing():
    macro = jax.tree.map(np.asarray, jax.jit(lambda env: env.reset(KEY))(macro_env([[DOWN, UP]]))[1].macro)
    assert (macro.active.tolist(), macro.age.tolist()) == ([-1, -1], [0, 0])
    assert macro.action.tolist() == [STILL, STILL]
    assert not macro.consistent.any()
    assert not macro.continues.any()


# The environment as a whole


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("grid-5x5-3p,collisions=true", "lbf-8x8-2p-2f")]


@pytest.mark.parametrize("scenario", ["probe-masked", *SLOW])
def test_with_primitives_alone_it_is_the_bare_environment(scenario):
    bare = make_env(scenario)
    options = scripted(np.zeros((9, 2, bare.num_agents), int))
    env = MacroEnv(bare, options)

    def step(states, key):
        (state, _), (plain, timestep) = states
        action = uniform_action(timestep.action_mask, key=key)
        outcome = env.step(state, action, key)
        expected = bare.step(plain, action, jax.random.split(key)[1])
        return (outcome, expected), (outcome, expected)

    @jax.jit
    def walk(key):
        states = env.reset(key), bare.reset(key)
        return jax.lax.scan(step, states, jax.random.split(key, 40))[1]

    (state, timestep), (plain, expected) = walk(KEY)
    timestep = eqx.tree_at(lambda t: (t.action_mask, t.macro), timestep, (timestep.action_mask[..., :-2], None))
    assert jax.tree.all(jax.tree.map(jnp.array_equal, (state.inner, timestep), (plain, expected)))
    assert (env.score_names, env.features, env.noop) == (bare.score_names, bare.features, bare.noop)


def test_teams_can_share_what_they_see():
    own, team = (macro_env([[DOWN, UP, UP]], observe=observe) for observe in ("own", "team"))
    check_env(team)
    ((_, seen),) = play(own, [[4, 4], [1, 2], [3, 8]], [UP, DOWN, LEFT])
    ((_, shared),) = play(team, [[4, 4], [1, 2], [3, 8]], [UP, DOWN, LEFT])
    assert shared.observation.tolist() == share(jnp.asarray(seen.observation)).tolist()


@pytest.mark.parametrize(
    ("scenario", "settings", "message"),
    [
        ("overcooked-cramped_room", {"observe": "team"}, 'observe: "team" needs vector observations'),
        ("grid-5x5-2p", {"foresight": False, "initiation": "acting"}, 'foresight: initiation "acting" asks every'),
    ],
)
def test_wrong_settings_are_named(scenario, settings, message):
    with pytest.raises(ConfigError, match=message):
        MacroEnv(make_env(scenario), scripted([[STILL, STILL]]), **settings)


def test_options_for_more_agents_than_there_are_are_refused():
    with pytest.raises(ConfigError, match="options: A is for 3 agents, the environment has 2"):
        MacroEnv(Grid(5, 5, 2), scripted([[STILL] * 3]))


def test_every_seed_may_have_its_own_options():
    tables = jnp.stack([jnp.full((9, 1, 2), move) for move in (UP, DOWN, LEFT)])
    envs = jax.vmap(lambda table: MacroEnv(Grid(9, 9, 2), Scripted(table, whole_team("A"))))(tables)

    states, _ = jax.vmap(run, in_axes=(0, None, None))(envs, jnp.array(MIDDLE), jnp.array([[A, A]]))
    assert states.inner.position[:, 0, 0].tolist() == [[3, 4], [5, 4], [4, 3]]


@pytest.mark.parametrize("keep", ["none", "all"])
def test_without_foresight_the_same_happens(keep):
    """Options that end in some rows and go on in others, and agents that mostly vote alike, for a while."""
    rng = np.random.default_rng(0)
    table = rng.integers(0, 6, (9, 2, 2))
    table[::4] = END
    one = np.repeat(rng.choice([UP, DOWN, A, B], 40), 5)
    actions = jnp.asarray(np.stack([one, np.where(rng.random(200) < 0.1, STILL, one)], axis=1))
    settings = {"max_steps": 4, "time_limit": 300, "keep": keep}
    ran = [run(macro_env(table, foresight=each, **settings), jnp.array(MIDDLE), actions) for each in (True, False)]
    (asked, foreseen), (state, timestep) = ran
    assert len(set(timestep.macro.age[:, 0].tolist())) > 3, "options must have started and gone on"
    assert foreseen.macro.consistent.any()
    assert not timestep.macro.consistent.any()
    assert not timestep.macro.continues.any()
    same = eqx.tree_at(lambda s: s.intended, asked, state.intended), state
    assert eqx.tree_equal(*same)
    hide = lambda t: eqx.tree_at(lambda t: (t.macro.consistent, t.macro.continues), t, (0, 0))  # noqa: E731
    assert eqx.tree_equal(hide(foreseen), hide(timestep))


def test_learners_take_it():
    env = macro_env([[DOWN, UP], [LEFT, RIGHT]], keep="all", time_limit=5)
    check_env(env)
    check_env(SmdpEnv(env, 0.9))
    learner = QLearner(QConfig(steps=1000, num_envs=4))
    for data in (env, SmdpEnv(env, 0.9)):
        state = jax.eval_shape(lambda data: learner.init(data, key=KEY), data)
        after, _ = jax.eval_shape(lambda state, data: learner.step(state, data, key=KEY), state, data)
        assert jax.tree.structure(after) == jax.tree.structure(state)


def test_smdp_steps_need_the_whole_team():
    env = macro_env([[DOWN, UP, UP]], (Option("A", (True, True, False), 2),))
    with pytest.raises(ConfigError, match="options: A leaves agents without a choice"):
        SmdpEnv(env, 0.9)
    with pytest.raises(ConfigError, match="gamma"):
        SmdpEnv(macro_env([[DOWN, UP]]), 1.5)
