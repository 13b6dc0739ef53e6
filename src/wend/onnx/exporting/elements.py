"""The builder of elementwise ops (`ops/builder.py`) whose instructions are ONNX nodes.

`emit` rules run on it as they run on the builders of machine code. So an elementwise op has an ONNX
rule without anybody writing one. `require` is left out: a model does not raise.
"""

from __future__ import annotations

import math
from typing import Any

from wend._engine.base import dtypes
from wend._engine.base.dtypes import DType, bool_, int64
from wend.onnx.exporting.values import NodeWriter

__all__ = ["MISSING", "Elements"]

Node = Any  # a `Value`

_LN2, _LN10 = math.log(2.0), math.log(10.0)
#: Instructions that are a single node, in the operands' type.
_SAME = {
    "sub": "Sub",
    "sqrt": "Sqrt",
    "floor": "Floor",
    "ceil": "Ceil",
    "round": "Round",
    "exp": "Exp",
    "log": "Log",
    "sin": "Sin",
    "cos": "Cos",
    "asin": "Asin",
    "acos": "Acos",
    "atan": "Atan",
    "sinh": "Sinh",
    "cosh": "Cosh",
    "tanh": "Tanh",
    "asinh": "Asinh",
    "acosh": "Acosh",
    "atanh": "Atanh",
    "sigmoid": "Sigmoid",
    "erf": "Erf",
    "div": "Div",
    "trunc_divide": "Div",
}
#: Comparisons, of which bools take part as 0 and 1.
_COMPARISONS = {"lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual"}
#: (of ints, of bools)
_BITS = {
    "bitwise_and": ("BitwiseAnd", "And"),
    "bitwise_or": ("BitwiseOr", "Or"),
    "bitwise_xor": ("BitwiseXor", "Xor"),
    "bitwise_not": ("BitwiseNot", "Not"),
    "add": ("Add", "Or"),
    "mul": ("Mul", "And"),
    "maximum": ("Max", "Or"),
    "minimum": ("Min", "And"),
    "eq": ("Equal", "Equal"),
}
#: Instructions that ONNX has no operators for.
MISSING = (
    "nextafter", "gcd", "erfinv", "i0e", "i1e", "lgamma", "digamma", "polygamma", "complex", "real",
    "imag",
)  # fmt: skip


class Elements:
    """Instructions of `emit` rules, as nodes of the writer `g`."""

    def __init__(self, g: NodeWriter) -> None:
        self.g = g

    def __getattr__(self, name: str) -> Any:
        if name in _SAME:
            return lambda *xs: self.g.node(_SAME[name], *xs)
        if name in _COMPARISONS:
            return lambda x, y: self.g.node(_COMPARISONS[name], x, y, dtype=bool_)
        if name in _BITS:
            return lambda *xs: self._bits(name, xs)
        if name in MISSING:
            raise self.g.unsupported(f"ONNX has no operators for the function {name}")
        raise AttributeError(name)

    def _bits(self, name: str, xs: tuple[Node, ...]) -> Node:
        of_ints, of_bools = _BITS[name]
        out = bool_ if name == "eq" else None
        return self.g.node(of_bools if xs[0].dtype is bool_ else of_ints, *xs, dtype=out)

    # -- types and constants ----------------------------------------------------------------

    def dtype(self, x: Node) -> DType:
        """The element type of x."""
        return x.dtype  # type: ignore[no-any-return]

    def constant(self, value: float, like: Node) -> Node:
        """A number of the type of `like`."""
        return self.g.constant(value, like.dtype)

    def convert(self, x: Node, dtype: DType) -> Node:
        """x as another type."""
        return self.g.cast(x, dtype)

    def select(self, condition: Node, a: Node, b: Node) -> Node:
        """a where the condition is True, else b."""
        g = self.g
        if a.dtype is bool_:
            chosen = g.node("And", condition, a)
            return g.node("Or", chosen, g.node("And", g.node("Not", condition), b))
        wide = g.computed_in("Where", a.dtype)
        selection = g.raw_node("Where", [condition, g.cast(a, wide), g.cast(b, wide)], wide)
        return g.cast(selection, a.dtype)

    def require(self, condition: Node, message: str) -> None:
        """A model does not raise: the values that an op refuses give results without meaning."""

    # -- arithmetic -------------------------------------------------------------------------

    def neg(self, x: Node) -> Node:
        """-x; unsigned numbers wrap."""
        if x.dtype is dtypes.uint8:
            return self.g.node("Sub", self.constant(0, x), x)
        return self.g.node("Neg", x)

    def abs(self, x: Node) -> Node:
        """|x|."""
        return x if x.dtype is bool_ else self.g.node("Abs", x)

    def fmod(self, x: Node, y: Node) -> Node:
        """The remainder with the sign of x."""
        return self.g.node("Mod", x, y, fmod=1)

    def pow(self, x: Node, y: Node) -> Node:
        """x ** y; of ints, y < 0 gives trunc(x ** y)."""
        if x.dtype.is_floating_point:
            return self.g.node("Pow", x, y)
        zero, one = self.constant(0, y), self.constant(1, x)
        if not y.dtype.is_signed:
            return self.g.node("Pow", x, y)
        negative = self.lt(y, zero)
        power = self.g.node("Pow", x, self.select(negative, zero, y))
        odd = self.ne(self.bitwise_and(y, self.constant(1, y)), zero)
        unit = self.select(self.eq(x, one), one, self.constant(0, x))
        if x.dtype.is_signed:
            minus = self.constant(-1, x)
            turned = self.select(odd, minus, one)
            unit = self.select(self.eq(x, minus), turned, unit)
        return self.select(negative, unit, power)

    def hypot(self, x: Node, y: Node) -> Node:
        """sqrt(x^2 + y^2), without overflow in between."""
        x, y = self.abs(x), self.abs(y)
        large, small = self.maximum(x, y), self.minimum(x, y)
        none, one, endless = (self.constant(n, x) for n in (0, 1, math.inf))
        beyond = self.bitwise_or(self.eq(x, endless), self.eq(y, endless))  # beside NaN, too
        plain = self.bitwise_or(self.eq(large, none), beyond)
        ratio = self.div(small, self.select(plain, one, large))
        length = self.mul(large, self.sqrt(self.add(one, self.mul(ratio, ratio))))
        return self.select(beyond, endless, self.select(plain, large, length))

    def signbit(self, x: Node) -> Node:
        """Whether x has a minus sign: -0.0 too. ONNX cannot tell the sign of NaN."""
        zero = self.constant(0, x)
        below = self.lt(self.div(self.constant(1, x), x), zero)
        return self.bitwise_or(self.lt(x, zero), self.bitwise_and(self.eq(x, zero), below))

    def copysign(self, x: Node, y: Node) -> Node:
        """|x| with the sign of y."""
        size = self.abs(x)
        return self.select(self.signbit(y), self.neg(size), size)

    def trunc(self, x: Node) -> Node:
        """x without the fraction."""
        return self.select(self.lt(x, self.constant(0, x)), self.ceil(x), self.floor(x))

    # -- order ------------------------------------------------------------------------------

    def ne(self, x: Node, y: Node) -> Node:
        """x != y; True of NaN."""
        return self.g.node("Not", self.eq(x, y))

    def fmax(self, x: Node, y: Node) -> Node:
        """The larger; NaN only if both are."""
        return self.select(self.bitwise_or(self.ge(x, y), self._nan(y)), x, y)

    def fmin(self, x: Node, y: Node) -> Node:
        """The smaller; NaN only if both are."""
        return self.select(self.bitwise_or(self.le(x, y), self._nan(y)), x, y)

    def _nan(self, x: Node) -> Node:
        return self.ne(x, x)

    # -- bits -------------------------------------------------------------------------------

    def shift_left(self, x: Node, y: Node) -> Node:
        """x << y, bits beyond the type lost."""
        return self._shifted(x, y, "LEFT")

    def shift_right(self, x: Node, y: Node) -> Node:
        """x >> y; of signed x the sign stays."""
        if not x.dtype.is_signed:
            return self._shifted(x, y, "RIGHT")
        negative = self.lt(x, self.constant(0, x))
        shifted = self._shifted(self.select(negative, self.bitwise_not(x), x), y, "RIGHT")
        return self.select(negative, self.bitwise_not(shifted), shifted)

    def _shifted(self, x: Node, y: Node, direction: str) -> Node:
        """Through uint64: BitShift is for unsigned numbers."""
        words = [self.g.raw_cast(self.g.cast(v, int64), "UINT64") for v in (x, y)]
        shifted = self.g.raw_node("BitShift", words, int64, direction=direction)
        return self.g.cast(self.g.raw_cast(shifted, "INT64"), x.dtype)

    # -- functions of floats ----------------------------------------------------------------

    def exp2(self, x: Node) -> Node:
        """2 ** x."""
        return self.g.node("Pow", self.constant(2, x), x)

    def expm1(self, x: Node) -> Node:
        """exp(x) - 1, exact near 0 (Kahan's correction of the rounded exponential)."""
        one = self.constant(1, x)
        power = self.exp(x)
        less = self.sub(power, one)
        plain = self.bitwise_or(self.eq(power, one), self.le(less, self.constant(-1, x)))
        plain = self.bitwise_or(plain, self.gt(x, self.constant(1, x)))
        logarithm = self.log(self.select(plain, self.constant(2, x), power))
        near = self.mul(less, self.div(x, logarithm))
        straight = self.select(self.eq(power, one), x, less)
        return self.select(plain, straight, near)

    def log1p(self, x: Node) -> Node:
        """log(1 + x), exact near 0 (Kahan's correction of the rounded sum)."""
        one = self.constant(1, x)
        total = self.add(one, x)
        rest = self.sub(total, one)
        far = self.gt(self.abs(x), one)
        plain = self.bitwise_or(far, self.eq(rest, self.constant(0, x)))
        near = self.div(self.mul(self.log(total), x), self.select(plain, one, rest))
        straight = self.select(far, self.log(total), x)
        return self.select(plain, straight, near)

    def log2(self, x: Node) -> Node:
        """The logarithm to base 2."""
        return self.div(self.log(x), self.constant(_LN2, x))

    def log10(self, x: Node) -> Node:
        """The logarithm to base 10."""
        return self.div(self.log(x), self.constant(_LN10, x))

    def tan(self, x: Node) -> Node:
        """tan(x)."""
        if x.dtype is dtypes.float64:
            return self.div(self.sin(x), self.cos(x))
        return self.g.node("Tan", x)

    def atan2(self, x: Node, y: Node) -> Node:
        """The angle of the point (y, x)."""
        far = self.constant(math.inf, x)
        both = self.bitwise_and(self.eq(self.abs(x), far), self.eq(self.abs(y), far))
        one = self.constant(1, x)  # two infinities are as far as each other
        x, y = (self.select(both, self.copysign(one, v), v) for v in (x, y))
        zero = self.constant(0, x)
        half, turn = self.constant(math.pi / 2, x), self.constant(math.pi, x)
        angle = self.atan(self.div(x, self.select(self.eq(y, zero), self.constant(1, y), y)))
        behind = self.bitwise_or(self.lt(y, zero), self.signbit(y))
        side = self.select(self.signbit(x), self.neg(turn), turn)
        angle = self.select(behind, self.add(angle, side), angle)
        upright = self.select(self.lt(x, zero), self.neg(half), half)
        beside = self.bitwise_or(self.lt(x, zero), self.gt(x, zero))
        on_axis = self.bitwise_and(self.eq(y, zero), beside)
        angle = self.select(on_axis, upright, angle)
        origin = self.bitwise_and(self.eq(y, zero), self.eq(x, zero))
        return self.select(origin, self.select(behind, side, x), angle)

    def erfc(self, x: Node) -> Node:
        """1 - erf(x): of few digits where erf is near 1."""
        return self.sub(self.constant(1, x), self.erf(x))

    def normal_gate(self, x: Node) -> Node:
        """x Phi(x)."""
        if self.g.opset >= 20 and x.dtype is dtypes.float32:
            return self.g.node("Gelu", x)
        share = self.erf(self.mul(x, self.constant(math.sqrt(0.5), x)))
        return self.mul(self.mul(x, self.constant(0.5, x)), self.add(self.constant(1, x), share))

    def normal_slope(self, x: Node) -> Node:
        """The derivative of x Phi(x)."""
        half, one = self.constant(0.5, x), self.constant(1, x)
        share = self.erf(self.mul(x, self.constant(math.sqrt(0.5), x)))
        bell = self.exp(self.neg(self.mul(half, self.mul(x, x))))
        density = self.mul(bell, self.constant(math.sqrt(0.5 / math.pi), x))
        return self.add(self.mul(half, self.add(one, share)), self.mul(x, density))
