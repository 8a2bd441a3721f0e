"""How much memory a program holds while it runs, told from its text (its jaxpr) before it is compiled.

A compiler that fuses writes an array to memory where it must: products, gathered or sorted or concatenated data, sums,
and what loops stack up. Everything else is computed on the way, and only keeps alive what it is computed from. Counting
the former over their lifetimes comes near what XLA allocates on a GPU (`benchmarks/learning_speed.py` shows both).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

Buffers = frozenset[int]
"""The arrays in memory, by number, that a value is or is computed from."""

WRITTEN = {
    "dot_general",
    "conv_general_dilated",
    "concatenate",
    "gather",
    "dynamic_slice",
    "sort",
    "top_k",
    "cumsum",
    "argmax",
    "argmin",
    "reduce_sum",
    "reduce_max",
    "reduce_min",
    "reduce_prod",
    "reduce_and",
    "reduce_or",
    "eigh",
    "cholesky",
    "triangular_solve",
    "while",
    "cond",
    "scan",
}
"""Operations whose results are written to memory; those of all others are computed where they are needed."""
IN_PLACE = {"dynamic_update_slice", "scatter", "scatter-add"}
"""Operations that overwrite their first operand."""


WORKSPACE = {"eigh": 3}
"""Operations that need more room while they run: so many times their largest result. LAPACK's divide and conquer copies
the matrix, and takes two more."""


def working_bytes(function: Callable, *arguments: Any) -> int:
    """The most that is held at any time besides the arguments, which may be shapes alone."""
    return _peak(jax.make_jaxpr(function)(*arguments).jaxpr)


def array_bytes(value: Any) -> int:
    """Bytes of an array, or of the shape of one."""
    is_key = jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)
    return int(np.prod(value.shape)) * (8 if is_key else np.dtype(value.dtype).itemsize)


def _peak(jaxpr: Jaxpr) -> int:
    """The same for a part of a program: its inputs belong to others, its outputs are its own."""
    history = _History()
    outputs = history.follow(jaxpr, history.write([0] * len(jaxpr.invars)))
    history.use(frozenset().union(*outputs))
    return history.peak()


class _History:
    """When each array was written, when it was last used, and what loops held inside them."""

    def __init__(self) -> None:
        self.time = 0
        self.sizes: list[int] = []
        self.spans: list[tuple[int, int]] = []
        self.within: dict[int, int] = {}

    def write(self, sizes: Sequence[int]) -> list[Buffers]:
        """New arrays."""
        begin = len(self.sizes)
        self.sizes += sizes
        self.spans += [(self.time, self.time)] * len(sizes)
        return [frozenset([begin + index]) for index in range(len(sizes))]

    def use(self, buffers: Buffers) -> None:
        for each in buffers:
            self.spans[each] = (self.spans[each][0], self.time)

    def follow(self, jaxpr: Jaxpr, given: Sequence[Buffers]) -> list[Buffers]:
        """Go through a part of the program whose inputs lie in these arrays; say where its outputs lie."""
        known: dict[Var, Buffers] = dict(zip(jaxpr.invars, given, strict=True))

        def read(value: Any) -> Buffers:
            return frozenset() if isinstance(value, Literal) else known.get(value, frozenset())

        for equation in jaxpr.eqns:
            self.time += 1
            operands = [read(value) for value in equation.invars]
            results = self._results(equation, operands)
            self.use(frozenset().union(*operands))
            known.update(zip(equation.outvars, results, strict=True))
        self.time += 1
        return [read(value) for value in jaxpr.outvars]

    def _results(self, equation: JaxprEqn, operands: list[Buffers]) -> list[Buffers]:
        name, inner = equation.primitive.name, list(_parts(equation))
        if name in IN_PLACE:
            return [operands[0]]
        if name not in WRITTEN:
            if len(inner) == 1 and len(inner[0].invars) == len(operands):  # a function called once
                return self.follow(inner[0], operands)
            return [frozenset().union(*operands)] * len(equation.outvars)
        sizes = [array_bytes(value.aval) for value in equation.outvars]
        workspace = WORKSPACE.get(name, 0) * max(sizes, default=0)
        self.within[self.time] = max((_peak(part) for part in inner), default=workspace)
        num_carried = equation.params.get("num_carry", 0)
        begin = equation.params.get("num_consts", 0)
        carried = operands[begin : begin + num_carried]  # a loop overwrites what it carries
        kept = [where or self.write([size])[0] for where, size in zip(carried, sizes, strict=False)]
        return kept + self.write(sizes[num_carried:])

    def peak(self) -> int:
        change = np.zeros(self.time + 2, np.int64)
        for size, (begin, end) in zip(self.sizes, self.spans, strict=True):
            change[begin] += size
            change[end + 1] -= size
        held = np.cumsum(change)
        for time, size in self.within.items():
            held[time] += size
        return int(held.max())


def _parts(equation: JaxprEqn) -> Iterator[Jaxpr]:
    """The functions an operation applies: a loop's body, the branches of a condition."""
    for value in equation.params.values():
        for part in value if isinstance(value, tuple | list) else (value,):
            if isinstance(part, ClosedJaxpr):
                yield part.jaxpr
            elif isinstance(part, Jaxpr):
                yield part
