import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cooptions.discovery.laplacian.base import Pairs
from cooptions.discovery.laplacian.canonical import Canonical, References
from cooptions.discovery.laplacian.profiles import Profiles, profiles_of

REFERENCES = References.of(2, "axes")
X, Y, PRODUCT = 0, 1, 2  # the first references of two features


def functions(z):
    """Three functions: of x with a small part of y, of y, and of both."""
    return jnp.stack([jnp.tanh(z[0]) + 0.1 * z[0] * z[1] + 0.2 * z[1], z[1], z[0] * z[1]])


@pytest.fixture(scope="module")
def found() -> tuple[Profiles, jax.Array]:
    z = jax.random.normal(jax.random.key(0), (20_000, 2))
    canonical = Canonical(jnp.eye(3), jnp.zeros(3), jnp.ones(3), jnp.array([X, Y, PRODUCT]))
    return profiles_of(functions, canonical, REFERENCES, Pairs(z, z)), z


def test_references_are_as_assumed_here():
    assert REFERENCES.names(("x", "y"))[:3] == ("x", "y", "x y")


def test_functions_of_one_feature_ignore_the_other(found):
    profiles, _ = found
    assert profiles.feature.tolist() == [0, 1, -1]
    values = [profiles(jnp.array([0.7, y]), functions(jnp.array([0.7, y]))) for y in (-2.0, 0.0, 2.0)]
    assert len({float(each[0]) for each in values}) == 1
    assert [float(each[2]) for each in values] == pytest.approx([-1.4, 0.0, 1.4], abs=1e-5)


def test_they_keep_their_shape_with_zero_mean_and_unit_variance(found):
    profiles, z = found
    values = np.asarray(jax.vmap(lambda z: profiles(z, functions(z)))(z))
    assert values[:, :2].mean(axis=0) == pytest.approx([0, 0], abs=0.03)
    assert values[:, :2].std(axis=0) == pytest.approx([1, 1], abs=0.03)
    assert np.corrcoef(values[:, 0], np.tanh(z[:, 0]))[0, 1] > 0.999


def test_profiles_are_constant_beyond_the_visited_range(found):
    profiles, z = found
    edge, beyond = (jnp.array([x, 0.0]) for x in (float(z[:, 0].max()), 100.0))
    assert profiles(beyond, functions(beyond))[0] == pytest.approx(float(profiles(edge, functions(edge))[0]))
