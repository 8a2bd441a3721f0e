"""A gated recurrent unit over a sequence, and its gradient.

`lax.scan` runs on every device. On a GPU, each step of the scan would launch several small kernels, so one kernel runs
the whole sequence instead (`cooptions.training.recurrence_kernel`). Tests compare that kernel with the scan.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from cooptions.training import recurrence_kernel


class Gates(eqx.Module):
    """The intermediate values of one step that its gradient needs. Stored in the precision of the inputs."""

    before: Float[Array, "*batch hidden"]
    """The hidden state before the step; 0 where an episode begins."""
    reset: Float[Array, "*batch hidden"]
    update: Float[Array, "*batch hidden"]
    new: Float[Array, "*batch hidden"]
    kept: Float[Array, "*batch hidden"]
    """The contribution of the hidden state to the new content, before the reset gate scales it."""

    @property
    def after(self) -> Float[Array, "*batch hidden"]:
        """The hidden state after the step."""
        return (1 - self.update) * self.new + self.update * self.before


def gates(
    weight: Float[Array, "hidden gates"],
    biases: Float[Array, "4 hidden"],
    hidden: Float[Array, "*batch hidden"],
    inputs: Float[Array, "*batch gates"],
    first: Bool[Array, "*batch"],
) -> Gates:
    """One step of the unit.

    `inputs` are the products of the observations with the input weights. `biases` has four rows: the reset gate, the
    update gate, the new content, and the part of the new content that the reset gate scales.
    """
    before = jnp.where(first[..., None], 0.0, hidden)
    product = before.astype(inputs.dtype) @ weight.astype(inputs.dtype)
    reset_x, update_x, new_x = jnp.split(inputs.astype(jnp.float32), 3, axis=-1)
    reset_h, update_h, new_h = jnp.split(product.astype(jnp.float32), 3, axis=-1)
    reset = jax.nn.sigmoid(reset_x + biases[0] + reset_h)
    update = jax.nn.sigmoid(update_x + biases[1] + update_h)
    kept = new_h + biases[3]
    return Gates(before, reset, update, jnp.tanh(new_x + biases[2] + reset * kept), kept)


@jax.custom_vjp
def recur(
    weight: Float[Array, "hidden gates"],
    biases: Float[Array, "4 hidden"],
    hidden: Float[Array, "*batch hidden"],
    inputs: Float[Array, "time *batch gates"],
    first: Bool[Array, "time *batch"],
) -> Float[Array, "time *batch hidden"]:
    """The hidden state after each step. The arguments are those of `gates`, with a leading time axis."""
    if _fused(weight, inputs):
        return recurrence_kernel.forward(weight, biases, hidden, inputs, first)

    def step(hidden: Array, seen: tuple[Array, Array]) -> tuple[Array, Array]:
        after = gates(weight, biases, hidden, *seen).after
        return after, after

    return _scan(step, hidden, (inputs, first))[1]


def _forward(weight: Array, biases: Array, hidden: Array, inputs: Array, first: Array) -> tuple[Array, Any]:
    if _fused(weight, inputs):
        outputs, *kept = recurrence_kernel.forward_keeping(weight, biases, hidden, inputs, first)
        return outputs, (weight, Gates(*kept), first)

    def step(hidden: Array, seen: tuple[Array, Array]) -> tuple[Array, tuple[Array, Gates]]:
        now = gates(weight, biases, hidden, *seen)
        return now.after, (now.after, jax.tree.map(lambda gate: gate.astype(inputs.dtype), now))

    _, (outputs, kept) = _scan(step, hidden, (inputs, first))
    return outputs, (weight, kept, first)


def _backward(kept: tuple[Array, Gates, Array], gradient: Array) -> tuple[Array, Array, Array, Array, None]:
    """Back-propagate through the steps, then compute the weights' gradient as one product over all steps."""
    weight, now, first = kept
    arguments = weight.astype(now.new.dtype), now, first, gradient
    run = recurrence_kernel.backward if _fused(weight, gradient) else _steps_back
    of_hidden, of_inputs, of_kept, of_biases = run(*arguments)
    rows = list(range(gradient.ndim - 1))
    product = partial(jnp.tensordot, now.before, axes=(rows, rows), preferred_element_type=jnp.float32)
    size = gradient.shape[-1]
    of_weight = jnp.concatenate([product(of_inputs)[:, : 2 * size], product(of_kept)], axis=1)
    return of_weight, of_biases, of_hidden, of_inputs, None


def _steps_back(
    weight: Float[Array, "hidden gates"],
    now: Gates,
    first: Bool[Array, "time *batch"],
    gradient: Float[Array, "time *batch hidden"],
) -> tuple[Array, Array, Array, Array]:
    """The gradients with respect to the first hidden state, the inputs, `Gates.kept` and the biases."""
    precision = now.new.dtype

    def step(following: Array, seen: tuple[Array, Gates, Array]) -> tuple[Array, tuple[Array, Array]]:
        gradient, now, first = seen
        now = jax.tree.map(lambda gate: gate.astype(jnp.float32), now)
        total = gradient + following
        of_new = total * (1 - now.update) * (1 - now.new**2)
        of_update = total * (now.before - now.new) * now.update * (1 - now.update)
        of_reset = of_new * now.kept * now.reset * (1 - now.reset)
        of_kept = (of_new * now.reset).astype(precision)
        of_inputs = jnp.concatenate([of_reset, of_update, of_new], axis=-1).astype(precision)
        of_gates = jnp.concatenate([of_inputs[..., : 2 * of_new.shape[-1]], of_kept], axis=-1)
        of_before = total * now.update + (of_gates @ weight.T).astype(jnp.float32)
        return jnp.where(first[..., None], 0.0, of_before), (of_inputs, of_kept)

    begin = jnp.zeros_like(gradient[0])
    of_hidden, (of_inputs, of_kept) = _scan(step, begin, (gradient, now, first), reverse=True)
    rows = tuple(range(gradient.ndim - 1))
    parts = *jnp.split(of_inputs, 3, axis=-1), of_kept
    of_biases = jnp.stack([part.astype(jnp.float32).sum(axis=rows) for part in parts])
    return of_hidden, of_inputs, of_kept, of_biases


recur.defvjp(_forward, _backward)


def _fused(weight: Float[Array, "hidden gates"], sequence: Float[Array, "time *batch _"]) -> bool:
    """Whether the fused kernel runs the sequence. A single step, as in acting, gains nothing from it."""
    return sequence.shape[0] > 1 and recurrence_kernel.runs(weight.shape[0])


def _scan(step: Callable, carry: Array, inputs: Any, *, reverse: bool = False) -> tuple[Array, Any]:
    """`lax.scan`, unrolled for short sequences on a GPU, where launching a step costs more than its arithmetic."""
    unroll = jax.default_backend() == "gpu" and jax.tree.leaves(inputs)[0].shape[0] <= 32
    return jax.lax.scan(step, carry, inputs, reverse=reverse, unroll=unroll)
