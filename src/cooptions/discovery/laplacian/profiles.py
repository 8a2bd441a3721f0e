"""Profiles: eigenfunctions of one feature, averaged over the other features.

A learned function of x also depends slightly on y, most of all in rarely visited states, for example where both are
aligned. An option that follows it then aligns both (docs/findings/option-training.md). In the basis `axes`, in which
each function should depend on one feature, it is therefore averaged over the values of the others.
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
"""The number of values of a feature at which averages are stored, with linear interpolation in between."""
NUM_OTHERS = 64
"""The number of visited z over whose other features the functions are averaged."""
NUM_VISITED = 8192
"""The number of visited z from which mean and variance are computed."""


class Profiles(eqx.Module):
    """The average of every function along every feature, and the feature that each function stands for."""

    low: Float[Array, "*seed z"]
    high: Float[Array, "*seed z"]
    table: Float[Array, "*seed z point k"]
    feature: Int[Array, "*seed k"]
    """The feature that each function stands for; -1 for functions of several features."""

    def __call__(self, z: Float[Array, " z"], values: Float[Array, " k"]) -> Float[Array, " k"]:
        """The functions at z. Those of one feature are replaced by their profiles."""
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
    """The profiles of the canonical `functions` of z, with zero mean and unit variance, for one seed."""
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
    """The feature that each function stands for: that of its reference, or -1 if that is a product or power."""
    linear = references.degree == 1
    feature = np.where(linear, references.exponents.argmax(axis=1), -1)
    return jnp.asarray(feature)[canonical.reference % len(feature)]


def _evenly(num: int, at_most: int) -> Int[np.ndarray, " chosen"]:
    return np.linspace(0, num - 1, min(num, at_most)).astype(np.int64)
