"""Values of a builder with Python's operators, so that formulas in generated code read as such.

    r = x - n * 0.693            # numbers become constants of x's dtype
    y = where(x < 0, -r, r)

`&`, `|`, `^`, `~`, `<<`, `>>` are those of ints (and bools). `==` compares identities: there is
`equals` for values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wend._engine.base import dtypes
from wend._engine.base.dtypes import DType
from wend._engine.compiler.llvm_ir.values import SsaValue, VectorCode


class Operand:
    """A value, and the builder that appends the instructions of computations with this value."""

    __slots__ = ("b", "value")

    def __init__(self, b: VectorCode, value: SsaValue) -> None:
        self.b = b
        self.value = value

    @property
    def dtype(self) -> DType:
        return self.value.dtype

    @property
    def is_double(self) -> bool:
        return self.value.dtype is dtypes.float64

    def of(self, x: Operand | float) -> SsaValue:
        """Return the value of an operand beside this operand; a number becomes a constant."""
        return x.value if isinstance(x, Operand) else self.b.constant(x, self.value)

    def constant(self, x: float) -> Operand:
        """Return a number in this operand's dtype."""
        return Operand(self.b, self.b.constant(x, self.value))

    def _two(self, name: str, x: Operand | float) -> Operand:
        return Operand(self.b, getattr(self.b, name)(self.value, self.of(x)))

    def _swapped(self, name: str, x: float) -> Operand:
        return Operand(self.b, getattr(self.b, name)(self.of(x), self.value))

    def _one(self, name: str) -> Operand:
        return Operand(self.b, getattr(self.b, name)(self.value))

    # fmt: off
    def __add__(self, x: Operand | float) -> Operand: return self._two("add", x)
    def __sub__(self, x: Operand | float) -> Operand: return self._two("sub", x)
    def __mul__(self, x: Operand | float) -> Operand: return self._two("mul", x)
    def __truediv__(self, x: Operand | float) -> Operand: return self._two("div", x)
    def __radd__(self, x: float) -> Operand: return self._swapped("add", x)
    def __rsub__(self, x: float) -> Operand: return self._swapped("sub", x)
    def __rmul__(self, x: float) -> Operand: return self._swapped("mul", x)
    def __rtruediv__(self, x: float) -> Operand: return self._swapped("div", x)
    def __lt__(self, x: Operand | float) -> Operand: return self._two("lt", x)
    def __le__(self, x: Operand | float) -> Operand: return self._two("le", x)
    def __gt__(self, x: Operand | float) -> Operand: return self._two("gt", x)
    def __ge__(self, x: Operand | float) -> Operand: return self._two("ge", x)
    def __and__(self, x: Operand | int) -> Operand: return self._two("bitwise_and", x)
    def __or__(self, x: Operand | int) -> Operand: return self._two("bitwise_or", x)
    def __xor__(self, x: Operand | int) -> Operand: return self._two("bitwise_xor", x)
    def __lshift__(self, x: Operand | int) -> Operand: return self._two("shift_left", x)
    def __rshift__(self, x: Operand | int) -> Operand: return self._two("shift_right", x)
    def __neg__(self) -> Operand: return self._one("neg")
    def __invert__(self) -> Operand: return self._one("bitwise_not")
    def __abs__(self) -> Operand: return self._one("abs")
    def equals(self, x: Operand | float) -> Operand: return self._two("eq", x)
    def differs(self, x: Operand | float) -> Operand: return self._two("ne", x)
    def copysign(self, x: Operand | float) -> Operand: return self._two("copysign", x)
    def sqrt(self) -> Operand: return self._one("sqrt")
    def floor(self) -> Operand: return self._one("floor")
    def trunc(self) -> Operand: return self._one("trunc")
    def round(self) -> Operand: return self._one("round")
    def bits(self) -> Operand: return self._one("bits")
    def from_bits(self) -> Operand: return self._one("from_bits")
    # fmt: on

    def is_nan(self) -> Operand:
        """Return whether the value is NaN, as a condition."""
        return self.differs(self)

    def logical_shift(self, count: Operand | int) -> Operand:
        """Shifted right, zeros in front."""
        kind = self.b.type_of(self.dtype)
        by = self.of(count).name
        return self.made(self.b.text.let(f"lshr {kind} {self.value.name}, {by}"), self.dtype)

    def made(self, name: str, dtype: DType) -> Operand:
        """Return an operand for the result of a hand-written instruction."""
        return Operand(self.b, self.value._replace(name=name, dtype=dtype))

    def fma(self, y: Operand | float, z: Operand | float) -> Operand:
        """self * y + z, rounded once."""
        return Operand(self.b, self.b.fma(self.value, self.of(y), self.of(z)))

    def to(self, dtype: DType) -> Operand:
        """Converted by C's rules."""
        return Operand(self.b, self.b.convert(self.value, dtype))

    def at_least(self, low: float) -> Operand:
        """max(self, low); NaN stays NaN. A single instruction."""
        return self._two("maximum", low)

    def at_most(self, high: float) -> Operand:
        """min(self, high); NaN stays NaN. A single instruction."""
        return self._two("minimum", high)

    def call(self, name: str, *others: Operand) -> Operand:
        """A function of the library."""
        return Operand(self.b, self.b.function(name, self.value, *(o.value for o in others)))

    def polynomial(self, coefficients: Sequence[float]) -> Operand:
        """c[0] + c[1] x + c[2] x^2 + ..., by Horner's rule."""
        total = self.constant(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            total = total.fma(self, c)
        return total


def where(condition: Operand, a: Operand | float, b: Operand | float) -> Operand:
    """Return a where the condition holds, else b; at least a or b is an Operand."""
    like = a if isinstance(a, Operand) else b
    assert isinstance(like, Operand)
    chosen: Any = like.b.select(condition.value, like.of(a), like.of(b))
    return Operand(like.b, chosen)
