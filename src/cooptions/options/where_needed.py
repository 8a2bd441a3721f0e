"""Evaluate an expensive function only for those entries of a batch that need it."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Shaped

CHUNK = 16
"""The number of batch entries that are evaluated at a time."""


def where_needed(
    function: Callable[..., Shaped[Array, "*shape"]], shared: Any, needed: Bool[Array, ""], *each: Any
) -> Shaped[Array, "*shape"]:
    """`function(shared, *each)` if `needed` is true, else zeros. Under `vmap`, other entries cost nothing.

    A vmapped `lax.cond` evaluates both branches for all entries. This function instead loops over the entries that need
    the result, `CHUNK` at a time. The loop covers one batch axis whose entries have the same `shared`. Under an outer
    `vmap` with different `shared`, for example over seeds, the loop runs until no member needs more. On a GPU all
    entries are evaluated, because checking the loop's condition takes longer than that.
    """
    if jax.default_backend() == "gpu":
        return _where(needed, function(shared, *each))

    @jax.custom_batching.custom_vmap
    def answer(shared: Any, needed: Bool[Array, ""], each: tuple[Any, ...]) -> Array:
        return _where(needed, function(shared, *each))

    @answer.def_vmap
    def answer_batch(size: int, batched: Any, shared: Any, needed: Array, each: tuple[Any, ...]) -> tuple[Array, bool]:
        if any(jax.tree.leaves(batched[0])):
            axes = jax.tree.map(lambda has_axis: 0 if has_axis else None, tuple(batched))
            return jax.vmap(answer.fun, axes, axis_size=size)(shared, needed, each), True
        return answers(shared, *_with_axis(size, batched[1:], (needed, each))), True

    @jax.custom_batching.custom_vmap
    def answers(shared: Any, needed: Bool[Array, " entry"], each: tuple[Any, ...]) -> Array:
        return _in_chunks(jax.vmap(lambda *each: function(shared, *each)), needed, each)

    @answers.def_vmap
    def answers_batch(size: int, batched: Any, shared: Any, needed: Array, each: tuple[Any, ...]) -> tuple[Array, bool]:
        """Merge two batch axes into one, for example those of environments and agents."""
        if any(jax.tree.leaves(batched[0])):
            axes = jax.tree.map(lambda has_axis: 0 if has_axis else None, tuple(batched))
            return jax.vmap(answers.fun, axes, axis_size=size)(shared, needed, each), True
        all_of_them = _with_axis(size, batched[1:], (needed, each))
        merged = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), all_of_them)
        found = answers(shared, *merged)
        return found.reshape(size, -1, *found.shape[1:]), True

    return answer(shared, needed, each)


def _with_axis(size: int, batched: Any, tree: Any) -> Any:
    """Arrays with a leading batch axis. Arrays without one are broadcast."""
    return jax.tree.map(
        lambda leaf, has_axis: leaf if has_axis else jnp.broadcast_to(leaf, (size, *leaf.shape)), tree, tuple(batched)
    )


def _where(needed: Bool[Array, ""], answer: Shaped[Array, "*shape"]) -> Shaped[Array, "*shape"]:
    return jnp.where(needed, answer, jnp.zeros_like(answer))


def _in_chunks(
    function: Callable[..., Shaped[Array, "some *shape"]], needed: Bool[Array, " entry"], each: tuple[Any, ...]
) -> Shaped[Array, "entry *shape"]:
    """The results of a batched function for the entries that need one, zeros for the others."""
    place = jnp.cumsum(needed) - 1  # index among the entries that need it
    like = jax.eval_shape(function, *each)

    def go_on(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        begin, answers = carry
        slots = needed & (place == begin + jnp.arange(CHUNK)[:, None])  # [slot, entry]
        chosen = jnp.argmax(slots, axis=1)  # an empty slot evaluates entry 0, which is discarded
        some = function(*jax.tree.map(lambda leaf: leaf[chosen], each))
        found = slots.any(axis=0).reshape(-1, *[1] * (some.ndim - 1))
        return begin + CHUNK, jnp.where(found, some[jnp.clip(place - begin, 0, CHUNK - 1)], answers)

    begin = jnp.int32(0), jnp.zeros(like.shape, like.dtype)
    return jax.lax.while_loop(lambda carry: carry[0] <= place[-1], go_on, begin)[1]
