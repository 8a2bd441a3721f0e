"""Tabular eigenfunctions from counts, for a z with few distinct values and to check the other estimators."""

from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from cooptions.discovery.laplacian.base import LAPLACIANS, AbstractLaplacian, Pairs
from cooptions.discovery.laplacian.moments import slowest
from cooptions.errors import MOST_FUNCTIONS, WIDEST, require_whole
from cooptions.training.loop import Metrics


class Solution(eqx.Module):
    """Row r of `table` has the eigenfunctions at `distinct[r]`. Unused rows of `distinct` are infinite."""

    distinct: Float[Array, "value z"]
    table: Float[Array, "value k"]
    """NaN, like the eigenvalues, if there are more distinct values than rows."""
    eigenvalues: Float[Array, " k"]


@LAPLACIANS.register("exact")
@dataclass(frozen=True)
class Exact(AbstractLaplacian[Solution, Solution]):
    """Exact eigenfunctions of the empirical Laplacian, for a z with few distinct values.

    Rayleigh-Ritz on the indicator functions of the distinct values: nothing is approximated.

        small = co.walk(co.make_env("grid-4x4-2p"), transitions=20_000, key=key)
        found = co.discover(small, co.RawJoint(), co.Exact(4), key=key)
    """

    num_eigenfunctions: int = 10
    max_values: int = 1024
    decimals: int = 4
    """The number of decimals to which z is rounded."""

    def __post_init__(self) -> None:
        require_whole("num_eigenfunctions", self.num_eigenfunctions, at_most=MOST_FUNCTIONS)
        require_whole("max_values", self.max_values, at_least=2, at_most=WIDEST)

    @property
    def num_steps(self) -> int:
        return 0

    def init(self, data: Pairs, *, key: PRNGKeyArray) -> Solution:
        ends = jnp.round(jnp.concatenate([data.z, data.next_z]), self.decimals)
        distinct, index = jnp.unique(ends, axis=0, size=self.max_values + 1, fill_value=jnp.inf, return_inverse=True)
        complete = jnp.isinf(distinct[-1, 0])  # the extra row is used only if there are too many values
        first, second = index.reshape(2, -1)
        size = self.max_values + 1
        counts = jnp.zeros((size, size)).at[first, second].add(1.0) / first.size
        law = (counts + counts.T) / 2
        visits = law.sum(axis=1)
        # Indicators divided by the square roots of their visits: their covariance is the identity minus one direction.
        root = jnp.sqrt(visits)
        inverse = jnp.where(visits > 0, 1 / jnp.where(visits > 0, root, 1.0), 0.0)
        visited = jnp.diag((visits > 0).astype(law.dtype))
        solution = slowest(
            visited - jnp.outer(root, root), visited - inverse[:, None] * law * inverse, self.num_eigenfunctions, 1e-3
        )
        table = jnp.where(complete, inverse[:, None] * solution.weights, jnp.nan)
        return Solution(distinct, table, jnp.where(complete, solution.eigenvalues, jnp.nan))

    def step(self, state: Solution, data: Pairs, *, key: PRNGKeyArray) -> tuple[Solution, Metrics]:
        return state, {}

    def solution(self, state: Solution) -> Solution:
        return state

    def eigenfunctions(self, solution: Solution, z: Float[Array, " z"]) -> Float[Array, " k"]:
        """The eigenfunctions at the closest visited value of z."""
        return solution.table[jnp.argmin(jnp.sum((solution.distinct - z) ** 2, axis=-1))]

    def eigenvalues(self, solution: Solution) -> Float[Array, " k"]:
        return solution.eigenvalues
