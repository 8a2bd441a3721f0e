"""Eigenfunctions in closed form. z has few components, so a few hundred fixed functions span its slow functions."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from cooptions.discovery.laplacian.base import LAPLACIANS, AbstractLaplacian, Pairs
from cooptions.discovery.laplacian.moments import moments, slowest
from cooptions.errors import MOST_FUNCTIONS, WIDEST, require_number, require_whole
from cooptions.training.loop import Metrics

CANDIDATES = 4096
"""The number of visited z among which landmarks are chosen."""


class Solution(eqx.Module):
    """The solution: `eigenfunctions = functions(z) @ weights - offset`."""

    landmarks: Float[Array, "landmark z"]
    bandwidth: Float[Array, ""]
    weights: Float[Array, "function k"]
    offset: Float[Array, " k"]
    eigenvalues: Float[Array, " k"]


@LAPLACIANS.register("nystrom")
@dataclass(frozen=True)
class Nystrom(AbstractLaplacian[Solution, Solution]):
    """Eigenfunctions in closed form: one generalised eigenproblem. The default.

    The Rayleigh-Ritz method with Gaussian bumps around visited z, and z itself, as basis functions.

        found = co.discover(walk, co.Hit(), co.Nystrom(10), key=key)
    """

    num_eigenfunctions: int = 10
    num_landmarks: int = 300
    bandwidth: float = 0.5
    """The width of the bumps, in units of the median distance between landmarks."""

    def __post_init__(self) -> None:
        require_whole("num_eigenfunctions", self.num_eigenfunctions, at_most=MOST_FUNCTIONS)
        require_whole("num_landmarks", self.num_landmarks, at_least=2, at_most=WIDEST)
        require_number("bandwidth", self.bandwidth, above=0)

    @property
    def num_steps(self) -> int:
        return 0

    def init(self, data: Pairs, *, key: PRNGKeyArray) -> Solution:
        landmarks = spread_out(data.z, self.num_landmarks, key=key)
        distances = jnp.linalg.norm(landmarks[:, None] - landmarks, axis=-1)
        # If there are fewer values than landmarks, some landmarks coincide. These must not narrow the bumps.
        apart = jnp.nanmedian(jnp.where(distances > 1e-6, distances, jnp.nan))
        bandwidth = self.bandwidth * jnp.maximum(jnp.nan_to_num(apart), 1e-3)
        found = moments(lambda z: _functions(landmarks, bandwidth, z), data)
        solution = slowest(found.covariance, found.energy, self.num_eigenfunctions)
        offset = found.mean @ solution.weights
        return Solution(landmarks, bandwidth, solution.weights, offset, solution.eigenvalues)

    def step(self, state: Solution, data: Pairs, *, key: PRNGKeyArray) -> tuple[Solution, Metrics]:
        return state, {}

    def solution(self, state: Solution) -> Solution:
        return state

    def eigenfunctions(self, solution: Solution, z: Float[Array, " z"]) -> Float[Array, " k"]:
        return _functions(solution.landmarks, solution.bandwidth, z) @ solution.weights - solution.offset

    def eigenvalues(self, solution: Solution) -> Float[Array, " k"]:
        return solution.eigenvalues


def spread_out(z: Float[Array, "transition z"], num: int, *, key: PRNGKeyArray) -> Float[Array, "num z"]:
    """Visited z that cover the visited region: each is the candidate farthest from the earlier ones.

    Random draws would repeat frequent values, especially with discrete features.
    """
    candidates = z[jax.random.randint(key, (CANDIDATES,), 0, z.shape[0])]

    def choose(gap: Float[Array, " candidate"], _: None) -> tuple[Array, Array]:
        chosen = candidates[jnp.argmax(gap)]
        return jnp.minimum(gap, jnp.sum((candidates - chosen) ** 2, axis=-1)), chosen

    return jax.lax.scan(choose, jnp.full(CANDIDATES, jnp.inf), None, length=num)[1]


def _functions(
    landmarks: Float[Array, "landmark z"], bandwidth: Float[Array, ""], z: Float[Array, " z"]
) -> Float[Array, " function"]:
    bumps = jnp.exp(-jnp.sum((landmarks - z) ** 2, axis=-1) / (2 * bandwidth**2))
    return jnp.concatenate([z, bumps])
