"""Adapted JaxMARL environments, compared with the originals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxmarl.environments.mpe import SimpleSpeakerListenerMPE, SimpleSpreadMPE
from jaxmarl.environments.mpe.default_params import CONTINUOUS_ACT
from jaxmarl.environments.multi_agent_env import MultiAgentEnv, State
from jaxmarl.environments.spaces import Box, Discrete

from cooptions.envs import rollout
from cooptions.envs.adapters.jaxmarl import FromJaxMARL, stack_padded
from cooptions.errors import ConfigError
from cooptions.types import Feature

PLACE = Feature.continuous("x", -2.0, 2.0), Feature.continuous("y", -2.0, 2.0)


def spread(num_agents=3, **fields):
    inner = SimpleSpreadMPE(num_agents=num_agents, num_landmarks=num_agents, max_steps=6)
    place = {"features": PLACE, "factorise": lambda state: state.p_pos[:num_agents]}
    return FromJaxMARL(inner, **(place | fields))


def test_rollouts_are_those_of_the_wrapped_environment():
    env = spread(ends_by_time_limit=True)

    def step(runners, key):
        action = rollout.uniform_action(runners.timestep.action_mask, key=key)
        outcome, onward = rollout.advance(env, runners, action, key=key)
        # MPE's dynamics are deterministic, so any key gives the same transition.
        observations, inner, rewards, dones, _ = jax.vmap(env.env.step_env, in_axes=(None, 0, 0))(
            key, runners.state.inner, {agent: action[:, i] for i, agent in enumerate(env.env.agents)}
        )
        wanted = (
            inner,
            jnp.stack([observations[agent] for agent in env.env.agents], axis=1),
            sum(rewards.values()) / 3,
            dones["__all__"],
            inner.p_pos[:, :3],
        )
        timestep = outcome.timestep
        places = jax.vmap(env.agent_states)(outcome.state)
        given = outcome.state.inner, timestep.observation, timestep.reward, timestep.last, places
        equal = [jnp.allclose(a, b, atol=1e-6) for a, b in zip(*map(jax.tree.leaves, (given, wanted)), strict=True)]
        return onward, (jnp.array(equal), timestep, onward.timestep)

    @jax.jit
    def walk(key):
        return jax.lax.scan(step, rollout.start(env, 4, key=key), jax.random.split(key, 30))[1]

    equal, timestep, onward = walk(jax.random.key(0))
    assert equal.all()
    assert timestep.last.sum() == 4 * (30 // 7)  # MPE's sixth step is not its last: it counts from 0
    assert (timestep.discount == 1).all()
    last = np.asarray(timestep.last)
    assert (onward.score[last] == 0).all()
    lengths = np.diff(np.flatnonzero(last[:, 0]), prepend=-1)
    final_return = np.asarray(timestep.reward)[: lengths[0], 0].sum()
    assert timestep.score[lengths[0] - 1, 0, 0] == pytest.approx(final_return, rel=1e-5)


class Corridor(MultiAgentEnv):
    """Two different agents, with all special cases: masks, different observation and action spaces, termination."""

    def __init__(self):
        super().__init__(num_agents=2)
        self.action_spaces = {"agent_0": Discrete(2), "agent_1": Discrete(3)}

    def reset(self, key):
        state = State(done=jnp.array(False), step=jnp.array(0))
        return self.get_obs(state), state

    def get_obs(self, state):
        time = state.step.astype(jnp.float32)
        return {"agent_0": jnp.full((1,), 1 + time), "agent_1": jnp.full((2, 2), 2 + time)}

    def step_env(self, key, state, actions):
        state = State(done=state.step >= 1, step=state.step + 1)
        rewards = {agent: actions[agent].astype(jnp.float32) for agent in self.agents}
        return self.get_obs(state), state, rewards, {"__all__": state.done}, {}

    def get_avail_actions(self, state):
        second = jnp.array([1, 1, 0], jnp.uint8).at[1].set(state.step == 0)
        return {"agent_0": jnp.ones(2, jnp.uint8), "agent_1": second}


def corridor(**fields):
    time = {
        "features": (Feature.coordinate("time", 3),),
        "factorise": lambda state: jnp.broadcast_to(state.step, (2, 1)),
    }
    return FromJaxMARL(Corridor(), **(time | fields))


def play(env, num_steps=2):
    """The time steps of one episode in which both agents play 1."""
    state, timestep = env.reset(jax.random.key(0))
    timesteps = [timestep]
    for _ in range(num_steps):
        state, timestep = env.step(state, jnp.ones(2, int), jax.random.key(0))
        timesteps.append(timestep)
    return state, timesteps


def test_unequal_observations_are_flattened_and_padded():
    _, (first, *_) = play(corridor(), 0)
    assert first.observation.tolist() == [[1, 0, 0, 0], [2, 2, 2, 2]]


def test_equal_observations_keep_their_shape():
    assert stack_padded([jnp.zeros((2, 3)), jnp.ones((2, 3))]).shape == (2, 2, 3)


def test_missing_and_unavailable_actions_are_masked():
    _, (first, second) = play(corridor(), 1)
    assert first.action_mask.tolist() == [[True, True, False], [True, True, False]]
    assert second.action_mask.tolist() == [[True, True, False], [True, False, False]]


def test_without_masks_all_of_an_agents_own_actions_are_available():
    listener = FromJaxMARL(SimpleSpeakerListenerMPE(), features=PLACE, factorise=lambda state: state.p_pos[:2])
    _, timestep = jax.jit(listener.reset)(jax.random.key(0))
    assert timestep.action_mask.tolist() == [[True] * 3 + [False] * 2, [True] * 5]
    assert timestep.observation.shape == (2, 11)


@pytest.mark.parametrize("ends_by_time_limit", [True, False])
def test_a_field_distinguishes_termination_from_a_time_limit(ends_by_time_limit):
    _, timesteps = play(corridor(ends_by_time_limit=ends_by_time_limit))
    assert [bool(timestep.last) for timestep in timesteps] == [False, False, True]
    assert [float(timestep.discount) for timestep in timesteps] == [1, 1, float(ends_by_time_limit)]


@pytest.mark.parametrize(("team_reward", "expected"), [("mean", 1.0), ("sum", 2.0)])
def test_team_reward_and_return(team_reward, expected):
    _, timesteps = play(corridor(team_reward=team_reward))
    assert [float(timestep.reward) for timestep in timesteps] == [0, expected, expected]
    assert [timestep.score.tolist() for timestep in timesteps] == [[0], [expected], [2 * expected]]


def test_a_score_of_ones_own():
    env = corridor(score=lambda state: jnp.stack([state.step, -state.step]), score_names=("up", "down"))
    _, timesteps = play(env)
    assert [timestep.score.tolist() for timestep in timesteps] == [[0, 0], [1, -1], [2, -2]]


def test_whole_numbers_become_features():
    env = corridor()
    state, _ = play(env)
    assert env.agent_states(state).tolist() == [[2.0], [2.0]]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"factorise": lambda state: state.p_pos}, r"factorise: returns shape \(6, 2\).*\(3, 2\)"),
        ({"factorise": lambda state: state.p_pos[0]}, r"factorise: returns shape \(2,\)"),
        ({"features": PLACE[:1]}, "factorise"),
        ({"features": ()}, "features"),
        ({"noop": 5}, "noop"),
        ({"score_names": ("a", "b")}, "score"),
    ],
)
def test_wrong_fields_are_named(fields, message):
    with pytest.raises(ConfigError, match=message):
        spread(**fields)


def test_continuous_actions_are_refused():
    inner = SimpleSpreadMPE(action_type=CONTINUOUS_ACT)
    assert isinstance(inner.action_space("agent_0"), Box)
    with pytest.raises(
        ConfigError, match="env: the actions of agent_0 must be Discrete, not Box: options need"
    ) as error:
        FromJaxMARL(inner, features=PLACE, factorise=lambda state: 1 / 0)
    assert "\n" not in str(error.value)


class Torque(MultiAgentEnv):
    """An environment with continuous actions like MABrax, which must not be traced."""

    def __init__(self):
        super().__init__(num_agents=2)
        self.action_spaces = {agent: Box(-1.0, 1.0, (3,)) for agent in self.agents}

    def reset(self, key):
        raise AssertionError("traced")


def test_continuous_control_is_refused_before_anything_is_traced():
    with pytest.raises(ConfigError, match="must be Discrete, not Box"):
        FromJaxMARL(Torque(), features=PLACE, factorise=lambda state: state)


def test_actions_have_names():
    assert corridor().action_names == ("action 0", "action 1", "action 2")
    assert corridor(action_names=("a", "b", "c")).action_names == ("a", "b", "c")
    with pytest.raises(ConfigError, match="action_names must be 3 different names"):
        corridor(action_names=("a", "b"))


def test_some_ends_may_be_time_limits():
    """`timed_out` is evaluated at the final state."""
    _, timesteps = play(corridor(timed_out=lambda state: state.step >= 1))
    assert [float(timestep.discount) for timestep in timesteps] == [1, 1, 1]
    _, timesteps = play(corridor(timed_out=lambda state: state.step < 2))
    assert [float(timestep.discount) for timestep in timesteps] == [1, 1, 0]


class Hinting(Corridor):
    """Returns shaped rewards, like JaxMARL's Overcooked."""

    def step_env(self, key, state, actions):
        *rest, _ = super().step_env(key, state, actions)
        return *rest, {"shaped_reward": {"agent_0": jnp.float32(1.0), "agent_1": jnp.float32(2.0)}}


@pytest.mark.parametrize(("horizon", "hint"), [(0, 0.0), (100, 3.0)])
def test_shaped_rewards_are_the_teams(horizon, hint):
    time = {"features": (Feature.coordinate("time", 3),), "factorise": lambda state: jnp.full((2, 1), state.step)}
    env = FromJaxMARL(Hinting(), **time, shaping_horizon=horizon)
    assert env.shaping_horizon == horizon
    _, timesteps = play(env, 1)
    assert [float(timestep.shaped_reward) for timestep in timesteps] == [0, hint]


CELLS = Feature.coordinate("row", 2), Feature.coordinate("column", 3)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tiles": lambda state: jnp.zeros((3, 2), int)}, r"tiles: returns shape \(3, 2\), expected.*\(2, 3\)"),
        ({"tiles": lambda state: jnp.zeros((3, 2), int), "axes": (1, 0)}, None),
        (
            {"tiles": lambda state: jnp.zeros((2, 3), int), "axes": (0, 2)},
            "axes: tiles need the coordinates of a row and a column",
        ),
        ({"landmarks": lambda state: jnp.zeros((4, 1))}, r"landmarks: returns shape \(4, 1\)"),
    ],
)
def test_arguments_for_pictures_are_checked(fields, message):
    place = {"features": CELLS, "factorise": lambda state: jnp.zeros((2, 2))}
    if message is None:
        FromJaxMARL(Corridor(), **place, **fields)
        return
    with pytest.raises(ConfigError, match=message):
        FromJaxMARL(Corridor(), **place, **fields)
