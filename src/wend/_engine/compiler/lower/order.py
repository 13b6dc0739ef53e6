"""Lowering of ops that put elements in order to steps of an accelerator: sort, topk.

Processors leave these to NumPy.
"""

from __future__ import annotations

from wend._engine.compiler.ir.loops import ORDER, Layout, Op, Read, contiguous
from wend._engine.compiler.ir.symbolic_extents import ZERO
from wend._engine.compiler.lower.lowering import NO_DIMS, Lowering, every
from wend._engine.compiler.lower.registry import lowers
from wend._engine.core.graph import Node
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
