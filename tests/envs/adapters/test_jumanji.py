"""Adapted Jumanji environments, compared with the originals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jumanji.environments import Connector, Game2048, LevelBasedForaging, RobotWarehouse, SearchAndRescue
from jumanji.environments.routing.connector.generator import RandomWalkGenerator
from jumanji.environments.routing.robot_warehouse.generator import RandomGenerator
from jumanji.types import transition

from cooptions.envs import rollout
from cooptions.envs.adapters.jumanji import FromJumanji
from cooptions.errors import ConfigError
from cooptions.types import Feature


def factorise(state):
    agents = state.agents
    return jnp.stack([agents.position.x, agents.position.y, agents.direction, agents.is_carrying], axis=1)


def warehouse(**fields):
    generator = RandomGenerator(
        shelf_rows=1, shelf_columns=3, column_height=2, num_agents=2, sensor_range=1, request_queue_size=2
    )
    inner = RobotWarehouse(generator, time_limit=20)
    height, width = inner.grid_size
    features = (
        Feature.coordinate("x", height),  # Jumanji's x counts rows
        Feature.coordinate("y", width),
        Feature.categorical("direction", 4),
        Feature.categorical("is_carrying", 2),
    )
    return FromJumanji(inner, **({"features": features, "factorise": factorise} | fields))


def test_rollouts_are_those_of_the_wrapped_environment():
    env = warehouse()

    def step(runners, key):
        action = rollout.uniform_action(runners.timestep.action_mask, key=key)
        outcome, onward = rollout.advance(env, runners, action, key=key)
        state, theirs = jax.vmap(env.env.step)(runners.state.inner, action)
        wanted = (
            state,
            theirs.observation.agents_view,
            theirs.observation.action_mask,
            theirs.reward,
            theirs.discount,
            theirs.last(),
        )
        ours = outcome.timestep
        given = (
            outcome.state.inner,
            ours.observation,
            ours.action_mask,
            ours.reward,
            ours.discount,
            ours.last,
        )
        equal = [jnp.all(a == b) for a, b in zip(*map(jax.tree.leaves, (given, wanted)), strict=True)]
        features = jax.vmap(env.agent_states)(outcome.state)
        return onward, (jnp.array(equal), ours, features, onward.state.inner.step_count)

    @jax.jit
    def walk(key):
        return jax.lax.scan(step, rollout.start(env, 8, key=key), jax.random.split(key, 100))[1]

    equal, timestep, features, step_count = walk(jax.random.key(0))
    assert equal.all()
    assert timestep.last.any()
    assert (timestep.discount[timestep.last] == 0).all()  # Jumanji reports the warehouse's time limit as a termination
    assert (step_count[timestep.last] == 0).all()
    sizes = [feature.size for feature in env.features]
    assert ((features >= 0) & (features < jnp.array(sizes))).all()
    seen = [len(np.unique(features[..., column])) for column in range(4)]
    assert seen == sizes  # every value of every feature occurs, so none is mislabelled


def test_a_truncation_keeps_its_discount_and_rewards_are_pooled():
    features = Feature.coordinate("x", 8), Feature.coordinate("y", 8)
    env = FromJumanji(
        LevelBasedForaging(time_limit=2),
        features=features,
        factorise=lambda state: state.agents.position,
        team_reward="sum",
    )

    def step(state, _):
        inner, theirs = env.env.step(state.inner, jnp.zeros(2, int))
        state, timestep = env.step(state, jnp.zeros(2, int), jax.random.key(0))
        return state, (timestep, theirs.reward.sum(), jnp.all(env.agent_states(state) == inner.agents.position))

    walk = jax.jit(lambda key: jax.lax.scan(step, env.reset(key)[0], None, length=2)[1])
    timestep, reward, same_place = walk(jax.random.key(0))
    assert (timestep.reward == reward).all()
    assert same_place.all()
    assert timestep.last.tolist() == [False, True]
    assert timestep.discount.tolist() == [1, 1]


def play_noops(env):
    """The time steps of two no-op steps."""

    def step(state, _):
        return env.step(state, jnp.zeros(2, int), jax.random.key(0))

    return jax.jit(lambda key: jax.lax.scan(step, env.reset(key)[0], None, length=2)[1])(jax.random.key(0))


class Paying(LevelBasedForaging):
    """Foraging without moves, with each agent's number as its reward, which ends only for the first agent."""

    def step(self, state, action):
        state = state.replace(step_count=state.step_count + 1)
        observation = self._observer.state_to_observation(state)
        return state, transition(jnp.array([1.0, 2.0]), observation, discount=jnp.array([0.0, 1.0]))


def paying(**fields):
    features = Feature.coordinate("x", 8), Feature.coordinate("y", 8)
    return FromJumanji(Paying(), features=features, factorise=lambda state: state.agents.position, **fields)


@pytest.mark.parametrize(("team_reward", "expected"), [("mean", 1.5), ("sum", 3.0)])
def test_team_reward_and_return(team_reward, expected):
    timestep = play_noops(paying(team_reward=team_reward))
    assert timestep.reward.tolist() == [expected, expected]
    assert timestep.score.tolist() == [[expected], [2 * expected]]
    assert timestep.discount.tolist() == [1, 1]  # the second agent goes on


def test_an_observation_of_ones_own():
    inner = Connector(RandomWalkGenerator(grid_size=6, num_agents=3))
    features = Feature.coordinate("row", 6), Feature.coordinate("column", 6)
    place = {"features": features, "factorise": lambda state: state.agents.position}
    with pytest.raises(ConfigError, match="observe: a Observation has no agents_view"):
        FromJumanji(inner, **place)
    env = FromJumanji(inner, observe=lambda observation: jnp.stack([observation.grid] * 3), **place)
    assert jax.eval_shape(env.reset, jax.random.key(0))[1].observation.shape == (3, 6, 6)


def test_a_score_of_ones_own():
    env = paying(score=lambda state: state.step_count, score_names=("steps",))
    assert play_noops(env).score.tolist() == [[1], [2]]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"factorise": lambda state: factorise(state).T}, r"factorise: returns shape \(4, 2\).*\(2, 4\)"),
        ({"factorise": lambda state: state.agents.direction}, r"factorise: returns shape \(2,\)"),
        ({"noop": 5}, "noop"),
        ({"observe": lambda observation: observation.agents_view[:1]}, r"observe: returns shape \(1, 66\)"),
    ],
)
def test_wrong_fields_are_named(fields, message):
    with pytest.raises(ConfigError, match=message):
        warehouse(**fields)


def test_an_environment_of_one_agent_is_refused():
    with pytest.raises(ConfigError, match="env: its action_spec"):
        FromJumanji(Game2048(), features=(Feature.coordinate("x", 4),), factorise=lambda state: state.board)


def test_continuous_control_is_refused_in_one_sentence():
    with pytest.raises(
        ConfigError, match="env: its action_spec must be a MultiDiscreteArray.*one discrete action per agent"
    ) as error:
        FromJumanji(SearchAndRescue(), features=(Feature.coordinate("x", 4),), factorise=lambda state: 1 / 0)
    assert "\n" not in str(error.value)
