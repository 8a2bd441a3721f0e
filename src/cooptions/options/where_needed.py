"""Functions that are costly and rarely needed: of a batch, they are worked out only where they are."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Shaped

CHUNK = 16
"""Entries of a batch that are worked out at a time."""


def where_needed(
    function: Callable[..., Shaped[Array, "*shape"]], shared: Any, needed: Bool[Array, ""], *each: Any
) -> Shaped[Array, "*shape"]:
    """`function(shared, *each)` where it is needed, else zeros.

    To `vmap` a condition is to work out both of its sides for all. Here those that need the function come first, a few
    at a time, until none is left; the others cost nothing. That is for entries of one batch that have `shared` in
    common; what has one of its own, such as seeds around them, goes on as long as any of it needs to. Not on a GPU:
    whoever asks it whether any is left waits for the answer, longer than it takes to work out all.
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
        """Batches of batches are one long batch, such as the agents of many environments."""
        if any(jax.tree.leaves(batched[0])):
            axes = jax.tree.map(lambda has_axis: 0 if has_axis else None, tuple(batched))
            return jax.vmap(answers.fun, axes, axis_size=size)(shared, needed, each), True
        all_of_them = _with_axis(size, batched[1:], (needed, each))
        merged = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), all_of_them)
        found = answers(shared, *merged)
        return found.reshape(size, -1, *found.shape[1:]), True

    return answer(shared, needed, each)


def _with_axis(size: int, batched: Any, tree: Any) -> Any:
    """Arrays with the axis of a batch in front, also those that are the same for all of it."""
    return jax.tree.map(
        lambda leaf, has_axis: leaf if has_axis else jnp.broadcast_to(leaf, (size, *leaf.shape)), tree, tuple(batched)
    )


def _where(needed: Bool[Array, ""], answer: Shaped[Array, "*shape"]) -> Shaped[Array, "*shape"]:
    return jnp.where(needed, answer, jnp.zeros_like(answer))


def _in_chunks(
    function: Callable[..., Shaped[Array, "some *shape"]], needed: Bool[Array, " entry"], each: tuple[Any, ...]
) -> Shaped[Array, "entry *shape"]:
    """The answers of a batched function for the entries that need one, zeros for the others."""
    place = jnp.cumsum(needed) - 1  # among those that need it
    like = jax.eval_shape(function, *each)

    def go_on(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        begin, answers = carry
        slots = needed & (place == begin + jnp.arange(CHUNK)[:, None])  # [slot, entry]
        chosen = jnp.argmax(slots, axis=1)  # an empty slot works out the first entry, and nobody looks at that
        some = function(*jax.tree.map(lambda leaf: leaf[chosen], each))
        found = slots.any(axis=0).reshape(-1, *[1] * (some.ndim - 1))
        return begin + CHUNK, jnp.where(found, some[jnp.clip(place - begin, 0, CHUNK - 1)], answers)

    begin = jnp.int32(0), jnp.zeros(like.shape, like.dtype)
    return jax.lax.while_loop(lambda carry: carry[0] <= place[-1], go_on, begin)[1]
