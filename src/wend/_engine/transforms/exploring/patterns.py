"""Which comparisons of a type rule matter: those without which a result would have another shape.

The rule of an op has run for the sizes of a run, and compares some. Most comparisons are checks, or
choose between ways that lead to the same shapes. A comparison on which the shapes depend is a
question of the program, as one in the user's code is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from wend._engine.core import _types
from wend._engine.core._types import Program
from wend._engine.core.primitive import Primitive
from wend._engine.core.symbolic import (
    ADD,
    ARG,
    DIM,
    FLOORDIV,
    MAX,
    MIN,
    MOD,
    MUL,
    Expr,
    apply_binary,
    evaluate,
)

Guard = tuple[int, Expr, Expr, bool]
SIZES = (1, 2, 3, 5, 8)


def leaves_of(expr: Expr) -> Iterator[Expr]:
    """The extents and numbers of operands that an expression reads."""
    if type(expr) is tuple:
        if expr[0] in (DIM, ARG):
            yield expr
        else:
            for part in expr[1:]:
                yield from leaves_of(part)


def matters(
    prim: Primitive,
    program: Program,
    guard: Guard,
    types: Sequence[Any],
    args: Sequence[Any],
    symbols: set[Expr],
) -> bool:
    """Whether the other outcome of a guard of a pattern gives results other shapes.

    types, args: those that the pattern was made for
    symbols: the extents and numbers of operands that may differ from call to call
    """
    if not any(leaf in symbols for e in guard[1:3] for leaf in leaves_of(e)):
        return False
    shapes = [tuple(t.shape) for t in types]
    for other_shapes, other_args in _others(guard, shapes, list(args), symbols):
        others = [
            _types.intern_type(s, t.dtype, t.device)
            for s, t in zip(other_shapes, types, strict=True)
        ]
        try:
            outs = prim.typed(others, other_args)[1]
            expected = [
                tuple([evaluate(e, other_shapes, other_args) for e in row])
                for row, _ in program.outs
            ]
        except Exception:  # the op refuses these sizes, here as in the program
            continue
        if [tuple(t.shape) for t in outs] != expected:
            return True
    return False


def _others(
    guard: Guard,
    shapes: list[tuple[int, ...]],
    args: list[Any],
    symbols: set[Expr],
) -> Iterator[tuple[list[tuple[int, ...]], list[Any]]]:
    """Sizes and numbers for which a comparison has the other outcome."""
    op, a, b, outcome = guard
    leaves = [x for e in (a, b) for x in leaves_of(e) if x in symbols]
    every: list[Expr] = [(DIM, i, k) for i, s in enumerate(shapes) for k in range(len(s))]
    every += [(ARG, k) for k, x in enumerate(args) if type(x) is int]
    numbers = {evaluate(x, shapes, args) for x in leaves} | {
        n for e in (a, b) for n in [evaluate(e, shapes, args)]
    }
    numbers = {n for n in numbers if type(n) is int}
    tried = sorted({*SIZES, *numbers, *(n + k for n in numbers for k in (-1, 1))})
    for leaf in dict.fromkeys(leaves):
        now = evaluate(leaf, shapes, args)
        alike = [x for x in every if x in symbols and evaluate(x, shapes, args) == now]
        for n in tried:
            for chosen in ([leaf], alike):
                dims = [list(s) for s in shapes]
                numbers_now = list(args)
                for x in chosen:
                    if x[0] == ARG:
                        numbers_now[x[1]] = n
                    elif n > 0:
                        dims[x[1]][x[2]] = n
                try:
                    left, right = [evaluate(e, dims, numbers_now) for e in (a, b)]
                    flipped = bool(apply_binary(op, left, right)) is not outcome
                except ArithmeticError:  # these sizes make an expression divide by 0
                    continue
                if flipped:
                    yield [tuple(s) for s in dims], numbers_now


def is_not_negative(expr: Expr, natural: Collection[int] = ()) -> bool:
    """Whether an expression over extents and numbers is never below 0.

    natural: the ids of numbers that are not
    """
    if type(expr) is not tuple:
        return bool(expr >= 0)
    if expr[0] == DIM:
        return True
    if expr[0] == ARG:
        return expr[1] in natural
    if expr[0] == MAX:
        return any(is_not_negative(e, natural) for e in expr[1:])
    if expr[0] == MOD:
        return is_not_negative(expr[2], natural)
    if expr[0] in (ADD, MIN, MUL, FLOORDIV):
        return all(is_not_negative(e, natural) for e in expr[1:])
    return False


def broadcast(shapes: Sequence[Sequence[Expr]]) -> list[list[Expr]]:
    """Per dim of a result, the extents that decide it; several if none of them is a number."""
    rank = max([len(s) for s in shapes] or [0])
    extents = []
    for axis in range(-rank, 0):
        known = dict.fromkeys([s[axis] for s in shapes if len(s) >= -axis])
        rest = [e for e in known if type(e) is tuple or e != 1]
        fixed = [e for e in rest if type(e) is not tuple]
        extents.append(fixed[:1] or rest or [1])
    return extents
