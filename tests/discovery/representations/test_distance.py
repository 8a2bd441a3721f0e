"""The MRN and the contrastive loss, by their definitions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cooptions.discovery.representations.distance import (
    DistanceConfig,
    Embedding,
    Encoder,
    fill_lacking,
    mrn,
    pairwise_mrn,
    symmetric_infonce,
)
from cooptions.envs.team import Team
from cooptions.errors import ConfigError


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder(3, 2, DistanceConfig(hidden=(16,), head_size=4), key=jax.random.key(0))


def test_mrn_is_a_quasimetric(encoder: Encoder):
    x, y, w = jax.random.normal(jax.random.key(1), (3, 200, 3))
    distance = jax.jit(jax.vmap(lambda a, b: mrn(encoder(a), encoder(b))))
    xy, yx, xw, wy, xx = (np.asarray(distance(a, b)) for a, b in [(x, y), (y, x), (x, w), (w, y), (x, x)])
    assert xy.shape == (200, 2)
    assert (xx == 0).all()
    assert (xy > 0).all()
    assert (xy <= xw + wy + 1e-5).all()
    assert np.abs(xy - yx).max() > 0.01, "it must be able to tell up from down"


def test_mrn_has_a_finite_gradient_between_equal_states(encoder: Encoder):
    gradient = jax.grad(lambda x: mrn(encoder(x), encoder(x)).sum())(jnp.ones(3))
    assert jnp.isfinite(gradient).all()


def test_pairwise_is_mrn_of_every_pair(encoder: Encoder):
    sources, goals = (jax.vmap(encoder)(x) for x in jax.random.normal(jax.random.key(1), (2, 5, 3)))
    expected = jax.vmap(lambda s: jax.vmap(lambda g: mrn(s, g))(goals))(sources)
    np.testing.assert_allclose(pairwise_mrn(sources, goals), jnp.moveaxis(expected, -1, 0), rtol=1e-5)


def test_mrn_by_hand():
    source = Embedding(jnp.array([[3.0, 0.0]]), jnp.array([[1.0, 5.0]]))
    goal = Embedding(jnp.array([[0.0, 4.0]]), jnp.array([[2.0, 3.0]]))
    assert mrn(source, goal)[0] == pytest.approx(5.0 + 2.0)
    assert mrn(goal, source)[0] == pytest.approx(5.0 + 1.0)


@pytest.mark.parametrize(("norm", "expected"), [(1, 7.0), (2, 5.0)])
def test_heads_make_one_distance(norm: int, expected: float):
    config = DistanceConfig(norm=norm)
    assert float(config.whole(jnp.array([3.0, 4.0]))) == pytest.approx(expected)
    assert jnp.isfinite(jax.grad(config.whole)(jnp.zeros(2))).all()
    x, y, w = jax.random.normal(jax.random.key(1), (3, 200, 3))
    encoder = Encoder(3, 2, DistanceConfig(hidden=(16,), head_size=4), key=jax.random.key(0))
    distance = jax.jit(jax.vmap(lambda a, b: config.whole(mrn(encoder(a), encoder(b)))))
    assert (distance(x, y) <= distance(x, w) + distance(w, y) + 1e-5).all(), "still a quasimetric"


def test_infonce_leaves_positives_out_of_the_normaliser():
    logits = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
    total = 0.0
    for i in range(4):
        others = [j for j in range(4) if j != i]
        rows, columns = (np.log(np.mean(np.exp(x))) for x in (logits[i, others], logits[others, i]))
        total += (rows + columns) / 2 - logits[i, i]
    assert float(symmetric_infonce(jnp.asarray(logits))) == pytest.approx(total / 4, rel=1e-5)


def test_lacking_features_are_filled_from_owners(mixed_team: Team):
    states = jnp.stack([jnp.arange(60.0)] * 3, axis=1)
    types = jnp.asarray([0, 1] * 30)
    filled = np.asarray(fill_lacking(mixed_team, states, types, key=jax.random.key(0)))
    lacking = filled[1::2, 1]
    assert (lacking % 2 == 0).all(), "values come from agents of the type that has the feature"
    assert len(set(lacking)) > 10, "at random"
    np.testing.assert_array_equal(np.delete(filled, 1, axis=1), np.delete(states, 1, axis=1))
    np.testing.assert_array_equal(filled[::2], states[::2])


def test_bad_values_name_their_field():
    with pytest.raises(ConfigError, match="discount"):
        DistanceConfig(discount=1.0)
    with pytest.raises(ConfigError, match="norm"):
        DistanceConfig(norm=3)
