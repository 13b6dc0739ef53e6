"""Integers and conditions with Python's operators: of a function in the making, or known now.

    few = (p.rows <= 4) & (p.depth * p.step < LARGE)

    f = Routine("f", [("i64", "n")])
    with f.when(Int("%n", f) < 5):      # instructions of f, in the order in which Python computes
        ...
    bool(Int(3) < 5)                    # True: nothing is written

So a single text says when a variant of a kernel applies, in the kernel's code and to callers who
ask beforehand. `==` and `!=` make conditions as well. Only conditions known now have a truth value.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

#: An i64 in LLVM's text, or an `Int`.
Word: TypeAlias = "str | Int"

_KNOWN: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul,
    "udiv": operator.floordiv, "urem": operator.mod,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor,
}  # fmt: skip
_RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq, "ne": operator.ne, "slt": operator.lt, "sle": operator.le,
    "sgt": operator.gt, "sge": operator.ge,
}  # fmt: skip


class CodeLines(Protocol):
    """A function in the making: see `text.Text`."""

    def let(self, instruction: str, hint: str = "") -> str:
        """Append an instruction. Returns the name of the result."""


class Int:
    """An i64. `//` and `%` are for operands from 0 on.

    value: the name or literal in the text of a function, or the number itself
    f: the function; None for a number that is known now
    """

    __slots__ = ("f", "value")
    __hash__ = None  # type: ignore[assignment]  # `==` makes a condition

    def __init__(self, value: str | int, f: CodeLines | None = None) -> None:
        self.f, self.value = f, value

    def __str__(self) -> str:
        return str(self.value)

    __repr__ = __str__

    def _two(self, name: str, x: Int | int, y: Int | int) -> Int:
        if self.f is None:
            a = x.value if isinstance(x, Int) else x
            return Int(_KNOWN[name](a, y.value if isinstance(y, Int) else y))
        return Int(self.f.let(f"{name} i64 {x}, {y}"), self.f)

    def _is(self, relation: str, x: Int | int) -> Bool:
        if self.f is None:
            return Bool(_RELATIONS[relation](self.value, x.value if isinstance(x, Int) else x))
        return Bool(self.f.let(f"icmp {relation} i64 {self}, {x}"), self.f)

    # fmt: off
    def __add__(self, x: Int | int) -> Int: return self._two("add", self, x)
    def __sub__(self, x: Int | int) -> Int: return self._two("sub", self, x)
    def __mul__(self, x: Int | int) -> Int: return self._two("mul", self, x)
    def __floordiv__(self, x: Int | int) -> Int: return self._two("udiv", self, x)
    def __mod__(self, x: Int | int) -> Int: return self._two("urem", self, x)
    def __and__(self, x: Int | int) -> Int: return self._two("and", self, x)
    def __radd__(self, x: int) -> Int: return self._two("add", x, self)
    def __rsub__(self, x: int) -> Int: return self._two("sub", x, self)
    def __rmul__(self, x: int) -> Int: return self._two("mul", x, self)
    def __rfloordiv__(self, x: int) -> Int: return self._two("udiv", x, self)
    def __eq__(self, x: Int | int) -> Bool: return self._is("eq", x)  # type: ignore[override]
    def __ne__(self, x: Int | int) -> Bool: return self._is("ne", x)  # type: ignore[override]
    def __lt__(self, x: Int | int) -> Bool: return self._is("slt", x)
    def __le__(self, x: Int | int) -> Bool: return self._is("sle", x)
    def __gt__(self, x: Int | int) -> Bool: return self._is("sgt", x)
    def __ge__(self, x: Int | int) -> Bool: return self._is("sge", x)
    # fmt: on

    def ceil_div(self, x: int) -> Int:
        """self / x rounded up, for self >= 0"""
        return (self + (x - 1)) // x

    def at_most(self, x: Int | int) -> Int:
        """The smaller of two integers"""
        return (self < x).choose(self, x)

    def at_least(self, x: Int | int) -> Int:
        """The larger of two integers"""
        return (self < x).choose(x, self)

    def is_within(self, most: Int | int) -> Bool:
        """Whether 0 <= self <= most, for most >= 0"""
        if self.f is None:
            return (self >= 0) & (self <= most)
        return self._is("ule", most)


class Bool:
    """A condition: an i1. `&`, `|` and `~` compute both sides.

    value: the name or literal in the text of a function, or the truth value
    f: the function; None for a condition that is known now
    """

    __slots__ = ("f", "value")

    def __init__(self, value: str | bool, f: CodeLines | None = None) -> None:
        self.f, self.value = f, value

    def __str__(self) -> str:
        return self.value if isinstance(self.value, str) else str(self.value).lower()

    __repr__ = __str__

    def __bool__(self) -> bool:
        if self.f is not None:
            raise TypeError(f"the condition {self} is known only when the code runs")
        return bool(self.value)

    def _two(self, name: str, x: Bool | bool) -> Bool:
        if self.f is None:
            return Bool(_KNOWN[name](self.value, x.value if isinstance(x, Bool) else x))
        return Bool(self.f.let(f"{name} i1 {self}, {_literal(x)}"), self.f)

    # fmt: off
    def __and__(self, x: Bool | bool) -> Bool: return self._two("and", x)
    def __or__(self, x: Bool | bool) -> Bool: return self._two("or", x)
    def __invert__(self) -> Bool: return self._two("xor", True)
    # fmt: on

    def choose(self, x: Int | int, y: Int | int) -> Int:
        """x where the condition holds, else y"""
        if self.f is None:
            chosen = x if self.value else y
            return chosen if isinstance(chosen, Int) else Int(chosen)
        return Int(self.f.let(f"select i1 {self}, i64 {x}, i64 {y}"), self.f)


def _literal(x: Bool | bool) -> str:
    return str(x if isinstance(x, Bool) else Bool(x))


def every(conditions: Sequence[Bool]) -> Bool:
    """All of some conditions, which are there before any two of them are joined"""
    conjunction = conditions[0]
    for condition in conditions[1:]:
        conjunction = conjunction & condition
    return conjunction
