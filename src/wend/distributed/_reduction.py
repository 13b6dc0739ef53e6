"""Reductions over ranks: PyTorch's `ReduceOp`, and how each is done for each type of elements."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from wend._engine.base.dtypes import BOOL, COMPLEX, FLOAT, INT, DType
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, DTypeError
from wend.distributed._wire._arrays import room
from wend.distributed._wire._transport import Array, Gathered, Transport

__all__ = ["FUNCTIONS", "MPI_NAMES", "ReduceOp", "Reduction", "even_parts", "fold", "reduction_of"]


class RedOpType(enum.Enum):
    """The reductions over ranks."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8

    __hash__ = object.__hash__  # of members, which are looked up in each call

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"


#: Reductions as callers name them.
AnyOp: TypeAlias = "ReduceOp | RedOpType"


class ReduceOp:
    """A reduction over ranks: SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR or PREMUL_SUM.

    AVG is the sum over the number of ranks. PREMUL_SUM multiplies by a factor before it sums.
    """

    RedOpType = RedOpType
    SUM, AVG, PRODUCT = RedOpType.SUM, RedOpType.AVG, RedOpType.PRODUCT
    MIN, MAX = RedOpType.MIN, RedOpType.MAX
    BAND, BOR, BXOR = RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR
    PREMUL_SUM = RedOpType.PREMUL_SUM

    def __init__(self, op: object = RedOpType.SUM, factor: object = None) -> None:
        self.op, self.factor = op, factor

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ReduceOp):
            return self.op is other.op and self.factor == other.factor
        return self.op is other

    def __hash__(self) -> int:
        return hash(self.op)

    def __repr__(self) -> str:
        return repr(self.op)


_TITLES = {kind: kind.name for kind in RedOpType}
MPI_NAMES = {
    RedOpType.SUM: "sum", RedOpType.AVG: "sum", RedOpType.PREMUL_SUM: "sum",
    RedOpType.PRODUCT: "prod", RedOpType.MIN: "min", RedOpType.MAX: "max",
    RedOpType.BAND: "band", RedOpType.BOR: "bor", RedOpType.BXOR: "bxor",
}  # fmt: skip
#: The sum of bools is `or`, their product is `and`.
_OF_BOOLS = {"sum": "max", "prod": "min", "band": "min", "bor": "max"}
#: Functions whose results may be out of the range of floats.
_ROUNDED = {np.add, np.multiply}
#: The transport's reductions, on arrays.
FUNCTIONS: dict[str, Any] = {
    "sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum,
    "band": np.bitwise_and, "bor": np.bitwise_or, "bxor": np.bitwise_xor,
}  # fmt: skip
#: A mover of data: MPI, or the data that has come along with the ranks' greetings.
Line = Transport | Gathered
_ORDERED = (RedOpType.MIN, RedOpType.MAX)
_BITWISE = (RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR)
#: Half precision is summed in pieces of so many elements, in float32.
_PIECE = 1 << 16


def even_parts(count: int, ranks: int) -> list[int]:
    """How many of `count` elements each rank takes, where the ranks share the work."""
    least, more = divmod(count, ranks)
    return [least + (rank < more) for rank in range(ranks)]


class Reduction(NamedTuple):
    """A reduction of elements of a type.

    kind: the reduction   name: of the transport's   factor: to multiply by before
    wide: whether elements are of half precision, and are reduced as float32
    boolean: whether elements are bools, and are reduced as bytes
    """

    kind: RedOpType
    name: str
    factor: Any
    wide: bool
    boolean: bool

    def title(self) -> str:
        """The reduction, for a signature."""
        title = _TITLES[self.kind]
        return title if self.factor is None else f"{title} {self.factor}"

    def before(self, x: Array) -> Array:
        """The elements that the ranks put together."""
        if self.kind is RedOpType.PREMUL_SUM:
            return np.multiply(x, self.factor, dtype=x.dtype)
        return x.view(np.uint8) if self.boolean else x

    def after(self, x: Array, ranks: int) -> None:
        """Finish the elements that were put together, in place."""
        if self.kind is RedOpType.AVG:
            np.divide(x, ranks, out=x)

    def all_reduce(self, line: Line, x: Array, out: Array) -> None:
        """out = the reduction of all ranks' x; x stays as it was."""
        if isinstance(line, Gathered):
            self._fold(line.rows(x), out)
        elif self.wide:
            counts = even_parts(x.size, line.size)
            part = room(counts[line.rank], x.dtype)
            self.reduce_scatter(line, x, part, counts)
            line.all_gather(part, out, counts)
        else:
            line.all_reduce(self.before(x), self._plain(out), self.name)
            self.after(out, line.took_part())

    def reduce(self, line: Line, x: Array, out: Array | None, root: int) -> None:
        """out = the reduction of all ranks' x, at the root alone."""
        if isinstance(line, Gathered):
            if out is not None:
                self._fold(line.rows(x), out)
        elif self.wide:
            counts = even_parts(x.size, line.size)
            part = room(counts[line.rank], x.dtype)
            self.reduce_scatter(line, x, part, counts)
            line.gather(part, out, counts, root)
        else:
            to = None if out is None else self._plain(out)
            line.reduce(self.before(x), to, self.name, root)
            if out is not None:
                self.after(out, line.size)

    def reduce_scatter(self, line: Line, x: Array, out: Array, counts: Sequence[int]) -> None:
        """out = this rank's part of the reduction of all ranks' x."""
        mine = counts[line.rank]
        if isinstance(line, Gathered):
            begin = sum(counts[: line.rank])
            self._fold([row[begin : begin + mine] for row in line.rows(x)], out)
        elif self.wide:
            parts = room(mine * line.size, x.dtype)
            line.all_to_all(x, counts, parts, [mine] * line.size)
            self._fold(parts.reshape(line.size, mine), out)
        else:
            line.reduce_scatter(self.before(x), self._plain(out), counts, self.name)
            self.after(out, line.size)

    def _fold(self, rows: Sequence[Array], out: Array) -> None:
        """out = the reduction of the ranks' rows, in the order of ranks."""
        if self.wide:
            self._fold_wide(rows, out)
            return
        total = self._plain(out)
        if self.factor is not None or self.boolean:
            rows = [self.before(row) for row in rows]
        fold(rows, total, FUNCTIONS[self.name])
        self.after(out, len(rows))

    def _fold_wide(self, rows: Sequence[Array], out: Array) -> None:
        """As `_fold`, in float32, piece by piece."""
        function = FUNCTIONS[self.name]
        for start in range(0, out.size, _PIECE):
            piece = slice(start, start + _PIECE)
            total = self._wide(rows[0][piece])
            for row in rows[1:]:
                function(total, self._wide(row[piece]), out=total)
            self.after(total, len(rows))
            out[piece] = total

    def _wide(self, x: Array) -> Array:
        """The elements in float32, times the factor."""
        elements = x.astype(np.float32)
        if self.kind is RedOpType.PREMUL_SUM:
            elements *= self.factor
        return elements

    def _plain(self, out: Array) -> Array:
        return out.view(np.uint8) if self.boolean else out


def fold(rows: Sequence[Array], out: Array, function: Callable[..., Any]) -> None:
    """out = the reduction of arrays by a function of `FUNCTIONS`, in their order.

    Sums overflow in silence, as those of MPI do. out: none of the arrays
    """
    if function in _ROUNDED and out.dtype.kind in "fc":
        with np.errstate(all="ignore"):
            _fold_rows(rows, out, function)
    else:
        _fold_rows(rows, out, function)


def _fold_rows(rows: Sequence[Array], out: Array, function: Callable[..., Any]) -> None:
    if len(rows) == 1:
        out[...] = rows[0]
        return
    function(rows[0], rows[1], out=out)
    for row in rows[2:]:
        function(out, row, out=out)


#: Reductions without a factor, by kind and type of elements.
_known: dict[tuple[RedOpType, DType], Reduction] = {}


def reduction_of(name: str, op: Any, dtype: DType) -> Reduction:
    """How a reduction of elements of that type is done.

    name: the public function's   op: a member of `ReduceOp`, or a `ReduceOp`
    Raises DTypeError where the type has no such reduction, ArgumentError (a ValueError) for an
    order of complex numbers, ArgumentTypeError for anything else.
    """
    known = _known.get((op, dtype)) if type(op) is RedOpType else None
    if known is not None:
        return known
    factor = None
    if isinstance(op, ReduceOp):
        op, factor = op.op, op.factor
    if not isinstance(op, RedOpType):
        raise ArgumentTypeError(
            f"{name}: op must be a member of ReduceOp, such as ReduceOp.SUM, "
            f"not {type(op).__name__}"
        )
    if op in _ORDERED and dtype.category == COMPLEX:
        raise ArgumentError(f"{name} does not support {op} on complex tensors")
    if op in _BITWISE and dtype.category not in (BOOL, INT):
        raise DTypeError(f"{name}: {op} needs integers or bools, and the tensor is {dtype}")
    if op in (RedOpType.AVG, RedOpType.PREMUL_SUM) and dtype.category < FLOAT:
        raise DTypeError(
            f"{name}: {op} of {dtype} has no exact result; convert the tensor to float, "
            "or use ReduceOp.SUM"
        )
    if op is RedOpType.PREMUL_SUM and factor is None:
        raise ArgumentError(f"{name}: PREMUL_SUM needs a factor: ReduceOp(op, factor)")
    boolean = dtype.category == BOOL
    word = MPI_NAMES[op]
    wide = dtype.category == FLOAT and dtype.itemsize == 2
    reduction = Reduction(op, _OF_BOOLS.get(word, word) if boolean else word, factor, wide, boolean)
    if factor is None:
        _known[op, dtype] = reduction
    return reduction
