"""PQN on probes whose values are known, and the returns it learns from."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cooptions.envs.base import FAMILIES
from cooptions.envs.rollout import start
from cooptions.errors import ConfigError
from cooptions.learners.exploration import state_value
from cooptions.learners.networks import NetworkConfig, init_memory
from cooptions.learners.pqn import Pqn, PqnConfig
from cooptions.training.loop import train

NETWORK = NetworkConfig(hidden=(32, 32), normalised=True)
MEMORY = NetworkConfig(hidden=(32, 32), recurrent=True, normalised=True)
SHARED = NetworkConfig(hidden=(32, 32), shared=True, normalised=True)
PROBES = [name.removeprefix("probe-") for name in FAMILIES if name.startswith("probe-")]
EASIER = [name for name in PROBES if name not in ("masked", "truncated", "recall", "terminated")]
TINY = PqnConfig(steps=1000, num_envs=4, rollout=5, minibatches=2, network=SHARED)


def learned_value(probe, network, mixer):
    """What the team expects at the start of an episode, by the sign of the cue."""
    config = PqnConfig(
        steps=48_000,
        num_envs=16,
        rollout=5,
        learning_rate=2e-2,
        anneal=True,
        discount=0.9,
        epsilon_decay=0.5,
        minibatches=1,
        mixer=mixer,
        network=network,
    )
    learner = Pqn(config)
    keys = jax.random.split(jax.random.key(0), 1)
    trained = train(learner, probe, keys, name="pqn", num_steps=config.num_updates, log_steps=config.num_updates)
    network = jax.tree.map(lambda leaf: leaf[0], trained.state.network)
    runners = start(probe, 64, key=jax.random.key(5))
    memory, first = init_memory(probe, config.network, 64), jnp.ones((1, 64), bool)
    _, values = learner.values(network, memory, runners.timestep.observation[None], first)
    best = state_value(values[0], values[0], runners.timestep.action_mask)
    total = best.sum(axis=1) if mixer == "sum" else best.mean(axis=1)
    cue = np.asarray(runners.state.cue)
    return {sign: float(np.asarray(total)[cue == sign].mean()) for sign in (-1, 1)}


@pytest.mark.parametrize(
    ("name", "network", "mixer"),
    [
        ("masked", NETWORK, "none"),
        ("truncated", NETWORK, "none"),
        *(pytest.param(name, NETWORK, "none", marks=pytest.mark.slow) for name in EASIER),
        ("terminated", SHARED, "none"),
        ("recall", MEMORY, "none"),
        pytest.param("matching", NETWORK, "sum", marks=pytest.mark.slow),
        ("terminated", MEMORY, "sum"),
    ],
)
def test_probes_are_worth_what_they_are_known_to_be(name, network, mixer):
    probe = FAMILIES[f"probe-{name}"]()
    found = learned_value(probe, network, mixer)
    # Agents that learn alone see their mates explore: matching and masking is worth a little less to them.
    tolerance = 0.1 if mixer == "none" else 0.05
    for sign in (-1, 1):
        exact = probe.value_of_cue(0.9, sign)
        shown = exact if name in ("observed_sign",) else probe.optimal_value(0.9)
        assert found[sign] == pytest.approx(shown, abs=tolerance * max(1.0, abs(shown)))


def test_what_it_learns_from_are_the_ticks_of_the_rollout_and_where_they_led():
    """The value after a step is that of the next tick, with the memory of all before, also across a rollout's end."""
    probe, learner = FAMILIES["probe-recall"](), Pqn(replace(TINY, network=MEMORY))
    state = learner.init(probe, key=jax.random.key(0))
    team, ticks, _, _ = learner.explore(
        probe, state.network, state.team, state.merit, state.updates, key=jax.random.key(1)
    )
    whole = learner._with_end(probe, ticks, team)
    batch = learner.judge(state.network, state.team.memory, whole)
    assert batch.ticks.first.shape == (6, 4)
    assert batch.later.shape[0] == 5
    np.testing.assert_array_equal(whole.first[-1], team.first)
    _, end = learner.values(state.network, team.memory, team.timestep.observation[None], team.first[None])
    np.testing.assert_allclose(batch.later[-1], end[0], atol=1e-5)
    part = batch.of(jnp.array([2]))
    np.testing.assert_array_equal(part.later[:, 0], batch.later[:, 2])
    np.testing.assert_array_equal(part.memory[0], batch.memory[2])


@pytest.mark.parametrize("mixer", ["none", "sum"])
@pytest.mark.parametrize("probe", ["truncated", "terminated"])
def test_the_loss_is_the_squared_distance_to_the_lambda_returns(probe, mixer):
    """Computed step by step: from V of the tick after, and what followed as far as episode and rollout go."""
    env, learner = FAMILIES[f"probe-{probe}"](), Pqn(replace(TINY, rollout=12, discount=0.9, trace=0.7, mixer=mixer))
    state = learner.init(env, key=jax.random.key(0))
    team, ticks, _, _ = learner.explore(
        env, state.network, state.team, state.merit, state.updates, key=jax.random.key(1)
    )
    batch = learner.judge(state.network, state.team.memory, learner._with_end(env, ticks, team))
    first, reward, discount = (np.asarray(part) for part in (batch.ticks.first, ticks.reward, 0.9 * ticks.discount))
    best = np.asarray(state_value(batch.later, batch.later, batch.ticks.choices[1:]))
    _, values = learner.values(state.network, state.team.memory, ticks.observation, ticks.first)
    done = np.take_along_axis(np.asarray(values), np.asarray(ticks.action)[..., None].astype(int), axis=-1)[..., 0]
    if mixer == "sum":
        best, done = best.sum(axis=2, keepdims=True), done.sum(axis=2, keepdims=True)
    squares = []
    for e in range(best.shape[1]):
        goal = np.zeros_like(best[0, e])
        for t in reversed(range(12)):
            follows = t < 11 and not first[t + 2, e]
            goal = reward[t, e] + discount[t, e] * (0.3 * best[t, e] + 0.7 * (goal if follows else best[t, e]))
            if not first[t + 1, e]:  # else the tick is the end of an episode and leads nowhere
                squares.extend((done[t, e] - goal) ** 2)
    assert float(learner.loss(state.network, batch)) == pytest.approx(np.mean(squares), rel=1e-4)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_envs": 6}, "minibatches must divide num_envs = 6, which 4 does not"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"trace": 1.5}, "trace must lie in"),
    ],
)
def test_what_makes_no_sense_is_refused(fields, message):
    with pytest.raises(ConfigError, match=message):
        PqnConfig(**fields)
