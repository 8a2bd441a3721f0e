"""Estimate the peak memory of a program from its jaxpr, before it is compiled.

A fusing compiler writes only some arrays to memory: matrix products, gathered, sorted or concatenated data, sums, and
the stacked outputs of loops. All other values are fused into their consumers and only keep their inputs alive. Adding
up the written arrays over their lifetimes comes close to what XLA allocates on a GPU; `benchmarks/learning_speed.py`
shows both.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

Buffers = frozenset[int]
"""The numbers of the arrays in memory that hold a value, or that it is computed from."""

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
"""Operations whose results are written to memory. The results of all others are fused into their consumers."""
IN_PLACE = {"dynamic_update_slice", "scatter", "scatter-add"}
"""Operations that overwrite their first operand."""


WORKSPACE = {"eigh": 3}
"""Temporary memory of an operation, in multiples of its largest result. LAPACK's divide-and-conquer eigensolver copies
the matrix and allocates two more."""


def working_bytes(function: Callable, *arguments: Any) -> int:
    """The peak memory in bytes besides the arguments, which may be `jax.ShapeDtypeStruct`s."""
    return _peak(jax.make_jaxpr(function)(*arguments).jaxpr)


def array_bytes(value: Any) -> int:
    """Bytes of an array or of a `jax.ShapeDtypeStruct`."""
    is_key = jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)
    return int(np.prod(value.shape)) * (8 if is_key else np.dtype(value.dtype).itemsize)


def _peak(jaxpr: Jaxpr) -> int:
    """The peak memory of a jaxpr. Its inputs count as 0 bytes: the caller holds them."""
    lifetimes = _Lifetimes()
    outputs = lifetimes.follow(jaxpr, lifetimes.write([0] * len(jaxpr.invars)))
    lifetimes.use(frozenset().union(*outputs))
    return lifetimes.peak()


class _Lifetimes:
    """When each array is written and last used, and the peak memory inside each loop or branch."""

    def __init__(self) -> None:
        self.time = 0
        self.sizes: list[int] = []
        self.spans: list[tuple[int, int]] = []
        self.within: dict[int, int] = {}

    def write(self, sizes: Sequence[int]) -> list[Buffers]:
        """Allocate arrays of these sizes in bytes."""
        begin = len(self.sizes)
        self.sizes += sizes
        self.spans += [(self.time, self.time)] * len(sizes)
        return [frozenset([begin + index]) for index in range(len(sizes))]

    def use(self, buffers: Buffers) -> None:
        for each in buffers:
            self.spans[each] = (self.spans[each][0], self.time)

    def follow(self, jaxpr: Jaxpr, given: Sequence[Buffers]) -> list[Buffers]:
        """Trace a jaxpr whose inputs lie in the arrays `given`. Returns the arrays that hold its outputs."""
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
    """The jaxprs that an operation calls, for example a loop's body or the branches of a `cond`."""
    for value in equation.params.values():
        for part in value if isinstance(value, tuple | list) else (value,):
            if isinstance(part, ClosedJaxpr):
                yield part.jaxpr
            elif isinstance(part, Jaxpr):
                yield part
