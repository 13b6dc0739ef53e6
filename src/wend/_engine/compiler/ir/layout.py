"""The layouts of views: strides and offsets as polynomials.

The `strides` rule of a view runs once on symbolic extents and strides.  The rule may only make
comparisons that the type rule has made as well, or that the known equalities of extents decide.
The outcome of any other comparison would follow from the sizes of one visit.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from wend._engine.base.errors import WendError
from wend._engine.compiler.ir.loops import Function, View
from wend._engine.compiler.ir.symbolic_extents import (
    ONE,
    ZERO,
    Extents,
    Poly,
    add,
    known,
    mul,
    product,
)
from wend._engine.core.graph import Node
from wend._engine.core.symbolic import EQ, NE, Guards, SymInt
from wend._engine.ops.views.family import Permutation
from wend._engine.ops.views.reshapes import Reshaping
from wend._engine.ops.views.slicing import Expand, ExpandTo

Strides = tuple[Poly, ...]


def orders_read(prims: Iterable[Any], rank: int) -> set[tuple[int, ...]]:
    """Return the orders of dims in which ops read a value: of permutations, or the plain order."""
    plain = tuple(range(rank))
    return {tuple(p.order(rank)) if isinstance(p, Permutation) else plain for p in prims}


def ordered(shape: tuple[Poly, ...], order: tuple[int, ...]) -> Strides:
    """Return the strides of a dense tensor whose dims lie in this order, the last dim fastest."""
    strides = [ONE] * len(shape)
    step = ONE
    for d in reversed(order):
        strides[d] = step
        step = mul(step, shape[d])
    return tuple(strides)


def is_dense(shape: tuple[Poly, ...], strides: Strides) -> bool:
    """Return whether strides are row-major for all sizes; strides of extents of 1 do not count."""
    step = ONE
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != ONE and stride != step:
            return False
        step = mul(step, extent)
    return True


def view_of(function: Function, view: View, strides: Strides, offset: Poly) -> Any:
    """Return (strides, offset) of a view of a value with these strides and this offset.

    Returns None if the view has to be copied.
    """
    shape, target = function.shape(view.source), function.shape(view.value)
    if isinstance(view.node.prim, Reshaping):
        new_strides = reshaped(function.extents, shape, strides, target)
        return None if new_strides is None else (new_strides, offset)
    if isinstance(view.node.prim, (Expand, ExpandTo)):
        repeats = repeated(view.node.prim, shape, strides, target)
        return None if repeats is None else (repeats, offset)
    result = strided(function.extents, view.node, shape, strides, target)
    if result is None:
        return None
    new_strides, more = result
    return new_strides, add(offset, more)


def repeated(prim: Any, shape: Any, strides: Strides, target: Any) -> Strides | None:
    """Return the strides of an expanded value: 0 along the dims where elements are repeated.

    Returns None if the sizes decide whether a dim is repeated.
    """
    lead = len(target) - len(shape)
    new_strides = [ZERO] * len(target)
    for d, (n, stride) in enumerate(zip(shape, strides, strict=True), lead):
        if isinstance(prim, ExpandTo):
            if d not in prim.axes:
                new_strides[d] = stride
        elif n == target[d]:
            new_strides[d] = stride
        elif n != ONE:
            return None
    return tuple(new_strides)


def strided(
    extents: Extents, node: Node, shape: tuple[Poly, ...], strides: Strides, target: Any
) -> tuple[Strides, Poly] | None:
    """Return (strides, offset) by the op's `strides` rule, as polynomials.

    Returns None if there is no rule, or the rule makes a comparison whose outcome is not known.
    """
    args = node.args
    if node.prim.strides is None:
        return None

    def rule(extent: Any, stride: Any, sizes: list[Any]) -> Any:
        rest = node.prim.arrange([None], sizes)[1:]
        return node.prim.strides(tuple(extent), tuple(stride), *rest)

    result = symbolic_call(extents, node, rule, shape, strides, args)
    if result is None:
        return None
    (new_strides, offset), poly = result
    out = tuple(
        ZERO if t == ONE and known(poly(s)) is None else poly(s)
        for s, t in zip(new_strides, target, strict=True)
    )
    return out, poly(offset)


def symbolic_call(
    extents: Extents, node: Node, rule: Any, shape: Any, strides: Any, args: Any
) -> Any:
    """Run a rule on symbols for the first operand's extents and strides and the op's sizes.

    Returns (result of the rule, function from the result's numbers to polynomials).  Returns None
    if the rule refuses symbols, or makes a comparison whose outcome is not known.
    """
    guards = Guards()
    program = node.program
    sample = program.sample_types[0].shape
    symbols = [SymInt((0, 0, a), n, guards) for a, n in enumerate(sample)]
    steps: list[int] = []
    step = 1
    for n in reversed(sample):
        steps.insert(0, step)
        step *= max(n, 1)
    marks = [SymInt((0, 1, a), n, guards) for a, n in enumerate(steps)]
    sizes = [SymInt((1, k), n, guards) for k, n in enumerate(program.sample_args)]
    try:
        result = rule(symbols, marks, sizes)
    except WendError:  # the rule refuses symbols, or these extents
        return None

    def dim_of(operand: int, axis: int) -> Poly:
        return shape[axis] if operand == 0 else strides[axis]  # type: ignore[no-any-return]

    def arg_of(k: int) -> Poly:
        return extents.path_expr(args[k])

    def poly_of(expr: Any) -> Poly:
        return extents.canonical(extents.of(expr, dim_of, arg_of))

    asked = {(op, a, b): outcome for op, a, b, outcome in program.guards}
    for (op, a, b), outcome in guards.items.items():
        if asked.get((op, a, b)) is outcome:
            continue
        if not answered(op, poly_of(a), poly_of(b), outcome):
            return None

    def poly(number: Any) -> Poly:
        return poly_of(number.expr if isinstance(number, SymInt) else number)

    return result, poly


def answered(op: int, a: Poly, b: Poly, outcome: bool) -> bool:
    """Return whether a comparison has this outcome for all sizes."""
    if op in (EQ, NE) and a == b:
        return outcome is (op == EQ)
    x, y = known(a), known(b)
    if x is None or y is None:
        return False
    from wend._engine.core.symbolic import compare

    return compare(op, x, y) is outcome


def reshaped(
    extents: Extents, shape: tuple[Poly, ...], strides: Strides, target: tuple[Poly, ...]
) -> Strides | None:
    """Return the strides with which `target` shows the same elements in the same order, or None."""
    result: list[Poly] = []
    i = j = 0
    while j < len(target) or i < len(shape):
        a, b = _group(shape, target, i, j)
        dims = [(n, s) for n, s in zip(shape[i:a], strides[i:a], strict=True) if n != ONE]
        for (_, outer), (n, inner) in pairwise(dims):
            if outer != extents.canonical(mul(n, inner)):
                return None
        step = dims[-1][1] if dims else ZERO
        part: list[Poly] = []
        for extent in reversed(target[j:b]):
            part.append(ZERO if extent == ONE else extents.canonical(step))
            step = mul(step, extent)
        result += reversed(part)
        i, j = a, b
    return tuple(result)


def _group(shape: tuple[Poly, ...], target: tuple[Poly, ...], i: int, j: int) -> tuple[int, int]:
    """Return the ends of the shortest runs of dims, from i and j on, with equal element counts.

    The remaining dims always make such a pair, even where extents are not known to be equal: both
    shapes have the same element count, and so have the remaining dims, unless there are no
    elements.
    """
    if i < len(shape) and shape[i] == ONE:
        return i + 1, j
    if j < len(target) and target[j] == ONE:
        return i, j + 1
    lefts = {product(shape[i:a]): a for a in range(len(shape), i, -1)}
    for b in range(j + 1, len(target) + 1):
        a = lefts.get(product(target[j:b]))
        if a is not None:
            return a, b
    return len(shape), len(target)
