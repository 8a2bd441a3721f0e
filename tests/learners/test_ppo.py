import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cooptions.envs.base import FAMILIES
from cooptions.envs.grid import Grid
from cooptions.envs.overcooked import Overcooked
from cooptions.envs.probe import Masked, Matching
from cooptions.envs.rollout import start, tick
from cooptions.errors import ConfigError
from cooptions.learners.advantages import advantages, policy_losses, standardise, value_losses, weighted_mean
from cooptions.learners.networks import NetworkConfig
from cooptions.learners.option_credit import GRACE
from cooptions.learners.ppo import Batch, DrawingConfig, Ppo, PpoConfig, joint_view, own_share
from cooptions.options.handmade import handmade_options
from cooptions.options.macro import MacroConfig
from cooptions.options.wander import wandering_options
from cooptions.training.loop import train

NETWORK = NetworkConfig(hidden=(16, 16), shared=True)
MEMORY = NetworkConfig(hidden=(16, 16), recurrent=True, shared=True)
APART = NetworkConfig(hidden=(16, 16), recurrent=True)

SMALL = PpoConfig(
    num_envs=16,
    rollout=10,
    minibatches=2,
    learning_rate=2e-2,
    max_gradient_norm=10.0,
    discount=0.9,
    value_clip=None,
    network=NETWORK,
)
STARTS = jax.jit(start, static_argnums=(0, 1))


def trained(probe, share=1.0, **changes):
    """A learner, and its state after training, or a share of it."""
    learner = Ppo(dataclasses.replace(SMALL, **changes))
    num_updates = int(share * learner.num_updates)
    found = train(
        learner,
        probe,
        jax.random.split(jax.random.key(0), 1),
        name="ppo",
        num_steps=num_updates,
        log_steps=num_updates,
    )
    return learner, jax.tree.map(lambda leaf: leaf[0], found.state)


def values_at_start(probe, learner, state):
    """What the critic expects at the start of an episode, by the sign of the cue."""
    runners = STARTS(probe, 64, key=jax.random.key(5))
    memory, first = learner.init_memory(probe, 64), jnp.ones((1, 64), bool)
    _, value = learner.values(state.networks.critic, memory, runners.timestep.observation[None], first)
    cue = np.asarray(runners.state.cue)
    return {sign: float(np.asarray(value)[0][cue == sign].mean()) for sign in (-1, 1)}


def play(probe, learner, state):
    """The mean score of evaluated episodes."""
    runners = STARTS(probe, 64, key=jax.random.key(6))
    memory, first = learner.init_memory(probe, 64), jnp.ones(64, bool)
    act, go = jax.jit(learner.act), jax.jit(partial(tick, probe))
    for time in range(probe.length):
        act_key, env_key = jax.random.split(jax.random.key(time))
        memory, action = act(learner.policy(state), memory, runners.timestep, first, key=act_key)
        runners, first = go(runners, action, key=env_key), runners.timestep.last
    assert bool(runners.timestep.last.all())
    return float(runners.timestep.score.mean())


@pytest.mark.parametrize(
    ("name", "network", "critic", "steps", "total"),
    [
        pytest.param("truncated", NETWORK, "local", 80_000, 5.0, marks=pytest.mark.slow),
        ("matching", NETWORK, "joint", 24_000, 1.0),
        pytest.param("recall", MEMORY, "joint", 24_000, 1.0, marks=pytest.mark.slow),
        pytest.param("two_step", APART, "local", 24_000, 1.0, marks=pytest.mark.slow),
    ],
)
def test_probes_are_worth_what_they_are_known_to_be_and_are_solved(name, network, critic, steps, total):
    probe = FAMILIES[f"probe-{name}"]()
    learner, state = trained(probe, network=network, critic=critic, steps=steps)
    found = values_at_start(probe, learner, state)
    for sign in (-1, 1):
        exact = probe.value_of_cue(0.9, sign)
        # What a policy that still explores earns is a little less than the best.
        assert found[sign] == pytest.approx(exact, abs=0.05 * max(1.0, exact))
    assert play(probe, learner, state) == pytest.approx(total, abs=0.02)


def plain_advantages(reward, discount, valid, value, trust, decay):
    """The definition, episode by episode: a sum of errors, ever more decayed, by trust as well."""
    found = np.zeros_like(reward)
    for env in range(reward.shape[1]):
        for begin in range(reward.shape[0]):
            weight, time = 1.0, begin
            while time < reward.shape[0] and valid[time, env]:
                error = reward[time, env] + discount[time, env] * value[time + 1, env] - value[time, env]
                found[begin, env] += weight * error
                time += 1
                weight *= decay * discount[time - 1, env] * (trust[time, env] if time < reward.shape[0] else 0.0)
    return found


def test_advantages_are_decayed_sums_of_errors_within_an_episode():
    random = np.random.default_rng(0)
    shape = (40, 7)
    over = random.random(shape) < 0.2
    over[1:] &= ~over[:-1]
    ended = np.roll(over, -1, axis=0) & (random.random(shape) < 0.5)  # half of the ends are time limits
    assert (np.roll(over, -1, axis=0) & ~ended).any()
    assert ended.any()
    reward, value = random.normal(size=shape), random.normal(size=(41, 7))
    discount = np.where(ended, 0.0, 0.9)
    trust = random.choice([1.0, 0.3], size=shape)
    given = {"reward": reward, "discount": discount, "valid": ~over, "value": value, "trust": trust}
    arrays = {name: jnp.asarray(array, bool if name == "valid" else jnp.float32) for name, array in given.items()}
    found = advantages(**arrays, decay=0.8)
    np.testing.assert_allclose(found, plain_advantages(**given, decay=0.8), atol=1e-5)
    trusting = given | {"trust": np.ones(shape)}
    whole = advantages(**{name: arrays[name] for name in arrays if name != "trust"}, decay=0.8)
    np.testing.assert_allclose(whole, plain_advantages(**trusting, decay=0.8), atol=1e-5)
    for name, array in given.items():
        shifted = given | {name: np.roll(array, 1, axis=0)}
        assert np.abs(found - plain_advantages(**shifted, decay=0.8)).max() > 0.1


def test_time_limits_bootstrap_from_the_final_observation_and_ends_from_nothing():
    reward, valid = jnp.array([1.0, 50.0, 2.0]), jnp.array([True, False, True])
    value = jnp.array([3.0, 10.0, 100.0, 4.0])
    limit = advantages(reward, jnp.array([0.5, 0.5, 0.5]), valid, value, decay=1.0)
    np.testing.assert_allclose(limit, [1 + 0.5 * 10 - 3, 0, 2 + 0.5 * 4 - 100])
    end = advantages(reward, jnp.array([0.0, 0.5, 0.5]), valid, value, decay=1.0)
    np.testing.assert_allclose(end, [1 - 3, 0, 2 + 0.5 * 4 - 100])


def test_means_are_by_weight_and_leave_out_what_has_none():
    value, weight = jnp.array([1.0, jnp.inf, 3.0, 5.0]), jnp.array([1.0, 0.0, 0.25, 0.25])
    assert float(weighted_mean(value, weight)) == 2.0
    assert float(weighted_mean(value, jnp.zeros(4))) == 0.0
    np.testing.assert_allclose(
        np.asarray(standardise(value, weight))[[0, 2, 3]], np.array([-1, 1, 3]) / (7 / 3) ** 0.5, rtol=1e-6
    )


def test_losses_stop_gaining_beyond_the_clip():
    gradient = jax.vmap(jax.grad(lambda ratio, advantage: policy_losses(ratio, advantage, 0.2)))
    ratio, advantage = jnp.array([1.1, 1.3, 0.7, 0.7, 1.3]), jnp.array([2.0, 2.0, 2.0, -2.0, -2.0])
    np.testing.assert_allclose(gradient(ratio, advantage), [-2.0, 0.0, -2.0, 0.0, 2.0])
    slope = jax.vmap(jax.grad(lambda value, clip=0.2: value_losses(value, jnp.float32(0.0), jnp.float32(1.0), clip)))
    np.testing.assert_allclose(slope(jnp.array([0.1, 0.3, -0.3])), [-0.9, 0.0, -1.3], rtol=1e-6)
    free = jax.grad(lambda value: value_losses(value, jnp.float32(0.0), jnp.float32(1.0), None))
    np.testing.assert_allclose(free(jnp.float32(0.3)), -0.7, rtol=1e-6)


@dataclass(frozen=True)
class Shaped(Masked):
    """Two steps, of which the second leaves the first agent no choice, with a hint of 1 that fades in two rollouts."""

    shaping_horizon: int = 2 * SMALL.num_envs * SMALL.rollout

    def step(self, state, action, key):
        state, timestep = super().step(state, action, key)
        return state, dataclasses.replace(timestep, shaped_reward=jnp.float32(1.0))


@pytest.fixture(scope="module")
def untrained():
    """A learner that has done its second rollout and learned nothing yet: how it began that, and what it met there."""
    probe = Shaped()
    learner = Ppo(dataclasses.replace(SMALL, network=MEMORY, critic="joint"))
    state = jax.jit(lambda key: learner.init(probe, key=key))(jax.random.key(0))
    collect = jax.jit(lambda state: learner.collect(state, probe, key=jax.random.key(3)))
    state, _, metrics = collect(state)
    state = eqx.tree_at(lambda state: state.updates, state, jnp.int32(1))
    _, batch, _ = collect(state)
    return probe, learner, state, batch, metrics


def test_an_episode_takes_its_steps_and_a_tick_that_begins_the_next(untrained):
    *_, batch, metrics = untrained
    time = 10 + np.arange(10)[:, None]
    valid, first = np.asarray(batch.ticks.valid), np.asarray(batch.ticks.first)
    np.testing.assert_array_equal(valid, np.broadcast_to(time % 3 != 2, valid.shape))
    np.testing.assert_array_equal(first, np.broadcast_to(time % 3 == 0, valid.shape))
    assert float(metrics["episodes"]) == 16 * 3
    assert not np.asarray(batch.advantage)[~valid].any()


def test_hints_fade_with_the_steps_of_training(untrained):
    *_, batch, _ = untrained
    ticks = batch.ticks
    assert {0.5, 1.5} == set(np.asarray(ticks.reward)[np.asarray(ticks.first)].tolist())
    assert set(np.asarray(ticks.reward)[~np.asarray(ticks.valid)].tolist()) == {0.0}


def test_ticks_that_only_begin_an_episode_carry_no_loss(untrained):
    _, learner, state, batch, _ = untrained
    gradient = jax.jit(jax.grad(learner.loss, has_aux=True))
    spoilt = jnp.where(batch.ticks.valid[..., None], 0.0, 1e3)
    ticks = dataclasses.replace(batch.ticks, log_probability=batch.ticks.log_probability - spoilt / 1e3)
    other = Batch(ticks, batch.value + spoilt, batch.advantage + spoilt, batch.memory)
    found = gradient(state.networks, batch)
    jax.tree.map(np.testing.assert_array_equal, found, gradient(state.networks, other))
    assert all(np.abs(network.head.weights[0]).max() > 0 for network in (found[0].actor, found[0].critic))


def test_learning_begins_with_the_policy_that_acted(untrained):
    """Also in the midst of an episode, as the memory of the time was kept."""
    _, learner, state, batch, _ = untrained
    assert np.abs(batch.memory.actor).max() > 0.01
    assert np.abs(batch.memory.critic).max() > 0.01
    _, metrics = jax.jit(learner.loss)(state.networks, batch)
    np.testing.assert_allclose(metrics["policy_loss"], 0.0, atol=1e-5)  # standardised advantages at a ratio of 1
    assert float(metrics["clipped"]) == 0.0
    goal = (batch.advantage**2)[batch.ticks.valid].mean() / 2
    np.testing.assert_allclose(metrics["value_loss"], goal, rtol=1e-4)
    # Actions are as good as equally likely; at every second step one agent of two has no choice.
    valid = np.asarray(batch.ticks.valid)
    free = np.where(np.asarray(batch.ticks.first), 1.0, 0.5)[valid].mean()
    assert float(metrics["entropy"]) == pytest.approx(free * np.log(2), abs=0.01)


@pytest.mark.parametrize("evaluation", ["greedy", "sampled"])
def test_unavailable_actions_are_never_taken(untrained, evaluation):
    probe, learner, state, batch, _ = untrained
    available = jnp.take_along_axis(batch.ticks.action_mask, batch.ticks.action[..., None], axis=-1)
    assert bool(available[batch.ticks.valid].all())
    assert not bool(batch.ticks.action_mask[batch.ticks.valid].all())

    learner = Ppo(dataclasses.replace(learner.config, evaluation=evaluation))
    timestep = STARTS(probe, 200, key=jax.random.key(1)).timestep
    mask = timestep.action_mask.at[:, 1, 0].set(False)
    timestep = eqx.tree_at(lambda timestep: timestep.action_mask, timestep, mask)
    memory, first = learner.init_memory(probe, 200), jnp.ones(200, bool)
    _, action = jax.jit(learner.act)(learner.policy(state), memory, timestep, first, key=jax.random.key(2))
    assert set(np.asarray(action)[:, 1].tolist()) == {1}
    by_cue = {cue: set(np.asarray(action)[np.asarray(timestep.observation)[:, 0, 0] == cue, 0]) for cue in (-1, 1)}
    assert {len(taken) for taken in by_cue.values()} == {2 if evaluation == "sampled" else 1}


def test_an_agent_comes_first_in_its_own_view_of_the_team():
    vectors = jnp.arange(3.0)[None, None, :, None] + jnp.array([0.0, 0.5])
    np.testing.assert_array_equal(joint_view(vectors)[0, 0, 1], [1.0, 1.5, 2.0, 2.5, 0.0, 0.5])
    pictures = jnp.broadcast_to(jnp.arange(2)[None, None, :, None, None, None], (1, 1, 2, 4, 5, 3))
    seen = joint_view(pictures)
    assert seen.shape == (1, 1, 2, 4, 5, 6)
    np.testing.assert_array_equal(seen[0, 0, 1, 2, 2], [1, 1, 1, 0, 0, 0])


@pytest.mark.parametrize("critic", ["local", "joint"])
def test_pictures_are_learned_from(critic):
    env = Overcooked("cramped_room")
    learner = Ppo(dataclasses.replace(SMALL, network=MEMORY, critic=critic))
    state = jax.eval_shape(lambda key: learner.init(env, key=key), jax.random.key(0))
    channels = [net.convolutions[0].weight.shape[2] for net in (state.networks.actor, state.networks.critic)]
    assert channels == [26, 52 if critic == "joint" else 26]
    after, metrics = jax.eval_shape(lambda state: learner.step(state, env, key=jax.random.key(0)), state)
    assert jax.tree.structure(after) == jax.tree.structure(state)
    assert {"reward", "led", "deliveries", "episodes", "policy_loss", "value_loss", "entropy", "clipped"} == set(
        metrics
    )


MEETING = Grid(height=5, width=5, num_agents=2, task="meet")
WITH_OPTIONS = MacroConfig().around(MEETING, handmade_options(MEETING), foresight=False)


def collected(chance, progress=0.0, led_in_vain=0.0):
    """A rollout with options, at some time of training, after so many steps in which they earned nothing."""
    learner = Ppo(dataclasses.replace(SMALL, network=MEMORY, rollout=20, choice=DrawingConfig(chance=chance)))

    @jax.jit
    def collect(key):
        state = learner.init(WITH_OPTIONS, key=key)
        state = eqx.tree_at(lambda s: s.updates, state, jnp.int32(progress * learner.num_updates))
        record = jnp.float32(led_in_vain), jnp.float32(100.0), jnp.float32(100.0)
        state = eqx.tree_at(lambda s: (s.merit.under, s.merit.own, s.merit.alone), state, record)
        state, batch, metrics = learner.collect(state, WITH_OPTIONS, key=key)
        _, log_policy = learner.log_policy(
            state.networks.actor,
            batch.memory.actor,
            batch.ticks.observation,
            batch.ticks.action_mask,
            batch.ticks.first,
        )
        return state, batch, log_policy, metrics

    return learner, *collect(jax.random.key(0))


def test_policies_are_of_primitives_and_say_how_likely_what_options_did_was():
    _, state, batch, log_policy, metrics = collected(0.3)
    ticks, num = batch.ticks, MEETING.num_actions
    assert log_policy.shape[-1] == ticks.action_mask.shape[-1] == state.networks.actor.head.weights[0].shape[-1] == num
    assert bool((ticks.action < num).all())
    available = jnp.take_along_axis(ticks.action_mask, ticks.action[..., None], axis=-1)
    assert bool(available[ticks.valid].all())
    led = np.asarray(ticks.led)
    assert 0.3 < led[np.asarray(ticks.valid)].mean() < 0.95
    assert (led[..., 0] == led[..., 1]).all(), "the team follows an option together"
    own = np.take_along_axis(np.asarray(log_policy), np.asarray(ticks.action)[..., None], axis=-1)[..., 0]
    valid = np.asarray(ticks.valid)
    np.testing.assert_allclose(np.asarray(ticks.log_probability)[valid], own[valid], atol=1e-5)
    assert float(metrics["led"]) > 0.2
    assert float(state.merit.led.sum()) > 0


@pytest.mark.parametrize(("chance", "progress"), [(0.0, 0.0), (0.5, 1.0)])
def test_options_are_drawn_by_chance_which_falls_to_none(chance, progress):
    _, _, batch, _, metrics = collected(chance, progress)
    assert float(metrics["led"]) == 0.0
    assert not bool(batch.ticks.led.any())


def test_options_that_yield_leave_whole_environments_alone():
    _, _, batch, *_ = collected(0.3, led_in_vain=3 * GRACE)
    assert bool(batch.ticks.led[:, :4].any(axis=(0, 2)).all())
    assert not bool(batch.ticks.led[:, 4:].any())
    _, _, batch, *_ = collected(0.3)
    assert bool(batch.ticks.led.any(axis=(0, 2)).all())


def test_what_an_option_did_counts_as_much_as_the_team_would_have_done_it():
    """Well or badly done; and learning begins with the policy that acted, also where an option did."""
    learner, state, batch, log_policy, _ = collected(0.3)
    ticks = batch.ticks
    valid = np.broadcast_to(np.asarray(ticks.valid)[..., None], ticks.led.shape)
    likely = np.exp(np.take_along_axis(np.asarray(log_policy), np.asarray(ticks.action)[..., None], axis=-1)[..., 0])
    together = np.where(ticks.led, likely, 1.0).prod(axis=-1, keepdims=True)
    share = np.broadcast_to(together, valid.shape)[valid]
    np.testing.assert_allclose(np.asarray(own_share(ticks))[valid], share, rtol=1e-4)
    one_led = dataclasses.replace(ticks, led=jnp.broadcast_to(jnp.array([True, False]), ticks.led.shape))
    np.testing.assert_allclose(own_share(one_led)[..., 1], jnp.exp(ticks.log_probability[..., 0]), rtol=1e-5)
    loss = jax.jit(learner.loss)
    _, metrics = loss(state.networks, batch)
    assert float(metrics["clipped"]) == 0.0
    advantage = np.asarray(batch.advantage)[valid]
    np.testing.assert_allclose(metrics["value_loss"], np.average(advantage**2, weights=share) / 2, rtol=1e-3)

    head = state.networks.actor.head
    louder = eqx.tree_at(lambda networks: networks.actor.head.weights[0], state.networks, 100 * head.weights[0])
    _, policy = learner.log_policy(louder.actor, batch.memory.actor, ticks.observation, ticks.action_mask, ticks.first)
    now = np.exp(np.take_along_axis(np.asarray(policy), np.asarray(ticks.action)[..., None], axis=-1)[..., 0])
    ratio = (now / likely)[valid]
    gain = advantage - np.average(advantage, weights=share)
    gain /= np.average(gain**2, weights=share) ** 0.5
    gained = np.minimum(ratio * gain, np.clip(ratio, 0.8, 1.2) * gain)
    np.testing.assert_allclose(loss(louder, batch)[1]["policy_loss"], -np.average(gained, weights=share), rtol=1e-3)
    assert abs(np.average(gained, weights=share) - gained.mean()) > 1e-3


@dataclass(frozen=True)
class Thrice(Matching):
    """The observed bit earns 1 at each of three steps."""

    length: ClassVar[int] = 3

    def value_of_cue(self, gamma, cue):
        return 1 + gamma + gamma**2

    def _shown_clock(self, state):
        return state.time.astype(jnp.float32)


def test_critics_expect_what_agents_earn_when_left_to_themselves():
    """However often the team is led astray."""
    probe = Thrice(num_agents=1)
    led_astray = MacroConfig().around(probe, wandering_options(probe, max_steps=2), foresight=False)
    often = DrawingConfig(chance=0.5, yields=False)
    learner, state = trained(led_astray, share=0.1, steps=240_000, choice=often, anneal=False)
    assert play(probe, learner, state) == pytest.approx(3.0, abs=0.02)
    found = values_at_start(probe, learner, state)
    for sign in (-1, 1):
        assert found[sign] == pytest.approx(probe.value_of_cue(0.9, sign), abs=0.15)


def test_evaluated_teams_follow_no_option():
    learner, state, *_ = collected(0.5)
    timestep = STARTS(WITH_OPTIONS, 64, key=jax.random.key(1)).timestep
    memory, first = learner.init_memory(WITH_OPTIONS, 64), jnp.ones(64, bool)
    _, action = learner.act(learner.policy(state), memory, timestep, first, key=jax.random.key(2))
    assert bool((action < MEETING.num_actions).all())


def test_wrong_values_name_the_field():
    with pytest.raises(ConfigError, match="choice.chance must lie in"):
        DrawingConfig(chance=1.5)
    with pytest.raises(ConfigError, match="choice.merit_share must lie in"):
        DrawingConfig(merit_share=-0.1)
    with pytest.raises(ConfigError, match="minibatches must divide num_envs = 64"):
        PpoConfig(minibatches=3)
    with pytest.raises(ConfigError, match="steps must be at least"):
        PpoConfig(steps=10)
    with pytest.raises(ConfigError, match="value_clip must be positive or None"):
        PpoConfig(value_clip=0.0)
