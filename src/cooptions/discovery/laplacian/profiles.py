"""Functions that stand for one feature, as functions of that feature alone.

A learned function of x holds a little of y, most of all where the walk seldom comes, as where both are aligned; an
option that follows it then aligns both (docs/findings/option-training.md). In the basis `axes`, where a function is to
stand for one feature, it is averaged over what the others may be.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from cooptions.discovery.laplacian.base import Pairs
from cooptions.discovery.laplacian.canonical import Canonical, References

NUM_POINTS = 128
"""Values of a feature at which the averages are kept; in between they are straight lines."""
NUM_OTHERS = 64
"""Visited z whose other features are averaged over."""
NUM_VISITED = 8192
"""Visited z that the mean and the variance are of."""


class Profiles(eqx.Module):
    """Every function along every feature, and the one feature it stands for."""

    low: Float[Array, "*seed z"]
    high: Float[Array, "*seed z"]
    table: Float[Array, "*seed z point k"]
    feature: Int[Array, "*seed k"]
    """-1 for functions of several."""

    def __call__(self, z: Float[Array, " z"], values: Float[Array, " k"]) -> Float[Array, " k"]:
        """The functions at z: those of one feature by that alone, the others as they are."""
        return jnp.where(self.feature >= 0, self.along(z)[self.feature, np.arange(values.size)], values)

    def along(self, z: Float[Array, " z"]) -> Float[Array, "z k"]:
        """Every function at every component of z, averaged over the others."""
        place = (z - self.low) / jnp.maximum(self.high - self.low, 1e-6) * (NUM_POINTS - 1)
        before = jnp.clip(jnp.floor(place), 0, NUM_POINTS - 2).astype(jnp.int32)
        part = jnp.clip(place - before, 0.0, 1.0)[:, None]
        component = np.arange(z.size)
        return (1 - part) * self.table[component, before] + part * self.table[component, before + 1]


def profiles_of(
    functions: Callable[[Float[Array, " z"]], Float[Array, " k"]],
    canonical: Canonical,
    references: References,
    data: Pairs,
) -> Profiles:
    """The profiles of the canonical `functions` of z, of zero mean and unit variance, for one seed."""
    z = data.z
    others = z[_evenly(z.shape[0], NUM_OTHERS)]
    low, high = z.min(axis=0), z.max(axis=0)

    def mean_at(component: Int[Array, ""], point: Float[Array, ""]) -> Float[Array, " k"]:
        return jax.vmap(functions)(others.at[:, component].set(point)).mean(axis=0)

    points = jnp.linspace(low, high, NUM_POINTS)
    along_one = jax.vmap(mean_at, in_axes=(None, 0))
    table = jax.lax.map(lambda component: along_one(component, points[:, component]), jnp.arange(z.shape[-1]))
    found = Profiles(low, high, table, feature_of(canonical, references))
    visited = jax.vmap(found.along)(z[_evenly(z.shape[0], NUM_VISITED)])
    mean, deviation = visited.mean(axis=0)[:, None], visited.std(axis=0)[:, None]
    return eqx.tree_at(lambda p: p.table, found, (table - mean) / jnp.maximum(deviation, 1e-6))


def feature_of(canonical: Canonical, references: References) -> Int[Array, "*seed k"]:
    """The feature that each function stands for: its reference's, if that is a feature and no product or power."""
    linear = references.degree == 1
    feature = np.where(linear, references.exponents.argmax(axis=1), -1)
    return jnp.asarray(feature)[canonical.reference % len(feature)]


def _evenly(num: int, at_most: int) -> Int[np.ndarray, " chosen"]:
    return np.linspace(0, num - 1, min(num, at_most)).astype(np.int64)
