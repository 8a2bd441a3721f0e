"""The Kronecker baseline: joint eigenfunctions as products of single-agent ones (paper, Section 4).

If agents walk independently, the joint transition operator is the Kronecker product of the single-agent operators. Its
eigenfunctions are products over the agents, and the operator's eigenvalues 1 - lambda multiply.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from cooptions.discovery.laplacian.allo import Allo
from cooptions.discovery.laplacian.base import LAPLACIANS, AbstractLaplacian, Pairs
from cooptions.discovery.laplacian.exact import Exact
from cooptions.discovery.laplacian.nystrom import Nystrom
from cooptions.envs.team import Team
from cooptions.errors import MOST_FUNCTIONS, require, require_whole
from cooptions.training.loop import Metrics

States = tuple[Any, ...]
"""The state of the single-agent estimator for each type of agent."""


class Products(eqx.Module):
    """The single-agent solution of each type, and for each product the index of every agent's factor (0: constant)."""

    single: tuple[Any, ...]
    factors: Int[Array, "k agent"]
    eigenvalues: Float[Array, " k"]


@LAPLACIANS.register("kronecker")
@dataclass(frozen=True)
class Kronecker(AbstractLaplacian[States, Products]):
    """The paper's Kronecker baseline: products of single-agent eigenfunctions, on raw joint states.

    `single` is fitted once for each type of agent, on the pooled transitions of all agents of that type.

        found = co.discover(walk, co.RawJoint(), co.Kronecker(4), key=key)
    """

    num_eigenfunctions: int = 10
    single: Allo | Nystrom | Exact = field(default_factory=Nystrom)
    agent_types: tuple[int, ...] = field(default=(0,), metadata={"set_by": "for_team"})
    """The type of each agent. Set by `for_team`."""
    widths: tuple[int, ...] = field(default=(), metadata={"set_by": "for_team"})
    """The number of components of z per agent of each type. Set by `for_team`."""

    def __post_init__(self) -> None:
        require_whole("num_eigenfunctions", self.num_eigenfunctions, at_most=MOST_FUNCTIONS)
        possible = (self.single.num_eigenfunctions + 1) ** len(self.agent_types) - 1
        require(
            self.num_eigenfunctions >= 1 and (self.num_eigenfunctions <= possible or not self.widths),
            f"num_eigenfunctions must be 1 to {possible} (all products), not {self.num_eigenfunctions}",
        )

    def for_team(self, team: Team, num_z: int) -> "Kronecker":
        kinds = list(dict.fromkeys(team.agent_types))  # a part of a team may have agents of some types only
        widths = tuple(int(width) for width in team.type_has_input[kinds].sum(axis=1))
        types = tuple(kinds.index(kind) for kind in team.agent_types)
        total = sum(widths[kind] for kind in types)
        require(
            num_z == total,
            f"laplacian: kronecker needs the states of all agents, {total} numbers, not {num_z}: "
            "choose --representation raw_joint",
        )
        return replace(self, agent_types=types, widths=widths)

    @property
    def num_steps(self) -> int:
        return self.single.num_steps

    def init(self, data: Pairs, *, key: PRNGKeyArray) -> States:
        keys = jax.random.split(key, len(self.widths))
        return tuple(self.single.init(self._pooled(data, kind), key=k) for kind, k in enumerate(keys))

    def step(self, state: States, data: Pairs, *, key: PRNGKeyArray) -> tuple[States, Metrics]:
        keys = jax.random.split(key, len(self.widths))
        steps = [
            self.single.step(one, self._pooled(data, kind), key=k)
            for kind, (one, k) in enumerate(zip(state, keys, strict=True))
        ]
        states, metrics = zip(*steps, strict=True)
        return states, jax.tree.map(lambda *values: sum(values) / len(values), *metrics)

    def solution(self, state: States) -> Products:
        single = tuple(self.single.solution(one) for one in state)
        # Learned eigenvalues can be slightly negative; only the constant's is exactly 0. 1 - lambda below 0 is noise.
        learned = jnp.stack([self.single.eigenvalues(one) for one in single])
        decay = jnp.pad(1 - jnp.clip(learned, 1e-6, 1.0), ((0, 0), (1, 0)), constant_values=1.0)
        factors, products = largest_products(decay[np.array(self.agent_types)], self.num_eigenfunctions + 1)
        return Products(single, factors[1:], 1 - products[1:])  # the first is the product of constants

    def eigenfunctions(self, solution: Products, z: Float[Array, " z"]) -> Float[Array, " k"]:
        single = self.single_eigenfunctions(solution, z)
        with_constant = jnp.pad(single, ((0, 0), (1, 0)), constant_values=1.0)
        return jnp.prod(with_constant[jnp.arange(len(single)), solution.factors], axis=-1)

    def eigenvalues(self, solution: Products) -> Float[Array, " k"]:
        return solution.eigenvalues

    def single_eigenfunctions(self, solution: Products, z: Float[Array, " z"]) -> Float[Array, "agent single"]:
        """The single-agent eigenfunctions of each agent, which are the factors of the products."""
        rows = [
            self.single.eigenfunctions(solution.single[kind], z[columns])
            for kind, columns in zip(self.agent_types, self._columns(), strict=True)
        ]
        return jnp.stack(rows)

    def _columns(self) -> list[slice]:
        """The slice of z for each agent's state."""
        ends = np.cumsum([self.widths[kind] for kind in self.agent_types]).tolist()
        return [slice(end - self.widths[kind], end) for kind, end in zip(self.agent_types, ends, strict=True)]

    def _pooled(self, data: Pairs, kind: int) -> Pairs:
        """The transitions of all agents of one type."""
        columns = [part for each, part in zip(self.agent_types, self._columns(), strict=True) if each == kind]
        return jax.tree.map(lambda z: jnp.concatenate([z[..., part] for part in columns], axis=-2), data)


def largest_products(
    values: Float[Array, "factor value"], num: int
) -> tuple[Int[Array, "num factor"], Float[Array, " num"]]:
    """The `num` largest products of one value per factor, as indices and products, in descending order.

    Values are not negative, so every prefix of a largest product is itself among the largest. Factors are therefore
    added one at a time, and only the best are kept. Ties are broken by the lower index.
    """
    indices, products = jnp.zeros((1, 0), jnp.int32), jnp.ones(1)
    for row in values:
        extended = (products[:, None] * row).ravel()
        products, flat = jax.lax.top_k(extended, min(num, extended.size))
        indices = jnp.concatenate([indices[flat // row.size], (flat % row.size)[:, None]], axis=1)
    return indices, products
