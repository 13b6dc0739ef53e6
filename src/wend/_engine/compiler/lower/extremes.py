"""Lowering of extremes that come with places: argmax, argmin, max and min along a dim.

The extreme is a fold. The place is a second fold: the least of the places where the extreme is met.
Both are rows of the same nest where the dim allows.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from wend._engine.base import dtypes
from wend._engine.compiler.codegen.scalar_ops import rounded_to
from wend._engine.compiler.ir.loops import FOLD, MAP, Emit, Fold, Op, Read, shared
from wend._engine.compiler.ir.symbolic_extents import ONE
from wend._engine.compiler.lower.lowering import NO_DIMS, Lowering, same_element
from wend._engine.compiler.lower.registry import lowers
from wend._engine.core.graph import Node
from wend._engine.ops.elementwise.family import widened
from wend._engine.ops.extremes import Argmax, Argmin, MaxDim, MinDim


def _greatest(b: Any, a: Any, x: Any) -> Any:
    return b.maximum(a, x)


def _least(b: Any, a: Any, x: Any) -> Any:
    return b.minimum(a, x)


@cache
def _place_of(axes: tuple[int, ...], is_float: bool) -> Emit:
    """Return a rule that gives the place along some axes where an element is the extreme.

    Elsewhere the number is larger than all places.
    """

    def emit(code: Any, operands: list[Any]) -> Any:
        b = code.b
        met = b.eq(operands[0], operands[1])
        if is_float:
            met = b.bitwise_or(met, b.ne(operands[0], operands[0]))
        index = code.place(axes[0])
        for axis in axes[1:]:
            index = b.add(b.mul(index, code.extent(axis)), code.place(axis))
        return b.select(met, index, b.number((1 << 63) - 1, dtypes.int64))

    return shared(emit)


@lowers(Argmax, Argmin, MaxDim, MinDim)
def where_extreme(low: Lowering, node: Node) -> bool:
    """(values and) indices of extremes along a dim, or over all elements."""
    f = low.function
    x = node.inputs[0]
    rank = len(f.shape(x))
    if rank == 0 or not low.kernel_types(node):
        return low.refuse(NO_DIMS)
    low.materialise(x)
    axes = node.prim.axes(rank)
    space, dtype = f.shape(x), f.dtypes[x]
    every = tuple(range(rank))
    kept = tuple(-1 if d in axes else d for d in every)
    follow = kept if node.prim.keepdim else tuple(d for d in every if d not in axes)
    shape = tuple(ONE if d < 0 else space[d] for d in kept)
    wide = widened(dtype)
    greatest = isinstance(node.prim, (Argmax, MaxDim))
    combine, start = (_greatest, "lowest") if greatest else (_least, "highest")
    best = f.fresh(shape, dtype)
    extreme = Op(FOLD, node, (best,), [Read(x, every)], space, kept, rounded_to(wide))
    extreme.fold = Fold(combine, start, wide, False)
    low.folding(extreme)

    indices = node.outputs[-1]
    reads = [Read(x, every), Read(best, kept)]
    place = _place_of(tuple(axes), dtype.category == dtypes.FLOAT)
    where = Op(FOLD, node, (indices,), reads, space, follow, place)
    where.fold = Fold(_least, "highest", dtypes.int64, False)
    where.placed = True
    low.folding(where)
    f.nonempty.append(tuple(space[d] for d in axes))
    if len(node.outputs) > 1:
        values = node.outputs[0]
        out_shape = f.shape(values)
        if node.prim.keepdim:
            dims = kept
        else:
            order = [d for d in every if d not in axes]
            dims = tuple(-1 if d < 0 else order.index(d) for d in kept)
        read = Read(best, dims)
        every_out = tuple(range(len(out_shape)))
        copy = Op(MAP, node, (values,), [read], out_shape, every_out, same_element, cheap=True)
        f.add(copy)
    return True
