"""Code for one element of an op: the `emit` rules of primitives, with the casts around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from wend.base import dtypes
from wend.base.dtypes import DType
from wend.base.errors import CompileError

Value = Any


class Code(Protocol):
    """Where the code of one element goes, and what it may ask for."""

    b: Any  # the builder of its vectors

    def number(self, k: int) -> Value:
        """The k-th run-time number of the op, as float64, int64 or bool."""

    def constant(self, value: float, dtype: DType) -> Value:
        """A number known while compiling."""

    def place(self, dim: int) -> Value:
        """How far loop `dim` of the op's space has come, as int64."""

    def checked_place(self, index: Value, dim: int) -> Value:
        """An index as int64; marks the run as failed if it is beyond loop `dim`."""

    def inside(self, k: int) -> Value:
        """Whether the k-th operand, which is shifted, has an element here."""


def convertible(dtype: DType) -> bool:
    """Whether kernels can read, compute and write elements of this dtype."""
    return dtype.category != dtypes.COMPLEX


def elementwise_code(
    prim: Any, targets: tuple[DType | None, ...], result: DType, given: tuple[DType, ...]
) -> Callable[[Any, list[Any]], Any] | None:
    """The rule of an elementwise op with its casts; None if it cannot be made into code."""

    def emit(code: Any, operands: list[Any]) -> Any:
        b = code.b
        numbers = [code.number(k) for k in range(len(prim.size_mask))]
        row = prim.arrange(operands, numbers)
        cast = [
            x if t is None or x is None else b.convert(x, t)
            for x, t in zip(row, targets, strict=True)
        ]
        return b.convert(prim.emit(b, *cast), result)

    key = (prim, targets, result, given)
    possible = _POSSIBLE.get(key)
    if possible is None:
        possible = _POSSIBLE[key] = _try(prim, emit, given)
    return emit if possible else None


_POSSIBLE: dict[Any, bool] = {}


class _Trial:
    """A place for code that nobody keeps."""

    def __init__(self, prim: Any) -> None:
        from wend.compiler.instructions import Faults, VectorBuilder
        from wend.compiler.llvm import host
        from wend.compiler.text import Module, Text

        self.b: Any = VectorBuilder(Text(), Module(), 1, host(), Faults())
        self.prim = prim

    def number(self, k: int) -> Value:
        category = self.prim.categories[k]
        return self.b.number(1, NUMBER_TYPES[category])


#: As what run-time numbers come into a kernel, by category.
NUMBER_TYPES = (dtypes.bool_, dtypes.int64, dtypes.float64)


def _try(prim: Any, emit: Any, given: tuple[DType, ...]) -> bool:
    trial = _Trial(prim)
    operands = [trial.b.number(1, dtype) for dtype in given]
    try:
        emit(trial, operands)
    except (AttributeError, CompileError, TypeError, NotImplementedError, IndexError):
        return False
    return True
