"""Joint eigenfunctions as products of single-agent ones: the Kronecker baseline (paper, Section 4).

For agents that walk independently, the joint transition operator is the Kronecker product of single-agent ones: its
eigenfunctions are products over the agents, and their eigenvalues 1 - lambda multiply.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from cooptions.errors import require
from cooptions.laplacian.allo import Allo
from cooptions.laplacian.base import AbstractLaplacian, Pairs
from cooptions.laplacian.exact import Exact
from cooptions.laplacian.nystrom import Nystrom
from cooptions.training import Metrics


@dataclass(frozen=True)
class Kronecker(AbstractLaplacian[Any]):
    """Products of single-agent eigenfunctions, on raw joint z: the agents' states, one after the other.

    `single` is fitted on the transitions of all agents, pooled; its state is the state.
    """

    num_eigenfunctions: int = 10
    single: Allo | Nystrom | Exact = field(default_factory=Nystrom)
    num_agents: int = 1
    """Set by `for_team`."""

    def __post_init__(self) -> None:
        require(self.num_agents >= 1, f"num_agents must be at least 1, not {self.num_agents}")
        possible = (self.single.num_eigenfunctions + 1) ** self.num_agents - 1
        require(
            1 <= self.num_eigenfunctions <= possible or self.num_agents == 1,
            f"num_eigenfunctions must be 1 to {possible} (all products), not {self.num_eigenfunctions}",
        )

    def for_team(self, num_agents: int) -> "Kronecker":
        return replace(self, num_agents=num_agents)

    @property
    def num_steps(self) -> int:
        return self.single.num_steps

    def init(self, data: Pairs, *, key: PRNGKeyArray) -> Any:
        return self.single.init(self._pooled(data), key=key)

    def step(self, state: Any, data: Pairs, *, key: PRNGKeyArray) -> tuple[Any, Metrics]:
        return self.single.step(state, self._pooled(data), key=key)

    def eigenfunctions(self, state: Any, z: Float[Array, " z"]) -> Float[Array, " k"]:
        single = self.single_eigenfunctions(state, z)
        with_constant = jnp.concatenate([jnp.ones((self.num_agents, 1)), single], axis=1)
        factors, _ = self._products(state)
        return jnp.prod(with_constant[jnp.arange(self.num_agents), factors], axis=-1)

    def single_eigenfunctions(self, state: Any, z: Float[Array, " z"]) -> Float[Array, "agent single"]:
        """The factors: each agent's own eigenfunctions."""
        return jax.vmap(lambda agent_z: self.single.eigenfunctions(state, agent_z))(z.reshape(self.num_agents, -1))

    def _pooled(self, data: Pairs) -> Pairs:
        width = data.z.shape[-1] // self.num_agents
        return jax.tree.map(lambda z: z.reshape(-1, width), data)

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
