"""A GPU kernel for a whole sequence of a gated recurrent unit, and one for its gradient, in Pallas with Triton.

Each program instance runs a block of rows through all steps: the recurrent weights are read once, and the hidden state
stays in registers. The equations are in `cooptions.training.recurrence`.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jaxtyping import Array, Bool, Float

if TYPE_CHECKING:
    from cooptions.training.recurrence import Gates

ROWS, WARPS = 16, 8
"""Rows per block, and warps per block. These were the fastest on an H200 among 16 to 64 rows and 4 or 8 warps."""
LEAST, MOST = 16, 128
"""The range of hidden sizes that the kernel supports. Up to the maximum, a gate's weights fit into the shared memory of
a multiprocessor. The minimum is that of a matrix product on tensor cores."""
ROOMY = ("9", "10")
"""Major compute capabilities of the NVIDIA GPUs that have enough shared memory for the kernels."""
MOST_HELD = 100_000
"""Bytes of weights that may stay in shared memory through all steps. Larger weights are read again at every step."""
interpret = False
"""Interpret the kernels, which is slow but works on any device. For tests."""


def runs(size: int) -> bool:
    """Whether the kernels support a hidden state of this size on this device."""
    fits = LEAST <= size <= MOST and size & (size - 1) == 0
    return fits and (interpret or _capability().partition(".")[0] in ROOMY)


def _capability() -> str:
    """The compute capability of an NVIDIA GPU, for example "9.0"; empty on other devices."""
    return str(getattr(jax.devices()[0], "compute_capability", ""))


def forward(
    weight: Float[Array, "hidden gates"],
    biases: Float[Array, "4 hidden"],
    hidden: Float[Array, "*batch hidden"],
    inputs: Float[Array, "time *batch gates"],
    first: Bool[Array, "time *batch"],
) -> Float[Array, "time *batch hidden"]:
    """The hidden state after each step."""
    return _forward(weight, biases, hidden, inputs, first, num_kept=0)[0]


def forward_keeping(
    weight: Float[Array, "hidden gates"],
    biases: Float[Array, "4 hidden"],
    hidden: Float[Array, "*batch hidden"],
    inputs: Float[Array, "time *batch gates"],
    first: Bool[Array, "time *batch"],
) -> list[Float[Array, "time *batch hidden"]]:
    """The hidden state after each step, and the five arrays of `Gates`."""
    return _forward(weight, biases, hidden, inputs, first, num_kept=5)


def _forward(weight: Array, biases: Array, hidden: Array, inputs: Array, first: Array, *, num_kept: int) -> list[Array]:
    length, size, precision = inputs.shape[0], weight.shape[0], inputs.dtype
    rows = [_rows(hidden, 0), _rows(inputs, 1), _flags(first)]
    kinds = [jnp.float32, *(precision,) * num_kept]
    shape = (length, rows[0].shape[0], size)
    blocks = [_blocks(each.shape, axis) for each, axis in zip(rows, (0, 1, 1), strict=True)]
    found = pl.pallas_call(
        _forward_kernel,
        grid=(shape[1] // ROWS,),
        in_specs=[_whole(weight), _whole(biases), *blocks],
        out_specs=[_blocks(shape, 1) for _ in kinds],
        out_shape=[jax.ShapeDtypeStruct(shape, kind) for kind in kinds],
        **_how(),
    )(weight.astype(precision), biases, *rows)
    return [_batch(each, hidden.shape[:-1], 1) for each in found]


def _forward_kernel(weight: Any, biases: Any, hidden: Any, inputs: Any, first: Any, outputs: Any, *kept: Any) -> None:
    size, length, precision = biases.shape[1], inputs.shape[0], inputs.dtype
    parts = [pl.ds(gate * size, size) for gate in range(3)]
    weights = _reader(weight, [(slice(None), part) for part in parts])
    bias = [biases[number, :][None] for number in range(4)]

    def seen_at(time: Any) -> tuple[Array, ...]:
        return (first[time, :], *(inputs[time, :, part] for part in parts))

    def step(time: Any, carry: tuple[Array, tuple[Array, ...]]) -> tuple[Array, tuple[Array, ...]]:
        before, (begins, *seen) = carry
        following = seen_at(jnp.minimum(time + 1, length - 1))  # loaded while this step is computed
        before = jnp.where(begins[:, None] != 0, 0.0, before)
        seen = [each.astype(jnp.float32) for each in seen]
        rounded = before.astype(precision)
        felt = [jnp.dot(rounded, weights(gate), preferred_element_type=jnp.float32) for gate in range(3)]
        reset = jax.nn.sigmoid(seen[0] + bias[0] + felt[0])
        update = jax.nn.sigmoid(seen[1] + bias[1] + felt[1])
        from_before = felt[2] + bias[3]
        new = 2 * jax.nn.sigmoid(2 * (seen[2] + bias[2] + reset * from_before)) - 1  # tanh, in fewer instructions
        after = (1 - update) * new + update * before
        outputs[time, :, :] = after
        for place, value in zip(kept, (before, reset, update, new, from_before), strict=False):
            place[time, :, :] = value.astype(precision)
        return after, following

    jax.lax.fori_loop(0, length, step, (hidden[:, :], seen_at(0)))


def _reader(weight: Any, parts: Sequence[Any]) -> Callable[[int], Array]:
    """A function that returns a part of the weights by number.

    The weights are read once if they fit into shared memory, otherwise at every call.
    """
    if weight.shape[0] * weight.shape[1] * weight.dtype.itemsize > MOST_HELD:
        return lambda number: weight[parts[number]]
    held = [weight[part] for part in parts]
    return lambda number: held[number]


def backward(
    weight: Float[Array, "hidden gates"],
    now: "Gates",
    first: Bool[Array, "time *batch"],
    gradient: Float[Array, "time *batch hidden"],
) -> tuple[Array, Array, Array, Array]:
    """The gradients that `cooptions.training.recurrence._steps_back` computes with a scan."""
    batch, precision = gradient.shape[1:-1], now.new.dtype
    rows = [_flags(first), *(_rows(each, 1) for each in (gradient, *jax.tree.leaves(now)))]
    length, num_rows, size = rows[1].shape
    num_blocks = num_rows // ROWS
    shapes = {
        (num_rows, size): (jnp.float32, 0),
        (length, num_rows, 3 * size): (precision, 1),
        (length, num_rows, size): (precision, 1),
    }
    found = pl.pallas_call(
        _backward_kernel,
        grid=(num_blocks,),
        in_specs=[_whole(weight.T), *(_blocks(each.shape, 1) for each in rows)],
        out_specs=[
            *(_blocks(shape, axis) for shape, (_, axis) in shapes.items()),
            pl.BlockSpec((None, 4, size), lambda block: (block, 0, 0)),
        ],
        out_shape=[
            *(jax.ShapeDtypeStruct(shape, kind) for shape, (kind, _) in shapes.items()),
            jax.ShapeDtypeStruct((num_blocks, 4, size), jnp.float32),
        ],
        **_how(),
    )(weight.T, *rows)
    of_hidden, of_inputs, of_kept, of_biases = found
    return _batch(of_hidden, batch, 0), _batch(of_inputs, batch, 1), _batch(of_kept, batch, 1), of_biases.sum(axis=0)


def _backward_kernel(weight: Any, first: Any, gradient: Any, *refs: Any) -> None:
    """The kernel of `backward`. `weight` is transposed, as the gradient of the hidden state needs it."""
    gates, (of_hidden, of_inputs, of_kept, of_biases) = refs[:5], refs[5:]
    length, size, precision = gradient.shape[0], gradient.shape[2], gates[0].dtype
    parts = [pl.ds(gate * size, size) for gate in range(3)]
    weights = _reader(weight, [(part, slice(None)) for part in parts])

    def seen_at(time: Any) -> tuple[Array, ...]:
        return (first[time, :], gradient[time, :, :], *(gate[time, :, :] for gate in gates))

    def step(nth: Any, carry: tuple[Any, ...]) -> tuple[Any, ...]:
        following, sums, seen = carry
        time = length - 1 - nth
        earlier = seen_at(jnp.maximum(time - 1, 0))
        begins, slope, *now = seen
        before, reset, update, new, kept = (gate.astype(jnp.float32) for gate in now)
        total = slope + following
        new_part = total * (1 - update) * (1 - new * new)
        update_part = total * (before - new) * update * (1 - update)
        reset_part = new_part * kept * reset * (1 - reset)
        kept_part = new_part * reset
        for part, each in zip(parts, (reset_part, update_part, new_part), strict=True):
            of_inputs[time, :, part] = each.astype(precision)
        of_kept[time, :, :] = kept_part.astype(precision)
        back = total * update
        for number, each in enumerate((reset_part, update_part, kept_part)):
            back += jnp.dot(each.astype(precision), weights(number), preferred_element_type=jnp.float32)
        back = jnp.where(begins[:, None] != 0, 0.0, back)
        parts_seen = reset_part, update_part, new_part, kept_part
        return back, tuple(old + more for old, more in zip(sums, parts_seen, strict=True)), earlier

    zeros = jnp.zeros(gradient.shape[1:], jnp.float32)
    back, sums, _ = jax.lax.fori_loop(0, length, step, (zeros, (zeros,) * 4, seen_at(length - 1)))
    of_hidden[:, :] = back
    for number, each in enumerate(sums):
        of_biases[number, :] = each.sum(axis=0)


def _rows(array: Array, axis: int) -> Array:
    """Flatten the batch axes, from `axis` to the last but one, to one axis of rows, padded to whole blocks."""
    num = int(np.prod(array.shape[axis:-1]))
    rows = array.reshape(*array.shape[:axis], num, array.shape[-1])
    missing = -num % ROWS
    return jnp.pad(rows, [(0, 0)] * axis + [(0, missing), (0, 0)]) if missing else rows


def _flags(first: Bool[Array, "time *batch"]) -> Array:
    """`first` as int8, with its batch axes flattened like those of `_rows`."""
    return _rows(first.astype(jnp.int8)[..., None], 1)[..., 0]


def _batch(rows: Array, batch: Sequence[int], axis: int) -> Array:
    """Undo `_rows`: drop the padding and restore the batch axes."""
    kept = jax.lax.slice_in_dim(rows, 0, int(np.prod(batch)), axis=axis)
    return kept.reshape(*rows.shape[:axis], *batch, rows.shape[-1])


def _blocks(shape: tuple[int, ...], axis: int) -> pl.BlockSpec:
    """The block specification for an array whose rows, on `axis`, are split into blocks."""
    block = tuple(ROWS if number == axis else size for number, size in enumerate(shape))
    return pl.BlockSpec(block, lambda index: tuple(index if number == axis else 0 for number in range(len(shape))))


def _whole(array: Array) -> pl.BlockSpec:
    return pl.BlockSpec(array.shape, lambda _: (0,) * array.ndim)


def _how() -> dict[str, Any]:
    if interpret:
        return {"interpret": True}
    from jax.experimental.pallas import triton

    return {"compiler_params": triton.CompilerParams(num_warps=WARPS, num_stages=1)}
