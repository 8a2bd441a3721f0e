import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jumanji.environments.routing.lbf import LevelBasedForaging
from jumanji.environments.routing.lbf.generator import RandomGenerator
from scipy.stats import chisquare

from cooptions.envs.lbf import Foraging
from cooptions.envs.rollout import advance, start
from cooptions.errors import ConfigError

NUM_STARTS = 40_000


@pytest.mark.parametrize(
    ("grid_size", "num_agents", "num_apples"), [(15, 4, 3), pytest.param(15, 3, 5, marks=pytest.mark.slow), (8, 2, 2)]
)
def test_transitions_equal_jumanjis(grid_size, num_agents, num_apples):
    env = Foraging(grid_size, num_agents, num_apples, coop="none")  # so that random play eats
    stock = LevelBasedForaging(generator=RandomGenerator(grid_size, num_agents, num_apples, fov=grid_size))

    def step(runners, key):
        # Any action, available or not: the dynamics must agree on both.
        action = jax.random.randint(key, (100, num_agents), 0, env.num_actions)
        state, timestep = jax.vmap(stock.step)(runners.state, action)
        outcome, onward = advance(env, runners, action, key=key)
        agree = {
            "position": outcome.state.agents.position == state.agents.position,
            "loading": outcome.state.agents.loading == state.agents.loading,
            "eaten": outcome.state.food_items.eaten == state.food_items.eaten,
            "reward": outcome.timestep.reward == timestep.reward.sum(axis=1),
            "discount": outcome.timestep.discount == timestep.discount[:, 0],
            "last": outcome.timestep.last == timestep.last(),
            "score": outcome.timestep.score[:, 0] == timestep.extras["percent_eaten"],
        }
        eaten = state.food_items.eaten.sum() > 0
        return onward, (jax.tree.map(jnp.all, agree), eaten)

    runners = start(env, 100, key=jax.random.key(0))
    _, (agree, eaten) = jax.jit(lambda r, k: jax.lax.scan(step, r, k))(
        runners, jax.random.split(jax.random.key(1), 340)
    )
    assert {name: bool(np.all(values)) for name, values in agree.items()} == dict.fromkeys(agree, True)
    assert eaten.any(), "no apple was eaten: the comparison saw nothing of loading"


@pytest.fixture(scope="module")
def starts():
    env = Foraging(15, 4, 5)
    state, _ = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), NUM_STARTS))
    return env, jax.tree.map(np.asarray, (state.agents.position, state.food_items.position))


def test_apples_lie_apart_and_off_the_edge(starts):
    env, (_, apples) = starts
    assert apples.min() >= 1
    assert apples.max() <= env.grid_size - 2
    distance = np.abs(apples[:, :, None] - apples[:, None]).sum(-1)
    assert (distance[:, ~np.eye(env.num_apples, dtype=bool)] >= 2).all()


def test_first_apple_is_uniform_over_inner_cells(starts):
    env, (_, apples) = starts
    cells = (apples[:, 0, 0] - 1) * (env.grid_size - 2) + apples[:, 0, 1] - 1
    assert chisquare(np.bincount(cells, minlength=(env.grid_size - 2) ** 2)).pvalue > 1e-4


@pytest.mark.parametrize("agent", [0, 3])
def test_agents_are_uniform_over_free_cells(starts, agent):
    env, (agents, apples) = starts
    num_cells = env.grid_size**2
    flat_apples = apples[..., 0] * env.grid_size + apples[..., 1]
    taken = np.bincount(flat_apples.ravel(), minlength=num_cells)
    expected = (NUM_STARTS - taken) / (num_cells - env.num_apples)
    cells = agents[:, agent, 0] * env.grid_size + agents[:, agent, 1]
    assert chisquare(np.bincount(cells, minlength=num_cells), expected).pvalue > 1e-4


def test_no_row_or_column_of_an_apple_is_avoided(starts):
    env, (agents, apples) = starts
    for axis in (0, 1):
        shares = (agents[:, 0, axis, None] == apples[:, :, axis]).mean()
        assert shares == pytest.approx((env.grid_size - 1) / (env.grid_size**2 - 1), rel=0.1)


def test_no_two_items_share_a_cell(starts):
    env, (agents, apples) = starts
    items = np.concatenate([agents, apples], axis=1)
    flat = np.sort(items[..., 0] * env.grid_size + items[..., 1], axis=1)
    assert (np.diff(flat, axis=1) > 0).all()


def test_crowded_grid_still_places_every_apple():
    env = Foraging(grid_size=8, num_agents=2, num_apples=6)
    state, _ = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), 2000))
    apples = np.asarray(state.food_items.position)
    distance = np.abs(apples[:, :, None] - apples[:, None]).sum(-1)
    assert (distance[:, ~np.eye(6, dtype=bool)] >= 2).all()
    assert 1 <= apples.min() <= apples.max() <= 6


@pytest.mark.parametrize("coop", ["three_lowest", "sum_all", "none"])
def test_apple_levels_follow_coop(coop):
    state, _ = jax.vmap(Foraging(coop=coop).reset)(jax.random.split(jax.random.key(0), 200))
    agents, apples = np.asarray(state.agents.level), np.asarray(state.food_items.level)
    lowest = np.sort(agents, axis=1)[:, :3].sum(1, keepdims=True)
    if coop == "none":
        assert (apples >= 1).all()
        assert (apples <= lowest).all()
        assert (apples.min(), len(np.unique(apples))) == (1, 6)
    else:
        required = lowest if coop == "three_lowest" else agents.sum(1, keepdims=True)
        assert (apples == required).all()


def _place(env, agents, apples, *, levels, eaten=()):
    state, _ = env.reset(jax.random.key(0))
    gone = jnp.isin(jnp.arange(env.num_apples), jnp.array(eaten, int))
    return state.replace(
        agents=state.agents.replace(position=jnp.array(agents), level=jnp.array(levels)),
        food_items=state.food_items.replace(position=jnp.array(apples), eaten=gone),
    )


def test_observation_of_a_hand_made_state():
    env = Foraging(grid_size=8, num_agents=2, num_apples=2, sight=3)
    state = _place(env, [[0, 0], [4, 3]], [[4, 4], [1, 2]], levels=[1, 2])
    level = float(state.food_items.level[0]) / 4
    first, second = np.asarray(env.observe(state))
    mate = [4 / 7, 3 / 7, 1.0, 1.0]
    near_apple = [1 / 7, 2 / 7, level, 1.0]
    assert first == pytest.approx([-1, -1, 0.5, *mate, 0, 0, 0, 0, *near_apple])
    assert second[:7] == pytest.approx([1 / 7, -1 / 7, 1.0, -4 / 7, -3 / 7, 0.5, 0.0])
    assert second[7:] == pytest.approx([0, 1 / 7, level, 1.0, -3 / 7, -1 / 7, level, 1.0])


def test_eaten_apple_is_absent():
    env = Foraging(grid_size=8, num_agents=2, num_apples=2)
    state = _place(env, [[0, 0], [4, 3]], [[4, 4], [1, 2]], levels=[1, 2], eaten=[0])
    observation = np.asarray(env.observe(state))
    assert (observation[:, 7:11] == 0).all()
    assert observation[0, 6] == 0, "standing where an eaten apple was is not standing next to an apple"


def test_last_apple_ends_the_task_with_full_reward():
    env = Foraging(grid_size=8, num_agents=2, num_apples=2, coop="sum_all")
    state = _place(env, [[4, 3], [4, 5]], [[4, 4], [1, 2]], levels=[1, 2], eaten=[1])
    state = state.replace(food_items=state.food_items.replace(level=jnp.array([3, 3])))
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


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"num_agents": 0}, "num_agents"),
        ({"num_apples": 0}, "num_apples"),
        ({"grid_size": 5}, "grid_size"),
        ({"time_limit": 0}, "time_limit"),
        ({"max_level": 1}, "max_level"),
    ],
)
def test_bad_fields_are_named(fields, named):
    with pytest.raises(ConfigError, match=named):
        Foraging(**fields)
