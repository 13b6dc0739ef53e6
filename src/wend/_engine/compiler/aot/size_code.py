"""C code for numbers that follow from sizes and numbers: extents, guards, run-time numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from wend._engine.base.errors import CompileError
from wend._engine.compiler.ir.symbolic_extents import Extents, Poly, known
from wend._engine.core import symbolic
from wend._engine.core.symbolic import (
    ADD,
    DIM,
    DIV,
    FLOORDIV,
    MAX,
    MIN,
    MOD,
    MUL,
    NEG,
    POW,
    SUB,
    Expr,
)

_SIGNS: Final = {
    ADD: "+", SUB: "-", MUL: "*", symbolic.EQ: "==", symbolic.NE: "!=", symbolic.LT: "<",
    symbolic.LE: "<=", symbolic.GT: ">", symbolic.GE: ">=",
}  # fmt: skip
#: Functions of the generated file, for integers and for floats.
_CALLS: Final = {
    FLOORDIV: ("floor_division", "floor_quotient"),
    MOD: ("remainder_of", "real_remainder"),
    MIN: ("least", "fmin"),
    MAX: ("greatest", "fmax"),
    POW: ("", "pow"),
}


def integer(n: int) -> str:
    """Return an integer as C text."""
    return f"INT64_C({n})" if n >= 0 else f"(-INT64_C({-n}))"


class SizeCode:
    """Writes statements that compute numbers; each number is computed once.

    dim: function from (id, axis) to C text of an extent, or to the expression of an extent
    number: function from an id to (C text, whether it is a double) of a number
    extents: the extents of the compiled function, for polynomials; None where there are none
    """

    def __init__(
        self,
        dim: Callable[[int, int], Any],
        number: Callable[[int], tuple[str, bool]],
        extents: Extents | None = None,
    ) -> None:
        self._dim, self._number, self.extents = dim, number, extents
        self.lines: list[str] = []
        self._names: dict[Any, str] = {}

    def named(self, key: Any, kind: str, text: str) -> str:
        """Return the name of a constant of the C code with this value, made once for a key."""
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = f"n{len(self._names)}"
            self.lines.append(f"const {kind} {name} = {text};")
        return name

    def dim(self, i: int, axis: int) -> str:
        """Return the extent of a dim of a value."""
        extent = self._dim(i, axis)
        if not isinstance(extent, str):
            return self.whole(extent)
        return self.named(("dim", i, axis), "int64_t", extent)

    def arg(self, k: int) -> tuple[str, bool]:
        """Return (C text, whether it is a double) of a number."""
        text, real = self._number(k)
        return self.named(("arg", k), _kind(real), text), real

    def whole(self, expr: Expr) -> str:
        """Return an expression that is an integer."""
        text, real = self.expr(expr)
        if real:
            raise CompileError(f"aot: {expr} is no integer")
        return text

    def real(self, expr: Expr) -> str:
        """Return an expression as a double."""
        text, real = self.expr(expr)
        return text if real else f"(double){text}"

    def expr(self, expr: Expr) -> tuple[str, bool]:
        """Return (C text, whether it is a double) of an expression over dims and numbers."""
        if type(expr) is not tuple:
            if isinstance(expr, float):
                return _real(expr), True
            if isinstance(expr, complex):
                raise CompileError(f"aot: the complex number {expr} is not supported")
            return integer(int(expr)), False
        op = expr[0]
        if op == DIM:
            return self.dim(expr[1], expr[2]), False
        if op == symbolic.ARG:
            return self.arg(expr[1])
        a, real = self.expr(expr[1])
        if op == NEG:
            return self.named((op, a), _kind(real), f"-{a}"), real
        b, other = self.expr(expr[2])
        real = real or other or op in (DIV, POW)
        text = self._binary(op, a, b, real)
        real = real and op < symbolic.EQ
        return self.named((op, a, b), _kind(real), text), real

    @staticmethod
    def _binary(op: int, a: str, b: str, real: bool) -> str:
        if op == DIV:
            return f"(double){a} / (double){b}"
        if op in _CALLS:
            return f"{_CALLS[op][real]}({a}, {b})"
        return f"{a} {_SIGNS[op]} {b}"

    def guard(self, op: int, a: Expr, b: Expr, outcome: bool) -> str:
        """Return a condition that holds where a comparison has this outcome; "" for always."""
        if a == b:  # the same number for all sizes, so the outcome always is the same
            return ""
        (x, _), (y, _) = self.expr(a), self.expr(b)
        return f"{'' if outcome else '!'}({x} {_SIGNS[op]} {y})"

    # -- polynomials ------------------------------------------------------------------------

    def poly(self, p: Poly) -> str:
        """Return the value of a polynomial of the compiled function."""
        number = known(p)
        if number is not None:
            return integer(number)
        terms = []
        for monomial, factor in p:
            factors = [self.atom(a) for a in monomial]
            if factor != 1 or not factors:
                factors.insert(0, integer(factor))
            terms.append(" * ".join(factors))
        return self.named(("poly", p), "int64_t", " + ".join(terms))

    def atom(self, a: int) -> str:
        """Return the value of an atom."""
        assert self.extents is not None
        key = self.extents.atoms[a]
        if key[0] == "dim":
            return self.dim(key[1], key[2])
        if key[0] == "arg":
            return self.arg(key[1])[0]
        if not isinstance(key[0], int):
            raise CompileError(f"aot: the number {key} is not known before a run")
        x, y = self.poly(key[1]), self.poly(key[2])
        return self.named(("atom", a), "int64_t", self._binary(key[0], x, y, False))


def _kind(real: bool) -> str:
    return "double" if real else "int64_t"


def _real(number: float) -> str:
    """Return a float as C text, with all of its bits."""
    if number != number:
        return "(double)NAN"
    if number in (float("inf"), float("-inf")):
        return f"({'-' if number < 0 else ''}(double)INFINITY)"
    return f"({number.hex()})"
