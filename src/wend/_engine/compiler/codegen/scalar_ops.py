"""Code for an element of an op: the `emit` rules of primitives, with the casts around them."""

from __future__ import annotations

from functools import cache
from typing import Any

from wend._engine.base import dtypes
from wend._engine.base.dtypes import DType
from wend._engine.base.errors import CompileError
from wend._engine.compiler.ir.loops import Emit, is_shared, shared
from wend._engine.core.types import Number, Spec

Value = Any

#: The dtypes of run-time numbers in a kernel, by category.
NUMBER_TYPES = (dtypes.bool_, dtypes.int64, dtypes.float64)
OUT_OF_RANGE = "an index is out of range"


def convertible(dtype: DType) -> bool:
    """Whether kernels of any kind can read, compute and write elements of this dtype.

    Loop nests take complex numbers as well, in ops whose rules know them.
    """
    return dtype.category != dtypes.COMPLEX


def elementwise_code(prim: Any, specs: list[Spec]) -> Emit | None:
    """Return the `emit` rule of an elementwise op with its casts: the same for the same casts.

    None means that the op cannot be compiled.
    """
    if dtypes.COMPLEX in prim.categories:
        return None
    numbers = [Number(category) for category in prim.categories]
    targets, result = prim.dtypes_of(*prim.arrange(specs, numbers))
    operand_dtypes = tuple([spec.dtype for spec in specs])
    key = (prim, targets, result, operand_dtypes)
    if key in _CODES:
        return _CODES[key]
    n_numbers = len(prim.size_mask)
    plain = not n_numbers and prim.plain_form  # all operands are tensors

    def emit(code: Any, operands: list[Any]) -> Any:
        b = code.b
        row = operands
        if not plain:
            row = prim.arrange(operands, [code.number(k) for k in range(n_numbers)])
        cast = [
            x if t is None or x is None or x.dtype is t else b.convert(x, t)
            for x, t in zip(row, targets, strict=True)
        ]
        value = prim.emit(b, *cast)
        return value if value.dtype is result else b.convert(value, result)

    code = _CODES[key] = shared(emit) if _try(prim, emit, operand_dtypes) else None
    return code


_CODES: dict[Any, Emit | None] = {}


@cache
def rounded_to(dtype: DType) -> Emit:
    """Return a rule that converts its only operand to `dtype`."""
    return shared(lambda code, operands: code.b.convert(operands[0], dtype))


def then_rounded(rule: Emit, dtype: DType) -> Emit:
    """Return a rule that converts the result of another rule to `dtype`."""
    if is_shared(rule):
        return _then_rounded(rule, dtype)
    return lambda code, operands: code.b.convert(rule(code, operands), dtype)


@cache
def _then_rounded(rule: Emit, dtype: DType) -> Emit:
    return shared(lambda code, operands: code.b.convert(rule(code, operands), dtype))


class _Trial:
    """A place for code that is thrown away: it shows whether a rule works."""

    def __init__(self, prim: Any) -> None:
        from wend._engine.compiler.codegen.instructions import VectorBuilder
        from wend._engine.compiler.llvm_ir.error_flags import Faults
        from wend._engine.compiler.llvm_ir.jit import written_for
        from wend._engine.compiler.llvm_ir.text import Module, Text

        self.b: Any = VectorBuilder(Text(), Module(), 1, written_for(), Faults())
        self.prim = prim

    def number(self, k: int) -> Value:
        category = self.prim.categories[k]
        return self.b.number(1, NUMBER_TYPES[category])


def _try(prim: Any, emit: Any, operand_dtypes: tuple[DType, ...]) -> bool:
    trial = _Trial(prim)
    operands = [trial.b.number(1, dtype) for dtype in operand_dtypes]
    try:
        emit(trial, operands)
    except (AttributeError, CompileError, TypeError, NotImplementedError, IndexError):
        # The question is whether code can be emitted for these dtypes; if not, the op is a host
        # step with this reason.
        return False
    return True


class ElementCode:
    """The context in which the code of an element of an op is written.

    nest: the code of the whole nest
    op: the op
    b: the builder of instructions
    phase: the code of the inner loops; None for a row op
    copy: the number of the vector, among those side by side
    """

    def __init__(self, nest: Any, op: Any, b: Any, phase: Any, copy: int = 0) -> None:
        self.nest = nest
        self.op = op
        self.b = b
        self.phase = phase
        self.copy = copy

    def number(self, k: int) -> Value:
        """The k-th run-time number of the op, as float64, int64 or bool."""
        return self.nest.number(self.b, self.op.numbers[k], self.op.node.prim.categories[k])

    def uniform(self, expr: Any, dtype: DType, category: int) -> Value:
        """Return the number that a uniform value holds everywhere, as `dtype`."""
        return self.nest.uniform(self.b, expr, dtype, category)

    def filled(self) -> Value:
        """Return the number that the op's result holds everywhere."""
        return self.uniform(*self.nest.function.uniform[self.op.out])

    def constant(self, value: float, dtype: DType) -> Value:
        """Return a number that is known while compiling."""
        return self.b.number(value, dtype)

    def place(self, dim: int) -> Value:
        """The counter of loop `dim` of the op's space, as int64."""
        axis = self.nest.nest.loops[self.op.out][dim]
        if self.phase is not None and axis == self.phase.axis:
            return self.phase.places(self.copy)
        counter = self.nest.counters.get(axis, "0")
        return self.b.spread(counter, dtypes.int64)

    def integer(self, p: Any) -> Value:
        """The value of a polynomial of extents, as int64."""
        return self.b.spread(self.nest.poly(p), dtypes.int64)

    def size(self, k: int) -> Value:
        """The k-th extent that the op's code reads beside those of loops, as int64."""
        return self.integer(self.op.sizes[k])

    def extent(self, dim: int) -> Value:
        """The extent of loop `dim` of the op's space, as int64."""
        return self.integer(self.op.space[dim])

    def checked_place(self, index: Value, dim: int) -> Value:
        """Return an index as int64; marks the run as failed if the index is beyond loop `dim`."""
        b = self.b
        place = b.convert(index, dtypes.int64)
        extent = self.extent(dim)
        valid = b.bitwise_and(b.ge(place, b.number(0, dtypes.int64)), b.lt(place, extent))
        b.require(valid, OUT_OF_RANGE)
        return place

    def inside(self, k: int) -> Value:
        """Whether the k-th operand, which is shifted, has an element here."""
        shifts = self.nest.nest.shifts[self.op.out, k]
        if self.phase is None:
            return self.nest.inside(shifts)
        mask: Value = self.phase.inside(shifts, self.copy)
        return mask

    def word(self, k: int) -> str:
        """The k-th run-time number of the op, an int, as the name of an i64."""
        slot = self.nest.slots.number(self.op.numbers[k], dtypes.INT)
        name: str = self.nest.word(slot)
        return name

    def count(self) -> str | Value:
        """The number of elements of the op's space before this element.

        Returns the name of an i64 for the first lane if the lanes are neighbours, else an int64
        vector with the number of each lane.
        """
        access = self.nest.nest.counts[self.op.out]
        if self.phase is None:
            name: str = self.nest.count(access, self.nest.nest.outer)
            return name
        number: str | Value = self.phase.count(access, self.copy)
        return number


def identity_of(identity: Any, dtype: DType) -> float:
    """The number from which a fold starts. identity: "lowest", "highest" or the number itself"""
    if identity not in ("lowest", "highest"):
        number: float = identity
        return number
    low = identity == "lowest"
    if dtype.category == dtypes.FLOAT:
        return float("-inf") if low else float("inf")
    if dtype.category == dtypes.BOOL:
        return not low
    bits = 8 * dtype.itemsize - dtype.is_signed
    if low:
        return -(1 << bits) if dtype.is_signed else 0
    return (1 << bits) - 1
