"""The Fermat encoder, on a distance that is known: |x - y| along a line."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from cooptions.discovery.representations.distance import DistanceConfig, SuccessorDistance
from cooptions.discovery.representations.fermat import FermatConfig, FermatEncoder, fermat_loss, n_distance
from cooptions.envs.team import Team
from cooptions.types import Feature

LINE = Team((Feature.coordinate("x", 11),), ((True,),) * 3, (0, 0, 0))


@functools.cache
def _line_distance() -> SuccessorDistance:
    """d(x, y) = |x - y|, on inputs in [-1, 1]."""
    distance = SuccessorDistance(LINE, 1, DistanceConfig(hidden=(), head_size=1), key=jax.random.key(0))
    return eqx.tree_at(lambda d: d.encoder.network.weights, distance, [jnp.array([[1.0, 0.0]])])


@pytest.mark.parametrize(("power", "target", "other"), [(1, np.median, np.mean), (2, np.mean, np.median)])
def test_power_1_finds_the_median_and_power_2_the_mean(power, target, other):
    config, distance = FermatConfig(power=power, hidden=(64,)), _line_distance()
    fermat = FermatEncoder(LINE, config, key=jax.random.key(1))
    adam = optax.adam(optax.cosine_decay_schedule(3e-3, 1000))

    def step(carry, key):
        fermat, optimiser = carry
        joint = jax.random.uniform(key, (256, 3, 1), maxval=10.0)
        gradient = jax.grad(lambda f: fermat_loss(LINE, config, f, distance, joint))(fermat)
        updates, optimiser = adam.update(gradient, optimiser)
        return (eqx.apply_updates(fermat, updates), optimiser), None

    (fermat, _), _ = jax.lax.scan(step, (fermat, adam.init(fermat)), jax.random.split(jax.random.key(2), 1000))
    joint = np.random.default_rng(0).uniform(0, 10, (500, 3, 1)).astype(np.float32)
    found = np.asarray(jax.vmap(lambda s: fermat.state(LINE, s))(jnp.asarray(joint)))[:, 0]
    errors = [np.abs(found - point(joint[:, :, 0], axis=1)).mean() for point in (target, other)]
    assert errors[0] < 0.25
    assert errors[0] < 0.5 * errors[1], "and not the other one"


def test_the_fermat_loss_leaves_the_distance_alone():
    distance = _line_distance()
    fermat = FermatEncoder(LINE, FermatConfig(hidden=(8,)), key=jax.random.key(0))
    joint = jnp.array([[[0.0], [3.0], [10.0]]])
    gradient = jax.grad(lambda d: fermat_loss(LINE, FermatConfig(), fermat, d, joint))(distance)
    assert all(not leaf.any() for leaf in jax.tree.leaves(gradient))


def test_n_distance_sums_the_distances_to_the_fermat_state():
    distance = _line_distance()
    fermat = FermatEncoder(LINE, FermatConfig(hidden=(8,)), key=jax.random.key(0))
    joint = jnp.array([[0.0], [3.0], [10.0]])
    gaps = jnp.abs(joint - fermat.state(LINE, joint)) / 5  # inputs are a fifth of the units
    assert float(n_distance(LINE, distance, fermat, joint)[0]) == pytest.approx(float(gaps.sum()), rel=1e-4)


@pytest.mark.parametrize("categorical", ["softmax", "straight_through"])
def test_outputs_are_states(mixed_team, categorical):
    fermat = FermatEncoder(mixed_team, FermatConfig(categorical=categorical, hidden=(8,)), key=jax.random.key(0))
    fermat = jax.tree.map(lambda leaf: 30 * leaf, fermat)  # far beyond all bounds before they are applied
    states = jnp.array([[0.0, 2.0, 0.5], [4.0, 1.0, -1.0], [2.0, 0.0, 1.0]])
    point = fermat(mixed_team, states)
    columns = mixed_team.input_slices()[1]
    assert (jnp.abs(point) <= 1).all()
    assert float(point[columns].sum()) == pytest.approx(1.0)
    if categorical == "straight_through":
        assert sorted(point[columns].tolist()) == [0.0, 0.0, 1.0]
    gentle = jax.tree.map(lambda leaf: leaf / 30, fermat)
    gradient = jax.grad(lambda f: f(mixed_team, states)[columns][0])(gentle)
    assert any(leaf.any() for leaf in jax.tree.leaves(gradient)), "categoricals pass a gradient on"
