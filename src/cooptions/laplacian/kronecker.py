"""Joint eigenfunctions as products of single-agent ones: the Kronecker baseline (paper, Section 4).

For agents that walk independently, the joint transition operator is the Kronecker product of single-agent ones: its
eigenfunctions are products over the agents, and their eigenvalues 1 - lambda multiply.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from cooptions.errors import require
from cooptions.laplacian.base import AbstractLaplacian, Pairs
from cooptions.training import Metrics


@dataclass(frozen=True)
class Kronecker:
    """Fitted, like the `single` it wraps, on transitions of single agents, all pooled; its state is that of `single`.

    Not an AbstractLaplacian: its eigenfunctions take the states of all agents.
    """

    single: AbstractLaplacian[Any]
    num_agents: int
    num_eigenfunctions: int = 10

    def __post_init__(self) -> None:
        require(self.num_agents >= 1, f"num_agents must be at least 1, not {self.num_agents}")
        possible = (self.single.num_eigenfunctions + 1) ** self.num_agents - 1
        require(
            1 <= self.num_eigenfunctions <= possible,
            f"num_eigenfunctions must be 1 to {possible} (all products), not {self.num_eigenfunctions}",
        )

    @property
    def num_steps(self) -> int:
        return self.single.num_steps

    def init(self, data: Pairs, *, key: PRNGKeyArray) -> Any:
        return self.single.init(data, key=key)

    def step(self, state: Any, data: Pairs, *, key: PRNGKeyArray) -> tuple[Any, Metrics]:
        return self.single.step(state, data, key=key)

    def eigenfunctions(self, state: Any, agent_z: Float[Array, "agent z"]) -> Float[Array, " k"]:
        single = jax.vmap(lambda z: self.single.eigenfunctions(state, z))(agent_z)
        with_constant = jnp.concatenate([jnp.ones((self.num_agents, 1)), single], axis=1)
        factors, _ = self._products(state)
        return jnp.prod(with_constant[jnp.arange(self.num_agents), factors], axis=-1)

    def eigenvalues(self, state: Any) -> Float[Array, " k"]:
        return 1 - self._products(state)[1]

    def _products(self, state: Any) -> tuple[Int[Array, "k agent"], Float[Array, " k"]]:
        # A learned eigenvalue may come out below 0; only the constant's is exactly 0, and 1 - lambda below 0 is noise.
        decay = 1 - jnp.clip(self.single.eigenvalues(state), 1e-6, 1.0)
        factors, products = largest_products(
            jnp.concatenate([jnp.ones(1), decay]), self.num_agents, self.num_eigenfunctions + 1
        )
        return factors[1:], products[1:]  # the first is the product of constants


def largest_products(
    values: Float[Array, " value"], num_factors: int, num: int
) -> tuple[Int[Array, "num factor"], Float[Array, " num"]]:
    """The `num` largest products of one value for each factor, as indices and products, in descending order.

    Values are not negative, so what a long product leaves out of its last factor is itself among the largest: factors
    are added one at a time and only the best are kept. Among equals the lower index is first.
    """
    indices, products = jnp.zeros((1, 0), jnp.int32), jnp.ones(1)
    for _ in range(num_factors):
        extended = (products[:, None] * values).ravel()
        products, flat = jax.lax.top_k(extended, min(num, extended.size))
        indices = jnp.concatenate([indices[flat // values.size], (flat % values.size)[:, None]], axis=1)
    return indices, products
