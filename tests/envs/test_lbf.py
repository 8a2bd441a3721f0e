"""Foraging: the paper's rules against a reference in numpy, the public rules against Jumanji, and every rule alone."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from envs import foraging_reference as reference
from jumanji.environments.routing.lbf import LevelBasedForaging
from jumanji.environments.routing.lbf.generator import RandomGenerator
from jumanji.environments.routing.lbf.types import Agent, Food
from jumanji.environments.routing.lbf.types import State as JumanjiState

from cooptions.envs.lbf import RULE_SETS, Foraging
from cooptions.envs.lbf.rules import within_reach
from cooptions.envs.rollout import advance, start
from cooptions.envs.scenarios import make_env
from cooptions.errors import ConfigError

NUM_GAMES = 340
CORNERS_AND_SIDES = jnp.array([[-1, -1], [-1, 0], [-1, 1], [0, -1], [0, 1], [1, -1], [1, 0], [1, 1]])


def begin_where_apples_are_eaten(env, key):
    """A state; in half of all, the team stands around the first apple, one or two agents suffice, others are eaten."""
    reset_key, cell_key, level_key, eaten_key, kind_key = jax.random.split(key, 5)
    state, _ = env.reset(reset_key)
    around = state.apple_position[0] + jax.random.permutation(cell_key, CORNERS_AND_SIDES)[: env.num_agents]
    gathered, easy, late = jax.random.bernoulli(kind_key, 0.5, (3,))
    eaten = late & jax.random.bernoulli(eaten_key, 0.8, (env.num_apples,)).at[0].set(False)
    on_apple = ((around[:, None] == state.apple_position).all(-1) & ~eaten).any()
    level = jnp.where(easy, jax.random.randint(level_key, (env.num_apples,), 1, 4), state.apple_level)
    place = jnp.where(gathered & ~on_apple, around, state.position)
    return replace(state, position=place, apple_level=level, eaten=eaten)


def play(env, steps, key):
    """States, actions, following states and time steps, [step, game]; half of all actions load. Nothing is reset."""
    begin_key, act_key = jax.random.split(key)
    states = jax.vmap(lambda key: begin_where_apples_are_eaten(env, key))(jax.random.split(begin_key, NUM_GAMES))

    def step(state, key):
        load_key, move_key = jax.random.split(key)
        load = jax.random.bernoulli(load_key, 0.5, (NUM_GAMES, env.num_agents))
        action = jnp.where(load, 5, jax.random.randint(move_key, load.shape, 0, env.num_actions))
        after, timestep = jax.vmap(env.step)(state, action, jax.random.split(key, NUM_GAMES))
        return after, (state, action, after, timestep)

    return jax.lax.scan(step, states, jax.random.split(act_key, steps))[1]


@pytest.mark.parametrize(
    "scenario",
    [
        "lbf-15x15-4p-3f",
        "lbf-15x15-4p-5f",
        "lbf-15x15-3p-5f",
        "lbf-15x15-6p-3f,coop=two_lowest",
        "lbf-15x15-8p-3f,coop=three_lowest",
    ],
)
def test_the_papers_rules_equal_the_reference(scenario):
    env = make_env(scenario)
    recorded = jax.jit(lambda key: play(env, 100, key))(jax.random.key(1))
    state, action, after, timestep = jax.tree.map(lambda x: np.asarray(x).reshape(-1, *x.shape[2:]), recorded)
    world = reference.World(
        env.grid_size, state.position, state.level, state.apple_position, state.apple_level, state.eaten,
        state.step_count,
    )  # fmt: skip
    onward, reward, diagonal = reference.step(world, action)
    discount, last, score = reference.ending(onward)
    assert len(action) == 34_000
    assert (after.position == onward.place).all()
    assert (after.eaten == onward.eaten).all()
    assert (timestep.action_mask == reference.action_mask(onward)).all()
    for ours, theirs in (
        (timestep.observation, reference.observation(onward)),
        (timestep.reward, reward),
        (timestep.discount, discount),
        (timestep.last, last),
        (timestep.score[:, 0], score),
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
    eaten = onward.eaten & ~state.eaten
    num_needed = {"all": env.num_agents, "three_lowest": 3, "two_lowest": 2}[env.applied.coop]
    needed = np.sort(state.level, axis=1)[:, :num_needed].sum(axis=1, keepdims=True)
    whole_team = eaten & (state.apple_level == needed)
    counts = [int(each.sum()) for each in (eaten, diagonal, whole_team, whole_team & diagonal, discount == 0)]
    assert min(counts) > 10, (
        f"too few to see a mistake: eaten, diagonally, of the highest level, both, finished: {counts}"
    )
    assert np.ptp(timestep.reward[timestep.reward > 0]) > 0.1


def for_jumanji(env, state):
    """Our state as Jumanji's."""
    loading = jnp.zeros(env.num_agents, bool)
    agents = Agent(id=jnp.arange(env.num_agents), position=state.position, level=state.level, loading=loading)
    apples = Food(
        id=jnp.arange(env.num_apples), position=state.apple_position, level=state.apple_level, eaten=state.eaten
    )
    return JumanjiState(agents=agents, food_items=apples, step_count=state.step_count, key=jax.random.PRNGKey(0))


def stock(env, fov=None):
    return LevelBasedForaging(
        generator=RandomGenerator(env.grid_size, env.num_agents, env.num_apples, fov=fov or env.grid_size)
    )


@pytest.mark.parametrize("scenario", ["lbf-15x15-4p-3f", "lbf-15x15-3p-5f", "lbf-8x8-2p-2f"])
def test_the_public_rules_equal_jumanjis(scenario):
    env = make_env(f"{scenario},rules=jumanji,coop=none")  # so that random play eats apples
    inner = stock(env)

    def step(runners, key):
        # Any action, available or not: the dynamics must agree on both.
        action = jax.random.randint(key, (100, env.num_agents), 0, env.num_actions)
        states = jax.vmap(lambda state: for_jumanji(env, state))(runners.state)
        state, timestep = jax.vmap(inner.step)(states, action)
        outcome, onward = advance(env, runners, action, key=key)
        ours = outcome.timestep
        agree = {
            "position": outcome.state.position == state.agents.position,
            "eaten": outcome.state.eaten == state.food_items.eaten,
            "action_mask": ours.action_mask == timestep.observation.action_mask,
            "reward": jnp.abs(ours.reward - timestep.reward.sum(axis=1)) < 1e-6,
            "discount": ours.discount == timestep.discount[:, 0],
            "last": ours.last == timestep.last(),
            "score": jnp.abs(ours.score[:, 0] - timestep.extras["percent_eaten"]) < 1e-4,
        }
        return onward, (jax.tree.map(jnp.all, agree), state.food_items.eaten.sum(), ours.last.sum())

    runners = start(env, 100, key=jax.random.key(0))
    _, (agree, eaten, ended) = jax.jit(lambda r, k: jax.lax.scan(step, r, k))(
        runners, jax.random.split(jax.random.key(1), 340)
    )
    assert {name: bool(np.all(values)) for name, values in agree.items()} == dict.fromkeys(agree, True)
    assert eaten.any(), "no apple was eaten: the comparison saw nothing of loading"
    assert ended.any()


@pytest.mark.parametrize(
    ("fields", "fov"), [pytest.param({}, 8, marks=pytest.mark.slow), ({"sight": 2, "knows_place": False}, 2)]
)
def test_own_place_and_apples_are_observed_like_in_jumanji(fields, fov):
    env = Foraging(8, 2, 3, rules="jumanji", **fields)
    inner = stock(env, fov)

    def views(key):
        state, _ = env.reset(key)
        state = replace(state, eaten=jnp.array([False, False, True]))
        timestep = inner.step(for_jumanji(env, state), jnp.zeros(2, int))[1]
        return env.observe(state), timestep.observation.agents_view

    observation, theirs = map(np.asarray, jax.vmap(views)(jax.random.split(jax.random.key(0), 500)))
    window = min(fov, 7)
    place = (observation[..., :2] + 1) / 2 * window
    ours, unseen = [], np.array([-1, -1, 0])
    for column in range(8, 20, 4):
        apple = observation[..., column : column + 4]
        seen = apple[..., 3:] == 1
        told = np.concatenate([apple[..., :2] * 7 + place, apple[..., 2:3] * 2 * env.num_agents], axis=-1)
        ours.append(np.where(seen, told, unseen))
    ours += [place, observation[..., 2:3] * 2]
    np.testing.assert_allclose(np.concatenate(ours, axis=-1), theirs[..., :12], atol=1e-5)


@pytest.mark.parametrize(
    ("reach", "table"),
    [
        ("corner", ["00000", "01110", "01110", "01110", "00000"]),
        ("side", ["00000", "00100", "01010", "00100", "00000"]),
    ],
)
def test_reach_and_mask_of_every_offset(reach, table):
    """An agent in the middle, an apple at each offset: reach, the mask of loading, and what loading does."""
    env = Foraging(8, 1, 2, rules="jumanji", reach=reach)
    for row, line in enumerate(table):
        for column, bit in enumerate(line):
            offset = jnp.array([row - 2, column - 2])
            if reach == "side" or (row, column) != (2, 2):
                assert bool(within_reach(reach, offset)) == (bit == "1")
            if (row, column) == (2, 2):  # nobody stands on an apple
                continue
            state, timestep = env.begin(
                jnp.array([[4, 4]]), jnp.array([2]), jnp.stack([4 + offset, jnp.array([1, 1])]), jnp.array([2, 2])
            )
            assert bool(timestep.action_mask[0, 5]) == (bit == "1")
            after, timestep = env.step(state, jnp.array([5]), jax.random.key(0))
            assert after.eaten.tolist() == [bit == "1", False]
            assert float(timestep.reward) == (0.5 if bit == "1" else 0.0)
            assert not timestep.action_mask[0, 5], "an eaten apple can no longer be loaded"


@pytest.mark.parametrize(("reach", "paid"), [("corner", 1.0), ("side", 0.0)])
def test_a_team_loads_from_a_corner_if_the_reach_allows(reach, paid):
    env = Foraging(8, 2, 1, reach=reach, coop="all")
    state, _ = env.begin(jnp.array([[3, 3], [4, 5]]), jnp.array([1, 2]), jnp.array([[4, 4]]), jnp.array([3]))
    _, timestep = env.step(state, jnp.array([5, 5]), jax.random.key(0))
    assert float(timestep.reward) == paid
    _, timestep = env.step(state, jnp.array([0, 5]), jax.random.key(0))
    assert float(timestep.reward) == 0.0, "level 2 does not load an apple of level 3"


def test_a_mask_of_a_hand_made_state():
    env = Foraging(8, 3, 1)
    state, timestep = env.begin(
        jnp.array([[0, 0], [0, 1], [2, 1]]), jnp.array([1, 1, 1]), jnp.array([[1, 1]]), jnp.array([3])
    )
    assert timestep.action_mask.astype(int).tolist() == [[1, 0, 1, 0, 0, 1], [1, 0, 0, 0, 1, 1], [1, 0, 1, 1, 1, 1]]
    eaten = replace(state, eaten=jnp.array([True]))
    assert env.action_mask(eaten).astype(int)[1].tolist() == [1, 0, 1, 0, 1, 0]


@pytest.mark.parametrize(
    ("mask", "table", "walks_into_walls"),
    [
        ("reach", ["00000", "01110", "01110", "01110", "00000"], False),
        ("side", ["00000", "00100", "01010", "00100", "00000"], False),
        ("moves", ["11111"] * 5, False),
        ("none", ["11111"] * 5, True),
    ],
)
def test_when_actions_are_available(mask, table, walks_into_walls):
    """An agent at the left edge, an apple at each offset in the two columns beside it."""
    env = Foraging(8, 1, 2, mask=mask)
    for row, line in enumerate(table):
        for column in (3, 4):
            apples = jnp.array([[4 + row - 2, column - 2], [1, 6]])
            _, timestep = env.begin(jnp.array([[4, 0]]), jnp.array([2]), apples, jnp.array([2, 2]))
            available = timestep.action_mask[0].tolist()
            beside = (row, column) == (2, 3)
            assert available[5] == (line[column] == "1")
            assert available[3] == walks_into_walls
            assert available[4] == (walks_into_walls or not beside), "an apple is in the way"


def test_an_action_without_a_mask_that_cannot_be_done_changes_nothing():
    env = Foraging(8, 2, 1, mask="none")
    state, timestep = env.begin(jnp.array([[0, 0], [0, 1]]), jnp.array([1, 1]), jnp.array([[5, 5]]), jnp.array([2]))
    assert bool(timestep.action_mask.all())
    for actions in ([1, 5], [4, 3], [5, 5]):  # into walls and each other, load without an apple
        after, timestep = env.step(state, jnp.array(actions), jax.random.key(0))
        assert after.position.tolist() == state.position.tolist()
        assert float(timestep.reward) == 0.0


def observed(env, agents, levels, apples, apple_levels, eaten=()):
    state, _ = env.begin(*map(jnp.array, (agents, levels, apples, apple_levels)))
    gone = jnp.isin(jnp.arange(env.num_apples), jnp.array(eaten, int))
    return np.asarray(env.observe(replace(state, eaten=gone)))


def test_observation_of_a_hand_made_state():
    """With the paper's rules: apples two cells away are visible, and positions follow from the upper and left edge."""
    env = Foraging(grid_size=8, num_agents=2, num_apples=2)
    first, second = observed(env, [[0, 1], [4, 3]], [1, 2], [[4, 5], [6, 6]], [3, 3])
    assert first == pytest.approx([-1, 0, 0.5, 0, 4 / 7, 2 / 7, 1, 1, *[0] * 8])
    assert second == pytest.approx([1, 1, 1, 1, -4 / 7, -2 / 7, 0.5, 0, 0, 2 / 7, 0.75, 1, *[0] * 4])


def test_observation_by_the_public_rules():
    env = Foraging(grid_size=8, num_agents=2, num_apples=2, rules="jumanji", sight=3)
    first, second = observed(env, [[0, 0], [4, 3]], [1, 2], [[4, 4], [1, 2]], [3, 3])
    mate = [4 / 7, 3 / 7, 1.0, 1.0]
    assert first == pytest.approx([-1, -1, 0.5, 0, *mate, 0, 0, 0, 0, 1 / 7, 2 / 7, 0.75, 1.0])
    assert second[:8] == pytest.approx([1 / 7, -1 / 7, 1.0, 1, -4 / 7, -3 / 7, 0.5, 0.0])
    assert second[8:] == pytest.approx([0, 1 / 7, 0.75, 1.0, -3 / 7, -1 / 7, 0.75, 1.0])


@pytest.mark.parametrize("rules", ["paper", "jumanji"])
def test_eaten_apple_is_absent(rules):
    env = Foraging(grid_size=8, num_agents=2, num_apples=2, rules=rules)
    observation = observed(env, [[0, 0], [4, 3]], [1, 2], [[4, 4], [1, 6]], [3, 3], eaten=[0])
    assert (observation[:, 8:12] == 0).all()
    assert observation[0, 7] == observation[1, 3] == 0, "an eaten apple is neither seen nor in reach"


@pytest.mark.parametrize(
    ("scenario", "places"),
    [
        ("lbf-8x8-1p-2f", [-1, 0, 1, 1, 1, 1, 1, 1]),
        ("lbf-4s-8x8-1p-2f", [-1, -0.5, 0, 0.5, 1, 1, 1, 1]),
        ("lbf-8x8-1p-2f,knows_place=true", np.linspace(-1, 1, 8)),
        ("lbf-2s-8x8-1p-2f,rules=jumanji", np.linspace(-1, 1, 8)),
        ("lbf-8s-8x8-1p-2f", np.linspace(-1, 1, 8)),
    ],
)
def test_own_place_is_known_as_far_as_the_rules_say(scenario, places):
    env = make_env(scenario)
    apples, levels = jnp.array([[6, 1], [6, 6]]), jnp.array([2, 2])
    for row, place in enumerate(places):
        _, timestep = env.begin(jnp.array([[row, 3]]), jnp.array([1]), apples, levels)
        assert float(timestep.observation[0, 0]) == pytest.approx(place)


def test_teammates_are_known_however_far():
    env = Foraging()
    state, timestep = env.reset(jax.random.key(3))
    away = (state.position[None] - state.position[:, None]) / 14
    for agent in range(4):
        mates = [mate for mate in range(4) if mate != agent]
        told = timestep.observation[agent, 4:16].reshape(3, 4)
        assert np.allclose(told[:, :2], away[agent, mates])
        assert np.allclose(told[:, 2], state.level[np.array(mates)] / 2)


def test_last_apple_ends_the_task_with_full_reward():
    env = Foraging(grid_size=8, num_agents=2, num_apples=2)
    state, _ = env.begin(jnp.array([[4, 3], [4, 5]]), jnp.array([1, 2]), jnp.array([[4, 4], [1, 2]]), jnp.array([3, 3]))
    state = replace(state, eaten=jnp.array([False, True]))
    _, timestep = env.step(state, jnp.array([5, 5]), jax.random.key(0))
    assert float(timestep.reward) == pytest.approx(0.5)
    assert (float(timestep.discount), bool(timestep.last), float(timestep.score[0])) == (0.0, True, 100.0)


def test_time_limit_keeps_the_discount():
    env = Foraging(time_limit=3)
    state, timestep = env.reset(jax.random.key(0))
    for _ in range(3):
        assert not timestep.last
        state, timestep = env.step(state, jnp.zeros(4, int), jax.random.key(0))
    assert (float(timestep.discount), bool(timestep.last)) == (1.0, True)


def test_given_rules_replace_those_of_the_set():
    assert make_env("lbf-15x15-4p-3f").applied == RULE_SETS["paper"]
    public = make_env("lbf-15x15-4p-3f,rules=jumanji").task_rules
    assert public == {
        "sight": 15, "reach": "side", "coop": "three_lowest", "knows_place": True, "flag": "reaches",
        "mask": "reach",
    }  # fmt: skip
    scenario = "lbf-3s-15x15-4p-3f,rules=jumanji,reach=corner,coop=two_lowest,knows_place=false,mask=side"
    mixed = make_env(scenario).task_rules
    assert mixed == {
        "sight": 3, "reach": "corner", "coop": "two_lowest", "knows_place": False, "flag": "reaches",
        "mask": "side",
    }  # fmt: skip
    assert make_env("lbf-15x15-4p-3f").time_limit == 100


@pytest.mark.parametrize(
    ("scenario", "reason"),
    [
        ("lbf-15x15-0p-3f", "num_agents must be at least 1, not 0"),
        ("lbf-15x15-4p-0f", "num_apples must be at least 1, not 0"),
        ("lbf-5x5-4p-3f", "grid_size 5 is too small for 3 apples and 4 agents"),
        ("lbf-15x15-4p-33f", "grid_size 15 is too small for 33 apples and 4 agents: its 169 inner cells must exceed"),
        ("lbf-15x15-4p-3f,time_limit=0", "time_limit must be at least 1, not 0"),
        ("lbf-15x15-4p-3f,max_level=1", "max_level must be at least 2, not 1"),
        ("lbf-0s-15x15-4p-3f", r"sight must be 1 to grid_size \(15\), not 0"),
        ("lbf-16s-15x15-4p-3f", r"sight must be 1 to grid_size \(15\), not 16"),
        ("lbf-15x15-4p-3f,sight=far", "sight must be a number, not 'far'"),
        ("lbf-15x15-4p-3f,rules=papers", "rules must be one of paper, jumanji, not 'papers'"),
        ("lbf-15x15-4p-3f,reach=knight", "reach must be one of corner, side, not 'knight'"),
        ("lbf-15x15-4p-3f,coop=sum_all", "coop must be one of all, three_lowest, two_lowest, none, not 'sum_all'"),
        ("lbf-15x15-4p-3f,mask=off", "mask must be one of reach, side, moves, none, not 'off'"),
        ("lbf-15x15-4p-3f,knows_place=yes", "knows_place must be true or false, not 'yes'"),
        ("lbf-15x15-5p-3f,reach=side", "coop=all needs all 5 agents around one apple, but reach=side has 4 cells"),
        ("lbf-15x15-9p-3f", "coop=all needs all 9 agents around one apple, but reach=corner has 8 cells"),
    ],
)
def test_impossible_scenarios_are_refused_with_the_field(scenario, reason, monkeypatch):
    monkeypatch.setattr(jax, "eval_shape", lambda *_: pytest.fail("something was traced before the refusal"))
    with pytest.raises(ConfigError, match=reason) as refusal:
        make_env(scenario)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"rules": "mine"}, "rules must be one of paper, jumanji, not 'mine'"),
        ({"rules": None}, "rules must be one of"),
        ({"reach": "far"}, "reach must be one of corner, side, not 'far'"),
        ({"coop": "sum_all"}, "coop must be one of all, three_lowest, two_lowest, none, not 'sum_all'"),
        ({"grid_size": 5}, "grid_size 5 is too small"),
    ],
)
def test_fields_given_in_python_are_refused_alike(fields, reason):
    env = object.__new__(Foraging)  # the type checks of the tests would refuse these values before the environment does
    vars(env).update(vars(Foraging()) | fields)
    with pytest.raises(ConfigError, match=reason):
        env.__post_init__()


@pytest.mark.parametrize("scenario", ["lbf-15x15-5p-3f,reach=side,coop=three_lowest", "lbf-15x15-8p-3f"])
def test_large_teams_that_can_eat_are_accepted(scenario):
    make_env(scenario)
