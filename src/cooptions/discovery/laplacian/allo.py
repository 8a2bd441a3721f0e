"""ALLO: eigenfunctions by an augmented Lagrangian, as used in the paper (Section 4; appendix on ALLO training).

Gomez, Bowling and Machado (2024), "Proper Laplacian representation learning".
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from cooptions.discovery.laplacian.base import LAPLACIANS, AbstractLaplacian, Pairs
from cooptions.errors import LARGEST_BATCH, MOST_FUNCTIONS, require_number, require_whole, require_widths
from cooptions.training.loop import Metrics
from cooptions.training.nn import MLP


class State(eqx.Module):
    """The training state. Function 0 converges to the constant. Duals and barrier are not updated by Adam."""

    network: MLP
    optimiser: optax.OptState
    duals: Float[Array, "function function"]
    """Lower triangular. Entry (i, i) converges to -2 times eigenvalue i."""
    barrier: Float[Array, ""]
    violation: Float[Array, ""]
    """The running mean over steps of the mean squared constraint error."""


class Solution(eqx.Module):
    """The network, with its outputs in ascending order of eigenvalue in `order`, without the constant function 0."""

    network: MLP
    order: Int[Array, " k"]
    eigenvalues: Float[Array, " k"]


class Errors(eqx.Module):
    """<u_i, sg(u_j)> - [i = j] for j <= i, each from one of two independent batches."""

    first: Float[Array, "function function"]
    second: Float[Array, "function function"]

    @property
    def mean(self) -> Float[Array, "function function"]:
        return (self.first + self.second) / 2

    @property
    def square(self) -> Float[Array, "function function"]:
        """An unbiased estimate of the square of the expected error; the square of one batch's error is biased."""
        return self.first * self.second


@LAPLACIANS.register("allo")
@dataclass(frozen=True)
class Allo(AbstractLaplacian[State, Solution]):
    """The paper's estimator: a network trained by the augmented Lagrangian Laplacian objective (ALLO).

    Graph drawing under orthonormality constraints. Stopped gradients make the proper eigenfunctions the only optimum.

        found = co.discover(walk, co.Hit(), co.Allo(4, steps=5_000), key=key)
    """

    num_eigenfunctions: int = 10
    hidden: tuple[int, ...] = (256, 256)
    steps: int = 20_000
    batch_size: int = 1024
    """The number of transitions in each of a step's two independent batches."""
    learning_rate: float = 1e-3
    dual_rate: float = 1e-3
    """The step size of dual ascent, before it is multiplied by the barrier. With that factor, duals settle after
    2 / dual_rate steps at any barrier."""
    barrier: float = 2.0
    """The initial barrier coefficient (the paper's value)."""
    barrier_rate: float = 0.01
    """The barrier coefficient grows by this times the mean squared violation per step. With the original's 1.0, the
    errors of the first steps raise it to 15, and it then dominates the drawing objective."""

    def __post_init__(self) -> None:
        require_whole("num_eigenfunctions", self.num_eigenfunctions, at_most=MOST_FUNCTIONS)
        require_whole("steps", self.steps)
        require_whole("batch_size", self.batch_size, at_most=LARGEST_BATCH)
        for name in ("learning_rate", "dual_rate", "barrier"):
            require_number(name, getattr(self, name), above=0)
        require_number("barrier_rate", self.barrier_rate, at_least=0)
        require_widths("hidden", self.hidden)

    @property
    def num_steps(self) -> int:
        return self.steps

    @property
    def _adam(self) -> optax.GradientTransformation:
        return optax.adam(optax.cosine_decay_schedule(self.learning_rate, self.steps, alpha=0.01))

    def init(self, data: Pairs, *, key: PRNGKeyArray) -> State:
        num_functions = self.num_eigenfunctions + 1
        network = MLP((data.z.shape[-1], *self.hidden, num_functions), key=key)
        duals = jnp.zeros((num_functions, num_functions))
        return State(
            network,
            self._adam.init(eqx.filter(network, eqx.is_array)),
            duals,
            jnp.float32(self.barrier),
            jnp.float32(0.0),
        )

    def step(self, state: State, data: Pairs, *, key: PRNGKeyArray) -> tuple[State, Metrics]:
        index = jax.random.randint(key, (2, self.batch_size), 0, data.z.shape[0])
        batches = Pairs(data.z[index], data.next_z[index])
        (loss, (drawing, errors)), gradient = jax.value_and_grad(lagrangian, has_aux=True)(
            state.network, state.duals, state.barrier, batches
        )
        updates, optimiser = self._adam.update(gradient, state.optimiser)
        network = eqx.apply_updates(state.network, updates)
        duals = state.duals + self.dual_rate * state.barrier * errors.mean
        violation = 0.9 * state.violation + 0.1 * jnp.mean(errors.square)
        barrier = state.barrier + self.barrier_rate * jnp.maximum(violation, 0.0)
        metrics = {"loss": loss, "drawing": drawing, "violation": violation, "barrier": barrier}
        return State(network, optimiser, duals, barrier, violation), metrics

    def solution(self, state: State) -> Solution:
        eigenvalues = -jnp.diagonal(state.duals) / 2
        order = 1 + jnp.argsort(eigenvalues[1:])
        return Solution(state.network, order, eigenvalues[order])

    def eigenfunctions(self, solution: Solution, z: Float[Array, " z"]) -> Float[Array, " k"]:
        return solution.network(z)[solution.order]

    def eigenvalues(self, solution: Solution) -> Float[Array, " k"]:
        return solution.eigenvalues


def lagrangian(
    network: MLP, duals: Float[Array, "function function"], barrier: Float[Array, ""], batches: Pairs
) -> tuple[Float[Array, ""], tuple[Float[Array, ""], Errors]]:
    """The loss: drawing + duals . errors + barrier * |errors|^2, from two independent batches of transitions."""
    ends = jax.vmap(network)(jnp.stack([batches.z, batches.next_z], axis=1))
    drawing = 0.5 * jnp.mean(jnp.sum((ends[:, 1] - ends[:, 0]) ** 2, axis=-1))
    errors = Errors(*(constraint_errors(values.reshape(-1, values.shape[-1])) for values in ends))
    loss = drawing + jnp.sum(duals * errors.mean) + barrier * jnp.sum(errors.square)
    return loss, (drawing, errors)


def constraint_errors(values: Float[Array, "sample function"]) -> Float[Array, "function function"]:
    """The constraint errors of one batch. Row i has gradients for function i only, not for the slower ones."""
    products = values.T @ jax.lax.stop_gradient(values) / values.shape[0]
    return jnp.tril(products - jnp.eye(values.shape[1]))
