"""Second moments of functions of z along a walk, and their slowest combinations by the Rayleigh-Ritz method."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cooptions.discovery.laplacian.base import Pairs

BLOCK = 4096
"""The number of transitions whose function values are in memory at once."""


class Moments(eqx.Module):
    """Moments of functions phi over transitions (z, z'). Both ends count equally, as in the symmetrised walk."""

    mean: Float[Array, " function"]
    covariance: Float[Array, "function function"]
    energy: Float[Array, "function function"]
    """E[(phi(z') - phi(z)) (phi(z') - phi(z))^T] / 2, the quadratic form of the Laplacian."""


class Slowest(eqx.Module):
    """Uncorrelated combinations `(phi - mean) @ weights` of unit variance, in ascending order of eigenvalue."""

    weights: Float[Array, "function k"]
    eigenvalues: Float[Array, " k"]


def moments(functions: Callable[[Float[Array, " z"]], Float[Array, " function"]], data: Pairs) -> Moments:
    """The moments of `functions`, computed in one pass over the data, block by block."""
    num = data.z.shape[0]
    num_blocks = -(-num // BLOCK)
    padding = ((0, num_blocks * BLOCK - num), (0, 0))
    z, next_z = (jnp.pad(end, padding).reshape(num_blocks, BLOCK, -1) for end in (data.z, data.next_z))
    counted = (jnp.arange(num_blocks * BLOCK) < num).reshape(num_blocks, BLOCK, 1)
    # Moments about a point near the mean lose fewer digits than moments about 0.
    origin = jax.vmap(functions)(data.z[:: max(1, num // BLOCK)]).mean(axis=0)

    def add(total: tuple[Array, Array, Array], block: tuple[Array, Array, Array]) -> tuple[tuple, None]:
        phi, next_phi = (jax.vmap(functions)(end) - origin for end in block[:2])
        sums = jnp.where(block[2], next_phi + phi, 0.0)
        differences = jnp.where(block[2], next_phi - phi, 0.0)
        return (total[0] + sums.sum(axis=0), total[1] + _gram(sums), total[2] + _gram(differences)), None

    square = jnp.zeros((origin.size, origin.size))
    (total, sums, differences), _ = jax.lax.scan(add, (jnp.zeros(origin.size), square, square), (z, next_z, counted))
    mean = total / (2 * num)
    covariance = (sums + differences) / (4 * num) - jnp.outer(mean, mean)
    return Moments(mean + origin, covariance, differences / (2 * num))


def _gram(rows: Float[Array, "row function"]) -> Float[Array, "function function"]:
    return jnp.matmul(rows.T, rows, precision=jax.lax.Precision.HIGHEST)


def slowest(
    covariance: Float[Array, "function function"],
    energy: Float[Array, "function function"],
    num: int,
    tolerance: float = 1e-5,
) -> Slowest:
    """The `num` uncorrelated minimisers a of a^T energy a subject to a^T covariance a = 1, in ascending order.

    Directions whose variance is below `tolerance` times the largest are left out, because their quotient is rounding
    error. At 1e-6, one in ten data sets of a 12x8 grid had a different third function, a spike where the whole team is
    together. If fewer than `num` directions remain, the last combinations are 0 with the largest possible eigenvalue 2.
    """
    variances, directions = jnp.linalg.eigh(covariance)
    kept = variances > tolerance * variances[-1]
    whitening = jnp.where(kept, directions / jnp.sqrt(jnp.where(kept, variances, 1.0)), 0.0)
    whitened = _product(_product(whitening.T, energy), whitening)
    quotients, vectors = jnp.linalg.eigh((whitened + whitened.T) / 2 + jnp.diag(jnp.where(kept, 0.0, 10.0)))
    weights = _product(whitening, vectors)[:, :num]
    missing = max(0, num - quotients.size)
    return Slowest(
        jnp.pad(weights, ((0, 0), (0, missing))),
        jnp.clip(jnp.pad(quotients[:num], (0, missing), constant_values=2.0), 0.0, 2.0),
    )


def _product(left: Array, right: Array) -> Array:
    return jnp.matmul(left, right, precision=jax.lax.Precision.HIGHEST)
