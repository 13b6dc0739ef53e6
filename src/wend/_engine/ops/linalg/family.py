"""Shared by the ops of linear algebra: refusals, batches of matrices, and LAPACK."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from wend._engine.base.dtypes import FLOAT, DType, from_numpy
from wend._engine.base.errors import DTypeError, LinAlgError, ShapeError
from wend._engine.core.kinds import Size, Tensor
from wend._engine.core.op_facts import OpFacts, OpSchedule
from wend._engine.core.primitive import Primitive, ops
from wend._engine.core.symbolic import SymInt, broadcast_shapes, hints
from wend._engine.core.types import Spec
from wend._engine.ops.numeric import INEXACT, Array, array, widen
from wend._engine.ops.views.family import Shape

# -- refusals --------------------------------------------------------------------------------------


def floating(op: str, *dtypes: DType) -> None:
    """Raise DTypeError for bool and ints."""
    for dtype in dtypes:
        if dtype.category < FLOAT:
            raise DTypeError(
                f"{op}: Expected a floating point or complex tensor as input. Got {dtype}; "
                "convert it with .float()"
            )


def same_type(
    op: str, a: Spec | Tensor, b: Spec | Tensor, names: tuple[str, str] = ("A", "B")
) -> None:
    """Raise DTypeError unless both operands have the same floating dtype."""
    floating(op, a.dtype, b.dtype)
    if a.dtype is not b.dtype:
        raise DTypeError(
            f"{op}: Expected {names[0]} and {names[1]} to have the same dtype, but found "
            f"{names[0]} of type {a.dtype} and {names[1]} of type {b.dtype} instead"
        )


def matrix(op: str, x: Spec | Tensor, name: str = "A") -> None:
    """Raise ShapeError unless x has two dims or more."""
    if len(x.shape) < 2:
        raise ShapeError(f"{op}: The input tensor {name} must have at least 2 dimensions.")


def square(op: str, x: Spec | Tensor, name: str = "A") -> None:
    """Raise ShapeError unless x is a batch of square matrices."""
    matrix(op, x, name)
    if x.shape[-1] != x.shape[-2]:
        rows, columns = hints(x.shape[-2:])
        raise ShapeError(
            f"{op}: {name} must be batches of square matrices, but they are {rows} by {columns} "
            "matrices"
        )


def equation(op: str, a: Spec | Tensor, b: Spec | Tensor, left: bool = True) -> tuple[Any, ...]:
    """The batch dims of the equation A X = B (left) or X A = B; raises ShapeError."""
    same_type(op, a, b)
    square(op, a)
    matrix(op, b, "B")
    if b.shape[-2 if left else -1] != a.shape[-1]:
        (n, m), (p, q) = hints(a.shape[-2:]), hints(b.shape[-2:])
        raise ShapeError(
            f"{op}: Incompatible shapes of A and B for the equation "
            f"{'AX = B' if left else 'XA = B'} ({n}x{m} and {p}x{q})"
        )
    return broadcast_shapes(op, a.shape[:-2], b.shape[:-2])


def raise_where(op: str, info: Array, fault: str) -> None:
    """Raise LinAlgError for the first matrix whose code in `info` is not 0.

    fault: the text of the error, in which {0} stands for the code
    """
    if not info.any():
        return
    place = int(np.flatnonzero(info)[0])
    batch = f"(Batch element {place}): " if info.ndim else ""
    raise LinAlgError(f"{op}: {batch}{fault.format(int(info.reshape(-1)[place]))}")


# -- batches ---------------------------------------------------------------------------------------


class OfMatrices(Primitive, abstract=True):
    """Base of ops on the last two dims of the first operand, the same for each matrix of a batch.

    Operands beyond the first may have fewer dims: `tails` says how many belong to a single matrix.
    """

    facts = OpFacts(supports=INEXACT)
    schedule = OpSchedule(library="LAPACK")
    tails: tuple[int, ...] = (2,)
    broadcasts = False  # leading dims of the operands may differ

    def batch(self, batched: Sequence[bool], size: Size, *params: Any) -> Any:
        """The same op: the batch axis is one more dim in front, repeated where operands lack it."""
        ranks = [len(x.shape) - b - t for x, b, t in zip(params, batched, self.tails, strict=True)]
        moved = [
            x
            if self.broadcasts and not is_batched
            else _in_front(x, is_batched, rank, max(ranks), size)
            for x, is_batched, rank in zip(params, batched, ranks, strict=True)
        ]
        return getattr(ops, self.name)(*moved, **self.attrs)


def _in_front(x: Tensor, is_batched: bool, rank: int, wanted: int, size: Size) -> Tensor:
    """x with the batch axis before `wanted` dims; dims of 1 come in between."""
    if not is_batched:
        x = ops.expand_to(x, (size, *x.shape), (0,))
    for _ in range(wanted - rank):
        x = ops.unsqueeze(x, 1)
    return x


def wide(x: Array) -> Array:
    """The matrices in a type that LAPACK takes."""
    return np.ascontiguousarray(widen(x))


def narrow(result: Array, like: Array) -> Array:
    """A result in the type of the operand."""
    return array(result, from_numpy(like.dtype))


def narrow_real(result: Array, like: Array) -> Array:
    """A real result in the type of the operand, or of the parts of its complex numbers."""
    return array(result, from_numpy(like.dtype).to_real())


def across(x: Array) -> Array:
    """The conjugate transpose of the matrices."""
    return np.swapaxes(x, -1, -2).conj()


def by_columns(x: Array) -> Array:
    """A copy of the matrices as a stack that LAPACK reads and writes over: (count, n, m)."""
    m, n = x.shape[-2:]
    return np.array(np.swapaxes(x, -1, -2), order="C").reshape(volume(x.shape[:-2]), n, m)


def by_rows(x: Array) -> Array:
    """The matrices as a stack, (count, m, n); a matrix that all places share stays alone."""
    front = x.shape[:-2]
    if front and not any(x.strides[:-2]):
        alone = np.ascontiguousarray(x[(0,) * len(front)])
        return np.broadcast_to(alone, (volume(front), *alone.shape))
    return np.ascontiguousarray(x.reshape(volume(front), *x.shape[-2:]))


def from_columns(stack: Array, front: Shape) -> Array:
    """The matrices that a stack of LAPACK's holds, in their order, as a view."""
    return np.swapaxes(stack.reshape(*front, *stack.shape[1:]), -1, -2)


def many_small(x: Array, most: int) -> bool:
    """Whether calls of NumPy per row, for all matrices, take less time than a call per matrix.

    most: the rows up to which an algorithm gains
    """
    rows = max(x.shape[-2:])
    return bool(rows <= most and volume(x.shape[:-2]) > 12 * rows)


def broadcast_batches(*arrays: Array) -> list[Array]:
    """The arrays with equal leading dims, as views."""
    front = np.broadcast_shapes(*(a.shape[:-2] for a in arrays))
    return [np.broadcast_to(a, front + a.shape[-2:]) for a in arrays]


# -- formulas that rules share ---------------------------------------------------------------------


def turned(x: Tensor) -> Tensor:
    """The conjugate transpose of the matrices; of real numbers, the transpose."""
    moved = ops.matrix_transpose(x)
    return ops.conj(moved) if x.dtype.is_complex else moved


def row(x: Tensor, rows: Size | SymInt) -> Tensor:
    """Vectors repeated as the rows of matrices: a factor per column."""
    rank = len(x.shape)
    shape = (*x.shape[:-1], rows, x.shape[-1])
    return ops.expand_to(ops.unsqueeze(x, -2), shape, (rank - 1,))


def column(x: Tensor, columns: Size | SymInt) -> Tensor:
    """Vectors repeated as the columns of matrices: a factor per row."""
    return ops.expand_to(ops.unsqueeze(x, -1), (*x.shape, columns), (len(x.shape),))


def all_over(x: Tensor, like: Tensor) -> Tensor:
    """A number per matrix, repeated over the matrices of `like`."""
    rank = len(like.shape)
    number = ops.unsqueeze(ops.unsqueeze(x, -1), -1)
    return ops.expand_to(number, like.shape, (rank - 2, rank - 1))


def with_diagonal(x: Tensor, diagonal: Tensor) -> Tensor:
    """The matrices with that on the diagonal."""
    return ops.diagonal_scatter(x, diagonal, 0, -2, -1)


def lesser(m: Any, n: Size) -> Any:
    """min(m, n), by questions: tall, square and wide matrices are patterns of their own.

    The gradients of factors differ between them.
    """
    if m > n:
        return n
    if m < n:
        return m
    return n


def volume(shape: Shape) -> int:
    """The number of elements."""
    return math.prod(shape)
