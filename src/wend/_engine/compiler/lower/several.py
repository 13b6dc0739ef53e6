"""Several tensors that index neighbouring dims: as an index of a dim in place of these dims."""

from __future__ import annotations

from functools import cache
from typing import Any

from wend._engine.base import dtypes
from wend._engine.compiler.codegen.scalar_ops import OUT_OF_RANGE
from wend._engine.compiler.ir.loops import MAP, Emit, Op, shared
from wend._engine.compiler.ir.symbolic_extents import ONE, Poly, product
from wend._engine.compiler.lower.lowering import Lowering, every
from wend._engine.compiler.lower.simple_rules import view
from wend._engine.core.graph import Node
from wend._engine.ops.indexing.index import adjacent
from wend._engine.ops.views.reshapes import ReshapeTo


def merged(low: Lowering, node: Node, source: int, first: int, count: int) -> int:
    """Return a value with a single dim in place of `count` dims, from `first` on.

    node: whose operand the value becomes
    """
    f = low.function
    shape = f.shape(source)
    extent = low.extents.canonical(product(shape[first : first + count]))
    out = f.fresh((*shape[:first], extent, *shape[first + count :]), f.dtypes[source])
    prim = ReshapeTo.__new__(ReshapeTo)
    view(low, Node(prim, node.program, (source,), (out,), (), node.grad))
    return out


def placed(low: Lowering, node: Node, extents: tuple[Poly, ...], indices: list[int]) -> int | None:
    """Add a step that checks indices of dims of these extents; returns the places in all dims.

    Places may count from the end. Returns None for shapes that do not broadcast for all sizes.
    """
    f = low.function
    if any(f.dtypes[i] not in (dtypes.int32, dtypes.int64) for i in indices):
        return None
    depth = max(len(f.shape(i)) for i in indices)
    along = []
    for d in range(depth, 0, -1):
        sizes = {f.shape(i)[-d] for i in indices if len(f.shape(i)) >= d} - {ONE}
        if len(sizes) > 1:
            return None
        along.append(sizes.pop() if sizes else ONE)
    space = tuple(along)
    reads = []
    for i in indices:
        low.materialise(i)
        read = low.read(i, space)
        if read is None:
            return None
        reads.append(read)
    out = f.fresh(space, dtypes.int64)
    op = Op(MAP, node, (out,), reads, space, every(depth), _place())
    op.name, op.sizes = "places", extents
    f.add(op)
    return out


def by_one_index(low: Lowering, node: Node) -> tuple[Node, int] | None:
    """Return a change of slices as a change by a single index, and the indexed dim.

    The node is new if several tensors index: `show` then shows its result as the result.
    Returns None for dims that are no neighbours, or shapes that do not fit for all sizes.
    """
    f = low.function
    base, *indices, source = node.inputs
    place: Any = node.prim.place(len(f.shape(base)))
    dims = place if isinstance(place, tuple) else (place,)
    if len(indices) == 1:
        return node, dims[0]
    if not adjacent(dims):
        return None
    index = placed(low, node, tuple([f.shape(base)[d] for d in dims]), indices)
    if index is None:
        return None
    base = merged(low, node, base, dims[0], len(dims))
    out = f.fresh(f.shape(base), f.dtypes[base])
    prim, program = node.prim, node.program
    return Node(prim, program, (base, index, source), (out,), node.args, node.grad), dims[0]


def show(low: Lowering, node: Node, single: Node) -> None:
    """Note that a node's result shows that of the change by a single index."""
    if single.outputs != node.outputs:
        prim = ReshapeTo.__new__(ReshapeTo)
        view(low, Node(prim, node.program, single.outputs, node.outputs, (), node.grad))


def checked_place(b: Any, index: Any, extent: Any, wraps: bool) -> Any:
    """Write the check of an element of an index; returns the place, as int64 from 0 on.

    extent: of the dim     wraps: whether places may count from the end
    """
    place, zero = b.convert(index, dtypes.int64), b.number(0, dtypes.int64)
    if wraps:
        place = b.select(b.lt(place, zero), b.add(place, extent), place)
    b.require(b.bitwise_and(b.ge(place, zero), b.lt(place, extent)), OUT_OF_RANGE)
    return place


@cache
def _place() -> Emit:
    """Return a rule that gives the number of an element, from its places along dims."""

    def emit(code: Any, operands: list[Any]) -> Any:
        b = code.b
        total = b.number(0, dtypes.int64)
        for k, index in enumerate(operands):
            extent = code.size(k)
            total = b.add(b.mul(total, extent), checked_place(b, index, extent, True))
        return total

    return shared(emit)
