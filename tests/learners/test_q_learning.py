import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cooptions.envs.base import FAMILIES
from cooptions.envs.rollout import start
from cooptions.errors import ConfigError
from cooptions.learners.exploration import epsilon_greedy, greedy, state_value
from cooptions.learners.networks import NetworkConfig, init_memory
from cooptions.learners.q_learning import QConfig, QLearner, Tick
from cooptions.training.loop import train

NETWORK = NetworkConfig(hidden=(32, 32))
MEMORY = NetworkConfig(hidden=(32, 32), recurrent=True)
SHARED = NetworkConfig(hidden=(32, 32), shared=True)
PROBES = [name.removeprefix("probe-") for name in FAMILIES if name.startswith("probe-")]
EASIER = [name for name in PROBES if name not in ("masked", "terminated", "truncated", "recall")]


def learned_value(probe, network, mixer, trace=0.0):
    """What the team expects at the start of an episode, by the sign of the cue."""
    config = QConfig(
        steps=24_000,
        num_envs=8,
        rollout=5,
        capacity=4000,
        learning_starts=200,
        learning_rate=1e-2,
        target_interval=3,
        max_gradient_norm=10.0,
        discount=0.9,
        epsilon_decay=0.5,
        mixer=mixer,
        trace=trace,
        network=network,
    )
    learner = QLearner(config)
    trained = train(
        learner, probe, jax.random.split(jax.random.key(0), 1), name="q", num_steps=config.num_updates, log_steps=600
    )
    state = jax.tree.map(lambda leaf: leaf[0], trained.state)
    runners = start(probe, 64, key=jax.random.key(5))
    memory, first = init_memory(probe, network, 64), jnp.ones((1, 64), bool)
    _, values = learner.values(state.network, memory, runners.timestep.observation[None], first)
    best = state_value(values[0], values[0], runners.timestep.action_mask)
    total = best.sum(axis=1) if mixer == "sum" else best.mean(axis=1)
    cue = np.asarray(runners.state.cue)
    return {sign: float(np.asarray(total)[cue == sign].mean()) for sign in (-1, 1)}


@pytest.mark.parametrize(
    ("name", "network", "mixer", "trace"),
    [
        *((name, NETWORK, "none", 0.0) for name in ("masked", "terminated", "truncated")),
        *(pytest.param(name, NETWORK, "none", 0.0, marks=pytest.mark.slow) for name in EASIER),
        ("terminated", SHARED, "none", 0.0),
        pytest.param("recall", MEMORY, "none", 0.0, marks=pytest.mark.slow),
        ("matching", NETWORK, "sum", 0.0),
        pytest.param("terminated", MEMORY, "sum", 0.0, marks=pytest.mark.slow),
        ("truncated", NETWORK, "none", 0.9),
        pytest.param("terminated", MEMORY, "sum", 0.9, marks=pytest.mark.slow),
    ],
)
def test_probes_are_worth_what_they_are_known_to_be(name, network, mixer, trace):
    probe = FAMILIES[f"probe-{name}"]()
    found = learned_value(probe, network, mixer, trace)
    # Agents that learn alone see their mates explore: matching and masking is worth a little less to them.
    tolerance = 0.1 if mixer == "none" else 0.05
    for sign in (-1, 1):
        exact = probe.value_of_cue(0.9, sign)
        shown = exact if name in ("observed_sign",) else probe.optimal_value(0.9)
        assert found[sign] == pytest.approx(shown, abs=tolerance * max(1.0, abs(shown)))


def ticks_of(reward, first, num_options=0, **parts):
    """Hand-made ticks of one environment with one agent, whose observation is the time."""
    length = len(reward)
    num_actions = 2 + num_options
    given = {
        "observation": jnp.arange(length, dtype=jnp.float32)[:, None, None, None],
        "choices": jnp.ones((length, 1, 1, num_actions), bool),
        "first": jnp.array(first)[:, None],
        "action": jnp.zeros((length, 1, 1), jnp.int8),
        "reward": jnp.array(reward, jnp.float32)[:, None],
        "discount": jnp.ones((length, 1)),
        "consistent": jnp.zeros((length, 1, num_options), bool),
        "continues": jnp.zeros((length, 1, num_options), bool),
        "members": ((True,),) * num_options,
    }
    return Tick(**(given | parts))


def loss_of(values, ticks, target=None, **config):
    learner = QLearner(QConfig(discount=0.5, **config))
    later = (values if target is None else target)[1:]
    return float(learner.squared_errors(values[:-1], values[1:], later, ticks))


def test_reward_of_a_step_bootstraps_from_the_next_one_and_never_across_an_end():
    values = jnp.array([[1.0, 0.0], [3.0, 2.0], [10.0, 0.0]])[:, None, None]
    right = ticks_of([1.0 - 0.5 * 3, 3 - 0.5 * 10, 0.0], [True, False, False])
    assert loss_of(values, right) == pytest.approx(0.0)
    crossing = ticks_of([1.0 - 0.5 * 3, 99.0, 0.0], [True, False, True])  # the second tick is an episode's end
    assert loss_of(values, crossing) == pytest.approx(0.0)
    ended = ticks_of([1.0, 3 - 0.5 * 10, 0.0], [True, False, False], discount=jnp.array([0.0, 1.0, 1.0])[:, None])
    assert loss_of(values, ended) == pytest.approx(0.0)
    shifted = ticks_of([0.0, 1.0 - 0.5 * 3, 3 - 0.5 * 10], [True, False, False])
    assert loss_of(values, shifted) > 1


@pytest.mark.parametrize("mixer", ["none", "sum"])
def test_a_trace_counts_what_followed_as_far_as_the_episode_and_the_sequence_go(mixer):
    """G = r + gamma ((1 - trace) V' + trace G'), with V' for G' where nothing follows."""
    reward, first = [1.0, 2.0, 5.0, -1.0, 4.0, 3.0, 0.0], [True, False, False, False, True, False, False]
    discount = [1.0, 1.0, 1.0, 1.0, 0.5, 1.0, 1.0]  # the fourth tick is the end of an episode that a time limit cut
    target = [0.0, 5.0, -2.0, 9.0, 7.0, 1.0, 6.0]
    gamma, trace, length = 0.5, 0.8, 6
    goals = [0.0] * length
    for time in reversed(range(length)):
        follows = time + 1 < length and not first[time + 2]
        later = goals[time + 1] if follows else target[time + 1]
        goals[time] = reward[time] + gamma * discount[time] * ((1 - trace) * target[time + 1] + trace * later)
    goals[3] = 99.0  # led nowhere, and must not count
    values, targets = (jnp.array(each)[:, None, None, None] for each in ([*goals, 0.0], target))
    ticks = ticks_of(reward, first, choices=jnp.ones((7, 1, 1, 1), bool), discount=jnp.array(discount)[:, None])
    assert loss_of(values, ticks, target=targets, trace=trace, mixer=mixer) == pytest.approx(0.0, abs=1e-10)
    assert loss_of(values, ticks, target=targets, trace=0.0, mixer=mixer) > 0.1


def test_a_trace_takes_sequences_where_there_is_no_memory():
    assert QConfig(rollout=5, trace=0.5).sequence_length == 6
    assert QConfig(rollout=5).sequence_length == 2


def test_options_are_credited_where_they_agree_and_bootstrap_from_themselves_while_they_go_on():
    values = jnp.array([[0.0, 0.0, 5.0, 7.0], [4.0, 1.0, 6.0, 2.0]])[:, None, None]
    masked = jnp.ones((2, 1, 1, 4), bool).at[1, ..., 2:].set(False)

    def ticks(consistent, continues):
        flags = {"consistent": consistent, "continues": continues}
        arrays = {name: jnp.array([flag, [False, False]])[:, None] for name, flag in flags.items()}
        return ticks_of([-0.5 * 4, 0.0], [True, False], num_options=2, choices=masked, **arrays)

    assert loss_of(values, ticks([False, False], [True, True])) == pytest.approx(0.0)
    # Going on, option 0 is worth -2 + 6 / 2 = 1; ending, -2 + 4 / 2 = 0. It is taken for 5.
    assert loss_of(values, ticks([True, False], [True, False])) == pytest.approx(16.0)
    assert loss_of(values, ticks([True, False], [False, False])) == pytest.approx(25.0)
    assert loss_of(values, ticks([True, True], [False, False])) == pytest.approx(25.0 + 49.0)


def test_summed_values_share_one_error():
    values = jnp.array([[[1.0, 0.0], [2.0, 0.0]], [[3.0, 0.0], [5.0, 0.0]]])[:, None]
    two = {
        "observation": jnp.zeros((2, 1, 2, 1)),
        "choices": jnp.ones((2, 1, 2, 2), bool),
        "action": jnp.zeros((2, 1, 2), jnp.int8),
    }
    ticks = ticks_of([3.0 - 0.5 * 8, 0.0], [True, False], **two)
    assert loss_of(values, ticks, mixer="sum") == pytest.approx(0.0)
    assert loss_of(values, ticks, mixer="none") > 0.1


def test_double_learning_takes_the_target_value_of_the_online_choice():
    online = jnp.array([[0.0, 0.0], [5.0, 1.0]])[:, None, None]
    target = jnp.array([[0.0, 0.0], [2.0, 8.0]])[:, None, None]
    ticks = ticks_of([0.0, 0.0], [True, False])
    assert loss_of(online, ticks, target=target) == pytest.approx(1.0)
    assert loss_of(online, ticks, target=target, double=False) == pytest.approx(16.0)


def test_what_states_seem_to_be_worth_is_told_by_the_target_network():
    probe = FAMILIES["probe-constant"]()
    learner = QLearner(QConfig(steps=1000, num_envs=2, rollout=5, capacity=100, network=SHARED))
    state = learner.init(probe, key=jax.random.key(0))
    biases = jnp.arange(probe.num_actions) + 7.0
    flat = jax.tree.map(jnp.zeros_like, state.target)
    state = eqx.tree_at(lambda s: s.target, state, eqx.tree_at(lambda net: net.head.biases[-1], flat, biases))
    _, metrics = jax.jit(lambda state: learner.step(state, probe, key=jax.random.key(1)))(state)
    assert metrics["value"] == biases[-1]


def test_unavailable_actions_are_never_taken():
    values = jnp.array([[9.0, 1.0, 2.0]] * 500)
    mask = jnp.array([[False, True, True]] * 500)
    assert set(np.asarray(greedy(values, mask))) == {2}
    assert set(np.asarray(epsilon_greedy(values, mask, jnp.float32(0.5), key=jax.random.key(0)))) == {1, 2}


def test_wrong_values_name_the_field():
    with pytest.raises(ConfigError, match="capacity must hold two rollouts"):
        QConfig(capacity=100)
    with pytest.raises(ConfigError, match="steps must be at least"):
        QConfig(steps=10)
    with pytest.raises(ConfigError, match="trace must lie in"):
        QConfig(trace=1.5)
    with pytest.raises(ConfigError, match="network.hidden needs at least 2"):
        NetworkConfig(hidden=(8,), recurrent=True)
