"""The values of the probe environments, against exhaustive search in the environments themselves."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cooptions.envs.base import FAMILIES, check_env

GAMMA = 0.9
CUES = (-1, 1)

PROBES = [name.removeprefix("probe-") for name in FAMILIES if name.startswith("probe-")]


@functools.cache
def key_of(cue):
    """A key whose episode has the given cue, in any probe."""
    keys = jax.random.split(jax.random.key(0), 16)
    cues = jax.jit(jax.vmap(lambda key: FAMILIES["probe-constant"]().reset(key)[0].cue))(keys)
    return keys[int(jnp.argmax(cues == cue))]


@functools.cache
def every_episode(name, cue):
    """The first time step and those of all joint action sequences, [sequence, time, ...]; which plans are legal.

    A probe is deterministic once its cue is drawn, so these are all the episodes there are.
    """
    env = FAMILIES[f"probe-{name}"]()
    joint = list(itertools.product(range(env.num_actions), repeat=env.num_agents))
    plans = np.array(list(itertools.product(joint, repeat=env.length)))

    def step(carry, action):
        state, mask = carry
        legal = mask[jnp.arange(env.num_agents), action].all()
        state, timestep = env.step(state, action, jax.random.key(0))
        return (state, timestep.action_mask), (timestep, legal)

    @jax.jit
    def play(key):
        state, first = env.reset(key)
        return state.cue, first, jax.vmap(lambda plan: jax.lax.scan(step, (state, first.action_mask), plan)[1])(plans)

    drawn, first, (episodes, legal) = jax.tree.map(np.asarray, play(key_of(cue)))
    assert drawn == cue
    return plans, first, episodes, legal.all(axis=1)


def returns(env, episodes, gamma):
    """Discounted returns; where a time limit cut the task short, it goes on as it began."""
    reward, discount = np.asarray(episodes.reward, float), np.asarray(episodes.discount, float)
    alive = np.cumprod(np.concatenate([np.ones((len(discount), 1)), discount], axis=1), axis=1)
    earned = (gamma ** np.arange(env.length) * alive[:, :-1] * reward).sum(axis=1)
    return earned / (1 - gamma**env.length * alive[:, -1])


@pytest.mark.parametrize("name", PROBES)
def test_declares_what_it_produces(name):
    check_env(FAMILIES[f"probe-{name}"]())
    check_env(FAMILIES[f"probe-{name}"](num_agents=3))


@pytest.mark.parametrize("name", PROBES)
def test_value_is_the_best_return_of_all_episodes(name):
    env = FAMILIES[f"probe-{name}"]()
    best = []
    for cue in CUES:
        _, _, episodes, legal = every_episode(name, cue)
        best.append(returns(env, episodes, GAMMA)[legal].max())
        assert env.value_of_cue(GAMMA, cue) == pytest.approx(best[-1])
    assert env.optimal_value(GAMMA) == pytest.approx(np.mean(best))


@pytest.mark.parametrize("name", PROBES)
def test_episodes_last_exactly_their_length(name):
    env = FAMILIES[f"probe-{name}"]()
    _, _, episodes, _ = every_episode(name, 1)
    assert (np.asarray(episodes.last) == (np.arange(env.length) == env.length - 1)).all()
    assert (episodes.discount[:, -1] == (1.0 if name == "truncated" else 0.0)).all()
    assert (episodes.score[:, :, 0] == np.cumsum(episodes.reward, axis=1)).all()


def test_cues_are_a_fair_coin():
    cues = jax.vmap(lambda key: FAMILIES["probe-constant"]().reset(key)[0].cue)(
        jax.random.split(jax.random.key(0), 1000)
    )
    assert set(cues.tolist()) == {-1.0, 1.0}
    assert abs(cues.mean()) < 0.15


def test_the_mask_matters():
    env = FAMILIES["probe-masked"]()
    _, _, episodes, legal = every_episode("masked", 1)
    assert returns(env, episodes, GAMMA).max() == pytest.approx(1 + GAMMA)
    assert returns(env, episodes, GAMMA)[legal].max() == pytest.approx(1.0)
    assert np.asarray(episodes.action_mask).any(axis=-1).all()  # every agent can always do something


@pytest.mark.parametrize("name", ["observed_sign", "matching", "masked", "recall"])
def test_the_cue_is_shown_at_the_start(name):
    for cue in CUES:
        _, first, _, _ = every_episode(name, cue)
        assert first.observation[:, 0].tolist() == [cue, cue]


@pytest.mark.parametrize("cue", CUES)
def test_recall_shows_the_cue_no_later(cue):
    plans, _, episodes, _ = every_episode("recall", cue)
    assert (episodes.observation[..., 0] == 0).all()
    rewarded = plans[episodes.reward[:, 2] == 1]
    assert (rewarded[:, 2] == (cue + 1) // 2).all()
    assert len(rewarded) == 4**2


def test_the_limit_of_truncated_cannot_be_seen():
    _, _, truncated, _ = every_episode("truncated", 1)
    assert (truncated.observation == 0).all()
    _, _, terminated, _ = every_episode("terminated", 1)
    assert len(np.unique(terminated.observation[0, :, 0, 1])) == 5


def test_features_count_the_steps():
    env = FAMILIES["probe-recall"]()
    state, _ = env.reset(jax.random.key(0))
    for time in range(1, env.length + 1):
        state, _ = env.step(state, jnp.zeros(2, int), jax.random.key(0))
        assert env.agent_states(state).tolist() == [[time], [time]]
    assert env.features[0].size == env.length + 1
