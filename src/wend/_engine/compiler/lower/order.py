"""Lowering of ops on the order of elements to steps of an accelerator: sort, topk, searchsorted.

Processors leave these to NumPy.
"""

from __future__ import annotations

from wend._engine.base import dtypes
from wend._engine.base.dtypes import DType
from wend._engine.compiler.codegen.scalar_ops import NUMBER_TYPES
from wend._engine.compiler.ir.loops import ORDER, SEARCH, Layout, Op, Read, contiguous
from wend._engine.compiler.ir.symbolic_extents import ZERO
from wend._engine.compiler.lower.lowering import NO_DIMS, Lowering, every
from wend._engine.compiler.lower.registry import lowers
from wend._engine.core.graph import Node
from wend._engine.ops.indexing.search import Searchsorted
from wend._engine.ops.order import Sort, Topk


@lowers(Sort, Topk, processors=False)
def sort(low: Lowering, node: Node) -> bool:
    """sort and topk along a dim."""
    f = low.function
    (x,) = node.inputs
    rank = len(f.shape(x))
    if rank == 0:
        return low.refuse(NO_DIMS)
    if not low.kernel_types(node):
        return False
    low.materialise(x)
    for out in node.outputs:
        f.layouts[out] = Layout(out, contiguous(f.shape(out)), ZERO)
    op = Op(ORDER, node, node.outputs, [Read(x, every(rank))], f.shape(x))
    op.row_dim = node.prim.place(rank)
    f.add(op)
    return True


@lowers(Searchsorted, processors=False)
def search(low: Lowering, node: Node) -> bool:
    """searchsorted in rows that are in order."""
    f, prim = low.function, node.prim
    if prim.form[-1] is not None:
        return low.refuse("another tensor says the order of the rows")
    if not low.kernel_types(node) or dtypes.COMPLEX in prim.categories:
        return False
    rows, *values = node.inputs
    value = values[0] if values else low.number(node, NUMBER_TYPES[prim.categories[0]])
    for i in (rows, value):
        low.materialise(i)
    (out,) = node.outputs
    f.layouts[out] = Layout(out, contiguous(f.shape(out)), ZERO)
    reads = [Read(i, every(len(f.shape(i)))) for i in (rows, value)]
    f.add(Op(SEARCH, node, node.outputs, reads, f.shape(out)))
    return True


def compared_as(x: DType, y: DType) -> DType:
    """The type in which elements of two types are compared, as NumPy does it."""
    if x is y:
        return x
    return dtypes.float64 if dtypes.FLOAT in (x.category, y.category) else dtypes.int64
