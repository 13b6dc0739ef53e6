"""Integers and numbers whose value is known only when a plan is bound.

Type rules, gradient rules and composite bodies run once per structure.  Extents are given as
`SymInt` and scalars as `SymNumber`: both remember their computation, as an expression over the
operands' dims and the call's run-time arguments.  Every comparison that a rule makes of two
`SymInt` is kept as a guard.  The guards with outcomes are the *pattern* of the call: for new sizes
the core evaluates guards and result extents natively, and the rule does not run again.

An expression is an int, a float, or a tuple that starts with one of the opcodes below.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol, TypeAlias

from wend._engine.base.arithmetic import power, quotient
from wend._engine.base.errors import ArgumentTypeError, ShapeError
from wend._engine.base.shapes import unequal

# fmt: off
DIM, ARG, ADD, SUB, MUL, FLOORDIV, MOD, NEG, MIN, MAX, DIV, POW = range(12)
EQ, NE, LT, LE, GT, GE = range(20, 26)
# fmt: on
Expr = Any  # int | float | tuple[int, ...]
AnyInt: TypeAlias = "int | SymInt"
AnyNumber: TypeAlias = "int | SymInt | SymNumber"


class ExtentTable(Protocol):
    """The extents of operands by the operand's number: a list, a dict, ..."""

    def __getitem__(self, operand: int, /) -> Numbers: ...


class Numbers(Protocol):
    """Run-time numbers by place: a list, a dict, ..."""

    def __getitem__(self, place: int, /) -> Any: ...


class Operator(NamedTuple):
    """One operator of expressions, as all evaluators compute it.

    function: of two Python numbers
    native: whether compiled evaluators compute it for 64-bit integers: `core/_types.py` and
    `runtime/native/_bind.py`, which tests compare with this table

    There is no column for LLVM: generated code computes no extents, and reads them from argument
    blocks.
    """

    opcode: int
    name: str
    function: Callable[[Any, Any], Any]
    native: bool


#: All operators of two operands. DIM, ARG and NEG are the other forms of an expression.
OPERATORS = (
    Operator(ADD, "ADD", operator.add, native=True),
    Operator(SUB, "SUB", operator.sub, native=True),
    Operator(MUL, "MUL", operator.mul, native=True),
    Operator(FLOORDIV, "FLOORDIV", operator.floordiv, native=True),
    Operator(MOD, "MOD", operator.mod, native=True),
    Operator(MIN, "MIN", min, native=True),
    Operator(MAX, "MAX", max, native=True),
    Operator(DIV, "DIV", quotient, native=False),
    Operator(POW, "POW", power, native=False),
    Operator(EQ, "EQ", operator.eq, native=True),
    Operator(NE, "NE", operator.ne, native=True),
    Operator(LT, "LT", operator.lt, native=True),
    Operator(LE, "LE", operator.le, native=True),
    Operator(GT, "GT", operator.gt, native=True),
    Operator(GE, "GE", operator.ge, native=True),
)
_FUNCTIONS = {row.opcode: row.function for row in OPERATORS}
#: Signs of Python's operators of two operands, by the name in `operator`.
SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "matmul": "@", "and_": "&", "or_": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip
#: By id() of an expression: the expression, so that the id stays taken, and the replacement.
Known = dict[int, tuple[Expr, Expr]]


def evaluate(expr: Expr, dims: ExtentTable, args: Numbers) -> Any:
    """Value of `expr`, given dims[id][axis] and args[k].  The compiled core has its own copy."""
    if type(expr) is not tuple:
        return expr
    op = expr[0]
    if op == DIM:
        return dims[expr[1]][expr[2]]
    if op == ARG:
        return args[expr[1]]
    a = evaluate(expr[1], dims, args)
    if op == NEG:
        return -a
    b = evaluate(expr[2], dims, args)
    return apply_binary(op, a, b)


def apply_binary(op: int, a: complex, b: complex) -> Any:
    """One arithmetic or comparison step of an expression."""
    return compare(op, a, b) if op >= EQ else _FUNCTIONS[op](a, b)


def compare(op: int, a: complex, b: complex) -> bool:
    """Outcome of the comparison `op` of two numbers."""
    return bool(_FUNCTIONS[op](a, b))


def substitute(
    expr: Expr,
    dim_of: Callable[[int, int], Expr],
    arg_of: Callable[[int], Expr],
    known: Known | None = None,
) -> Expr:
    """`expr` with every DIM and ARG leaf replaced: dim_of(id, axis) and arg_of(k) give new leaves.

    known: replacements of shared parts, where several expressions get the same leaves. Offsets of a
    tensor's parts, say, are sums, and each sum contains the sums before.
    """
    if type(expr) is not tuple:
        return expr
    op = expr[0]
    if op == DIM:
        return dim_of(expr[1], expr[2])
    if op == ARG:
        return arg_of(expr[1])
    if known is not None:
        entry = known.get(id(expr))
        if entry is not None:
            return entry[1]
    a = substitute(expr[1], dim_of, arg_of, known)
    b = 0 if op == NEG else substitute(expr[2], dim_of, arg_of, known)
    replacement = make(op, a, b)
    if known is not None:
        known[id(expr)] = (expr, replacement)
    return replacement


def args_in(expr: Expr) -> set[int]:
    """The run-time args that an expression depends on, by number."""
    if type(expr) is not tuple or expr[0] == DIM:
        return set()
    if expr[0] == ARG:
        return {expr[1]}
    return {k for part in expr[1:] for k in args_in(part)}


def reads_extents(expr: Expr) -> bool:
    """Whether an expression depends on an extent of an operand."""
    if type(expr) is not tuple or expr[0] == ARG:
        return False
    return expr[0] == DIM or any(map(reads_extents, expr[1:]))


def make(op: int, a: Expr, b: Expr) -> Expr:
    """The expression `a op b`, with constants folded and neutral elements of integers dropped."""
    if type(a) is not tuple and type(b) is not tuple:
        return -a if op == NEG else apply_binary(op, a, b)
    if op == NEG:
        return (NEG, a)
    if type(b) is int:
        if b == 0 and op in (ADD, SUB):
            return a
        if b == 1 and op in (MUL, FLOORDIV):
            return a
    if type(a) is int:
        if a == 0 and op == ADD:
            return b
        if a == 1 and op == MUL:
            return b
    if op in (MIN, MAX) and a == b:
        return a
    if op == SUB and a == b:
        return 0
    return (op, a, b)


class Guards:
    """The comparisons of a run of a rule, with their outcomes: the pattern of the run."""

    __slots__ = ("items",)

    def __init__(self) -> None:
        self.items: dict[tuple[int, Expr, Expr], bool] = {}

    def add(self, op: int, a: Expr, b: Expr, outcome: bool) -> None:
        """Keep a comparison; comparisons of constants tell nothing and are dropped."""
        if type(a) is tuple or type(b) is tuple:
            self.items[(op, a, b)] = outcome


class SymNumber:
    """A run-time Python number inside a rule: arithmetic builds an expression, nothing else works.

    `category` is bool, int, float or complex as in dtypes (0..3).  A rule cannot branch on the
    value: a choice that is made while recording is to be declared as an attribute of the op.
    """

    __slots__ = ("category", "expr", "hint")

    def __init__(self, expr: Expr, category: int, hint: Any = None) -> None:
        self.expr = expr
        self.category = category
        self.hint = hint

    def _binary(self, op: int, other: object, swap: bool = False) -> SymNumber:
        if isinstance(other, SymNumber):
            e, c, h = other.expr, other.category, other.hint
        elif isinstance(other, SymInt):
            e, c, h = other.expr, 1, other.hint
        elif isinstance(other, (bool, int, float, complex)):
            e, c, h = other, category_of(other), other
        else:
            return NotImplemented  # type: ignore[no-any-return]
        a, b = (e, self.expr) if swap else (self.expr, e)
        category = max(self.category, c, 2 if op == DIV else 1)
        hint = None
        if h is not None and self.hint is not None:
            try:
                hint = apply_binary(op, h, self.hint) if swap else apply_binary(op, self.hint, h)
            except (ArithmeticError, ValueError):
                # A symbolic number may have no hint: a division by 0, say.
                hint = None
        return SymNumber(make(op, a, b), category, hint)

    # fmt: off
    def __add__(self, o: object) -> SymNumber: return self._binary(ADD, o)
    def __radd__(self, o: object) -> SymNumber: return self._binary(ADD, o, True)
    def __sub__(self, o: object) -> SymNumber: return self._binary(SUB, o)
    def __rsub__(self, o: object) -> SymNumber: return self._binary(SUB, o, True)
    def __mul__(self, o: object) -> SymNumber: return self._binary(MUL, o)
    def __rmul__(self, o: object) -> SymNumber: return self._binary(MUL, o, True)
    def __truediv__(self, o: object) -> SymNumber: return self._binary(DIV, o)
    def __rtruediv__(self, o: object) -> SymNumber: return self._binary(DIV, o, True)
    def __floordiv__(self, o: object) -> SymNumber: return self._binary(FLOORDIV, o)
    def __rfloordiv__(self, o: object) -> SymNumber: return self._binary(FLOORDIV, o, True)
    def __pow__(self, o: object) -> SymNumber: return self._binary(POW, o)
    def __rpow__(self, o: object) -> SymNumber: return self._binary(POW, o, True)
    # fmt: on
    def __neg__(self) -> SymNumber:
        hint = None if self.hint is None else -self.hint
        return SymNumber(make(NEG, self.expr, 0), self.category, hint)

    def __bool__(self) -> bool:
        raise ArgumentTypeError(
            "a run-time scalar was branched on inside a rule: declare it as an attribute instead"
        )

    def __float__(self) -> float:
        raise ArgumentTypeError(
            "a run-time scalar was read inside a rule: declare it as an attribute instead"
        )

    def conjugate(self) -> SymNumber:
        """This number: symbols stand for real numbers. Raises ArgumentTypeError for complex."""
        if self.category == 3:
            raise ArgumentTypeError("the conjugate of a complex run-time scalar is no expression")
        return self

    def _unknown(self) -> float:
        """Raises ArgumentTypeError: the answer depends on the value, which is not known yet."""
        return self.__float__()

    as_integer_ratio = hex = is_integer = _unknown

    def __repr__(self) -> str:
        return f"SymNumber({self.expr!r})"


class SymInt:
    """An extent inside a rule.  Arithmetic builds an expression; comparing records a guard."""

    __slots__ = ("expr", "guards", "hint")

    def __init__(self, expr: Expr, hint: int, guards: Guards) -> None:
        self.expr = expr
        self.hint = hint
        self.guards = guards

    def _binary(self, op: int, other: object, swap: bool = False) -> Any:
        if isinstance(other, SymInt):
            e, h = other.expr, other.hint
        elif isinstance(other, int):
            e = h = int(other)
        elif isinstance(other, (float, SymNumber)):
            mine = SymNumber(self.expr, 1, self.hint)
            return mine._binary(op, other, swap)
        else:
            return NotImplemented
        if op in (DIV, POW):
            return SymNumber(self.expr, 1, self.hint)._binary(op, other, swap)
        a, b, x, y = (e, self.expr, h, self.hint) if swap else (self.expr, e, self.hint, h)
        expr = make(op, a, b)
        return SymInt(expr, apply_binary(op, x, y), self.guards) if type(expr) is tuple else expr

    # fmt: off
    def __add__(self, o: object) -> Any: return self._binary(ADD, o)
    def __radd__(self, o: object) -> Any: return self._binary(ADD, o, True)
    def __sub__(self, o: object) -> Any: return self._binary(SUB, o)
    def __rsub__(self, o: object) -> Any: return self._binary(SUB, o, True)
    def __mul__(self, o: object) -> Any: return self._binary(MUL, o)
    def __rmul__(self, o: object) -> Any: return self._binary(MUL, o, True)
    def __floordiv__(self, o: object) -> Any: return self._binary(FLOORDIV, o)
    def __rfloordiv__(self, o: object) -> Any: return self._binary(FLOORDIV, o, True)
    def __mod__(self, o: object) -> Any: return self._binary(MOD, o)
    def __rmod__(self, o: object) -> Any: return self._binary(MOD, o, True)
    def __truediv__(self, o: object) -> Any: return self._binary(DIV, o)
    def __rtruediv__(self, o: object) -> Any: return self._binary(DIV, o, True)
    def __pow__(self, o: object) -> Any: return self._binary(POW, o)
    def __neg__(self) -> SymInt: return SymInt((NEG, self.expr), -self.hint, self.guards)
    # fmt: on

    def _compare(self, op: int, other: object) -> bool:
        h: complex
        if isinstance(other, SymInt):
            if other.expr == self.expr:
                return op in (EQ, LE, GE)
            e, h = other.expr, other.hint
        elif isinstance(other, (int, float)):
            e = h = other
        else:
            return NotImplemented  # type: ignore[no-any-return]
        outcome = compare(op, self.hint, h)
        self.guards.add(op, self.expr, e, outcome)
        return outcome

    # fmt: off
    def __eq__(self, o: object) -> bool: return self._compare(EQ, o)
    def __ne__(self, o: object) -> bool: return self._compare(NE, o)
    def __lt__(self, o: object) -> bool: return self._compare(LT, o)
    def __le__(self, o: object) -> bool: return self._compare(LE, o)
    def __gt__(self, o: object) -> bool: return self._compare(GT, o)
    def __ge__(self, o: object) -> bool: return self._compare(GE, o)
    # fmt: on
    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return bool(self._compare(NE, 0))

    def conjugate(self) -> SymInt:
        """This extent, as of any int."""
        return self

    def as_integer_ratio(self) -> tuple[SymInt, int]:
        """(this extent, 1), as of any int."""
        return self, 1

    def bit_length(self) -> int:
        """Number of binary digits of the magnitude; the pattern holds for that number only."""
        size, digits = (-self if self < 0 else self), 0
        while size >= 1 << digits:
            digits += 1
        return digits

    def _refuse(self) -> Any:
        raise ArgumentTypeError(
            "an extent was turned into a plain int inside a rule: extents may only be computed "
            "with and passed on as sizes or scalars, or the rule would hold for one size only"
        )

    __int__ = __index__ = __float__ = _refuse

    def __repr__(self) -> str:
        return f"SymInt({self.expr!r}, hint={self.hint})"

    def __str__(self) -> str:
        return str(self.hint)

    def __format__(self, spec: str) -> str:
        return format(self.hint, spec)


def category_of(number: object) -> int:
    """0 bool, 1 int, 2 float, 3 complex: the dtype category of a Python number."""
    if isinstance(number, bool):
        return 0
    if isinstance(number, (int, SymInt)):
        return 1
    if isinstance(number, SymNumber):
        return number.category
    if isinstance(number, complex):
        return 3
    return 2


def hint_of(value: object) -> Any:
    """The concrete value of a symbolic number at the time of its tracing; all else unchanged."""
    return value.hint if isinstance(value, (SymInt, SymNumber)) else value


def expr_of(value: object) -> Expr:
    """The expression of a symbolic number; plain numbers are their own expression."""
    return value.expr if isinstance(value, (SymInt, SymNumber)) else value


def sym_min(a: AnyNumber, b: AnyNumber) -> Any:
    """min(a, b) without a guard."""
    return _min_max(MIN, a, b)


def sym_max(a: AnyNumber, b: AnyNumber) -> Any:
    """max(a, b) without a guard."""
    return _min_max(MAX, a, b)


def _min_max(op: int, a: AnyNumber, b: AnyNumber) -> Any:
    if isinstance(a, (SymInt, SymNumber)):
        return a._binary(op, b)
    if isinstance(b, (SymInt, SymNumber)):
        return b._binary(op, a, True)
    return apply_binary(op, a, b)


def numel(shape: Iterable[AnyInt]) -> AnyInt:
    """Product of the extents; an int or a SymInt."""
    n: AnyInt = 1
    for extent in shape:
        n = n * extent
    return n


def hints(shape: Iterable[AnyInt]) -> tuple[int, ...]:
    """The concrete extents behind a shape, for error messages."""
    return tuple(hint_of(n) for n in shape)


def broadcast_shapes(name: str, *shapes: Iterable[AnyInt]) -> tuple[Any, ...]:
    """The common shape of the operands of `name`, by NumPy's rule.

    Per dim the first matching relation is kept: same extent, then left is 1, then right is 1.
    Raises ShapeError that names both shapes and the first dim that does not fit.
    """
    out: tuple[Any, ...] = tuple(shapes[0])
    for shape in shapes[1:]:
        out = _broadcast_two(name, out, tuple(shape))
    return out


def _broadcast_two(name: str, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    rank = max(len(a), len(b))
    result: list[Any] = []
    for axis in range(-rank, 0):
        if -axis > len(a):
            result.append(b[axis])
        elif -axis > len(b) or a[axis] == b[axis]:
            result.append(a[axis])
        elif a[axis] == 1:
            result.append(b[axis])
        elif b[axis] == 1:
            result.append(a[axis])
        else:
            raise ShapeError(
                f"{name}: shapes {hints(a)} and {hints(b)} do not broadcast: "
                f"dim {axis} has sizes {a[axis]} and {b[axis]} "
                f"({unequal(a[axis], b[axis], axis, rank)})"
            )
    return tuple(result)
