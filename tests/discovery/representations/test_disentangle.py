"""The penalty on conditional mutual information sees a leak, and only a leak."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small_walks import OPEN

from cooptions.discovery.representations.cmi import Cmi
from cooptions.discovery.representations.disentangle import (
    AgentPairs,
    CmiConfig,
    adversarial_penalty,
    agent_pairs,
    discriminator_loss,
    init_discriminators,
    random_neighbours,
    visible_inputs,
)
from cooptions.envs.team import Team

TEAM = Team.of(OPEN)
CONFIG = CmiConfig(hidden=(64,), learning_rate=1e-2)


def _sample(leak, key):
    """z_x = |x - x'| + leak * |y - y'|; the head of y is clean."""
    source, goal = jax.random.randint(key, (2, 200, 2), 0, 6) / 2.5 - 1
    gaps = jnp.abs(source - goal)
    return AgentPairs(source, goal), jnp.stack([gaps[:, 0] + leak * gaps[:, 1], gaps[:, 1]], axis=1)


@jax.jit
@jax.vmap
def _trained_discriminators(leak):
    adam = optax.adam(CONFIG.learning_rate)

    def step(carry, key):
        discriminators, optimiser = carry
        pairs, z = _sample(leak, key)

        def loss(discriminators):
            return discriminator_loss(TEAM, CONFIG, discriminators, pairs, z, key=key)

        value, gradient = jax.value_and_grad(loss)(discriminators)
        updates, optimiser = adam.update(gradient, optimiser)
        return (optax.apply_updates(discriminators, updates), optimiser), value

    discriminators = init_discriminators(TEAM, CONFIG, key=jax.random.key(0))
    carry = (discriminators, adam.init(discriminators))
    (discriminators, _), losses = jax.lax.scan(step, carry, jax.random.split(jax.random.key(1), 200))
    return discriminators, losses[-50:].mean()


def test_discriminators_detect_a_leak_and_the_penalty_falls_without_it():
    chance = 2 * 2 * np.log(2)  # two features, real and permuted
    discriminators, losses = _trained_discriminators(jnp.array([0.0, 1.0]))
    assert losses[0] > chance - 0.1
    assert losses[1] < chance - 0.4
    leaky = jax.tree.map(lambda leaf: leaf[1], discriminators)
    pairs, z = _sample(1.0, jax.random.key(2))
    own = jnp.abs(pairs.source - pairs.goal)
    assert adversarial_penalty(leaky, pairs, own) < adversarial_penalty(leaky, pairs, z) - 0.1


def test_the_weight_falls_and_stays():
    config = CmiConfig(weight=0.001, first_weight=0.1)
    weights = [float(config.weight_at(jnp.float32(share))) for share in (0.0, 0.2, 0.4, 0.6, 1.0)]
    assert weights == pytest.approx([0.1, 0.1, 0.01, 0.001, 0.001])


def test_neighbours_are_near_and_never_oneself():
    points = jnp.arange(50.0)[:, None]
    picks = np.stack([np.asarray(random_neighbours(points, 4, key=jax.random.key(i))) for i in range(20)])
    gaps = np.abs(picks - np.arange(50))
    assert gaps.min() == 1
    assert gaps[:, 2:-2].max() == 2
    assert gaps.max() == 4, "at the ends of the line the fourth neighbour is four away"


def test_pairs_are_all_pairs_of_agents_as_the_first_one_sees_them(mixed_team: Team):
    joint = jnp.asarray(np.random.default_rng(0).uniform(0, 1, (7, 3, 3)) * mixed_team.has_feature, jnp.float32)
    pairs = agent_pairs(mixed_team, joint, key=jax.random.key(0))
    assert pairs.source.shape == (21, mixed_team.num_typed_inputs)
    np.testing.assert_array_equal(pairs.source[:, -2:], [[1.0, 0.0]] * 21)  # the third agent is never first
    np.testing.assert_array_equal(pairs.goal[:, -2:], [[1.0, 0.0]] * 21)


def test_a_head_is_shown_its_feature_and_the_type(mixed_team: Team):
    expected = [[1, 0, 0, 0, 0, 1, 1], [0, 1, 1, 1, 0, 1, 1], [0, 0, 0, 0, 1, 1, 1]]
    np.testing.assert_array_equal(visible_inputs(mixed_team), np.array(expected, bool))


@pytest.mark.parametrize(("domain", "weight", "head_size"), [("lbf", 0.003, 8), ("overcooked", 0.0003, 12)])
def test_the_papers_hyperparameters(domain, weight, head_size):
    paper = Cmi.paper(domain)
    assert (paper.cmi.weight, paper.distance.head_size) == (weight, head_size)
    assert (paper.distance.norm, paper.fermat.power) == (1, 2)
    assert float(paper.cmi.weight_at(jnp.float32(0.3))) == pytest.approx(weight)
    assert paper.steps * paper.distance.num_pairs == 10 * 500_000
