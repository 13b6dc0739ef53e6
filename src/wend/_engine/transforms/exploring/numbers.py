"""Extents and numbers of an explored function, whose comparisons are noticed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, TypeVar

from wend._engine.core.symbolic import (
    ARG,
    DIM,
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    NEG,
    Expr,
    SymInt,
    SymNumber,
    compare,
    expr_of,
    hint_of,
    make,
)

_TURNED = {LT: GT, GT: LT, LE: GE, GE: LE, EQ: EQ, NE: NE}


class Questions(Protocol):
    """The run of a function that is being explored, as far as numbers need to know."""

    numbers: list[Any]

    def is_of_inputs(self, expr: Expr) -> bool:
        """Whether a number follows from the sizes of the inputs alone."""

    def known_order(self, op: int, number: SymInt, other: object) -> bool | None:
        """The answer to a comparison with the number of a turn, where the loop's bounds tell it."""

    def decide(self, op: int, a: Expr, b: Expr, outcome: bool) -> bool:
        """A comparison in the user's code, a question; but where only one outcome is possible."""

    def fix(self, expr: Expr, hint: Any) -> Any:
        """A number that the user's code needs as a plain number."""

    def is_key(self, number: SymInt, other: object) -> bool:
        """Whether the hash of the number was just asked for, and was that of the plain number."""

    def hash_of(self, number: Any) -> int:
        """The hash of an int: that of the plain number that the int is equal to, if any."""

    def convert(self, kind: str) -> None:
        """The user's code makes a plain number of a number."""

    def rounded(self, number: SymNumber, how: str) -> Any:
        """A float as an int."""

    def shown(self, text: str) -> str:
        """The text of a number that the user's code formats."""


def leaves_of(expr: Expr) -> Iterator[Any]:
    """The DIM and ARG leaves of an expression."""
    if type(expr) is tuple:
        if expr[0] in (DIM, ARG):
            yield expr
        else:
            for part in expr[1:]:
                yield from leaves_of(part)


def ids_of(expr: Expr) -> Iterator[int]:
    """The ids of the values and numbers that an expression reads."""
    for leaf in leaves_of(expr):
        yield leaf[1]


T = TypeVar("T", "Extent", "AskedNumber")


def noted(number: T) -> T:
    """The number, which the run now knows: an expression may hold it while a question is asked."""
    number.guards.numbers.append(number)
    return number


class Extent(SymInt):
    """An int of an explored function: an extent, a number read from a tensor, or made of such.

    A comparison is a guard of the program, or a question if values decide.  Turned into
    a plain int, the number is fixed by a guard.
    """

    __slots__ = ()
    guards: Any  # the run, which answers `Questions`
    is_extent = True  # `base.shapes` lets such items pass

    def __init__(self, expr: Expr, hint: int, guards: Any) -> None:
        super().__init__(expr, hint, guards)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """`int`, so that `isinstance(x.shape[0], int)` holds in the user's checks."""
        return int

    def _binary(self, op: int, other: object, swap: bool = False) -> Any:
        number = super()._binary(op, other, swap)
        if isinstance(number, SymInt) and not isinstance(number, Extent):
            return noted(Extent(number.expr, number.hint, self.guards))
        if isinstance(number, SymNumber) and not isinstance(number, AskedNumber):
            return noted(AskedNumber(number.expr, number.category, number.hint, self.guards))
        return number

    def __neg__(self) -> Extent:
        return noted(Extent(make_negative(self.expr), -self.hint, self.guards))

    def __pos__(self) -> Extent:
        return self

    def __abs__(self) -> Extent:
        return -self if self < 0 else self

    def __divmod__(self, other: object) -> tuple[Any, Any]:
        return self // other, self % other

    def _compare(self, op: int, other: object) -> bool:
        if isinstance(other, SymInt) and other.expr == self.expr:
            return op in (EQ, LE, GE)
        if not isinstance(other, (int, float, SymInt, SymNumber)):
            return NotImplemented  # type: ignore[no-any-return]
        outcome = compare(op, self.hint, hint_of(other))
        run: Questions = self.guards
        if op == EQ and run.is_key(self, other):
            return True
        known = run.known_order(op, self, other)
        if known is None and isinstance(other, SymInt):
            known = run.known_order(_TURNED[op], other, self)
        if known is not None:
            return known
        return run.decide(op, self.expr, expr_of(other), outcome)

    # fmt: off
    def __eq__(self, o: object) -> bool: return self._compare(EQ, o)
    def __ne__(self, o: object) -> bool: return self._compare(NE, o)
    # fmt: on

    def __hash__(self) -> int:  # type: ignore[override]
        run: Questions = self.guards
        return run.hash_of(self)

    def _fixed(self) -> int:
        """The plain int, which a guard says is always the same."""
        run: Questions = self.guards
        return int(run.fix(self.expr, self.hint))

    def __int__(self) -> int:
        run: Questions = self.guards
        run.convert("int")
        return self._fixed()

    def __float__(self) -> float:
        run: Questions = self.guards
        run.convert("float")
        return float(self._fixed())

    def _same(self) -> Extent:
        return self

    __index__ = _fixed
    __trunc__ = __floor__ = __ceil__ = _same

    def __round__(self, digits: int | None = None) -> Extent:
        return self

    def __format__(self, spec: str) -> str:
        return self._shown(format(self.hint, spec))

    def __repr__(self) -> str:
        return self._shown(repr(self.hint))

    def _shown(self, text: str) -> str:
        run: Questions = self.guards
        return text if run.is_of_inputs(self.expr) else run.shown(text)


def make_negative(expr: Expr) -> Expr:
    """-expr."""
    return make(NEG, expr, 0)


class AskedNumber(SymNumber):
    """A float of an explored function, as `Extent` is an int."""

    __slots__ = ("guards",)

    def __init__(self, expr: Expr, category: int, hint: Any, guards: Any) -> None:
        super().__init__(expr, category, hint)
        self.guards: Questions = guards

    def _binary(self, op: int, other: object, swap: bool = False) -> Any:
        number = super()._binary(op, other, swap)
        if isinstance(number, SymNumber):
            return noted(AskedNumber(number.expr, number.category, number.hint, self.guards))
        return number

    def __neg__(self) -> AskedNumber:
        return noted(AskedNumber(make_negative(self.expr), self.category, -self.hint, self.guards))

    def _compare(self, op: int, other: object) -> bool:
        if not isinstance(other, (int, float, SymInt, SymNumber)):
            return NotImplemented  # type: ignore[no-any-return]
        outcome = compare(op, self.hint, hint_of(other))
        return self.guards.decide(op, self.expr, expr_of(other), outcome)

    # fmt: off
    def __eq__(self, o: object) -> bool: return self._compare(EQ, o)
    def __ne__(self, o: object) -> bool: return self._compare(NE, o)
    def __lt__(self, o: object) -> bool: return self._compare(LT, o)
    def __le__(self, o: object) -> bool: return self._compare(LE, o)
    def __gt__(self, o: object) -> bool: return self._compare(GT, o)
    def __ge__(self, o: object) -> bool: return self._compare(GE, o)
    # fmt: on

    def __bool__(self) -> bool:
        return bool(self._compare(NE, 0))

    def __hash__(self) -> int:
        return hash(self._fixed())

    def _fixed(self) -> float:
        return float(self.guards.fix(self.expr, self.hint))

    def __float__(self) -> float:
        self.guards.convert("float")
        return self._fixed()

    def __int__(self) -> int:
        self.guards.convert("int")
        return int(self._fixed())

    def __trunc__(self) -> Any:
        return self.guards.rounded(self, "trunc")

    def __floor__(self) -> Any:
        return self.guards.rounded(self, "floor")

    def __ceil__(self) -> Any:
        return self.guards.rounded(self, "ceil")

    def __round__(self, digits: int | None = None) -> Any:
        if digits is None:
            return self.guards.rounded(self, "round")
        return round(self._fixed(), digits)

    def __format__(self, spec: str) -> str:
        return self._shown(format(self.hint, spec))

    def __repr__(self) -> str:
        return self._shown(repr(self.hint))

    def _shown(self, text: str) -> str:
        run: Questions = self.guards
        return text if run.is_of_inputs(self.expr) else run.shown(text)
