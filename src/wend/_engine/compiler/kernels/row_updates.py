"""Changes of a few rows of a leaf: index_add, index_copy and index_put along the first dim.

    void rows(ptr args)     adds, or copies, row k of the source to row index[k] of the result

`args` holds the addresses of the result, the leaf, the index and the source. The number of indexed
rows, the bytes of a row, and the bytes of the leaf follow. The result lies in the memory of the
leaf if nobody else has the leaf: then the rest of the rows stays untouched. Otherwise the leaf is
copied first. A step before checks the index, as this step must not fail.
"""

from __future__ import annotations

from typing import Any

from wend._engine.base import dtypes
from wend._engine.base.dtypes import DType
from wend._engine.compiler.codegen.instructions import VectorBuilder
from wend._engine.compiler.ir.kernel import Kernel, Slot
from wend._engine.compiler.ir.layout import is_dense
from wend._engine.compiler.ir.loops import (
    ROWS,
    Function,
    Layout,
    Op,
    Read,
    contiguous,
)
from wend._engine.compiler.ir.symbolic_extents import ZERO, product, scale
from wend._engine.compiler.kernels.matmul.microkernel import lane_mask
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.jit import cached_by_processor, written_for
from wend._engine.compiler.llvm_ir.text import Module
from wend._engine.compiler.lower import rows as loops_of_rows
from wend._engine.compiler.lower.lowering import Lowering
from wend._engine.compiler.lower.registry import lowers, makes_kernel
from wend._engine.compiler.lower.updates import adds, checked_places, lower_slices
from wend._engine.core.graph import Node
from wend._engine.ops.elementwise.family import widened
from wend._engine.ops.indexing.index import IndexPut
from wend._engine.ops.indexing.index_dim import IndexAdd, IndexCopy


@lowers(IndexAdd, IndexPut)
def lower_additions(low: Lowering, node: Node) -> bool:
    """Lower index_add and index_put: rows of a leaf change in place, all else is added by loops."""
    if low.is_device:
        return lower_slices(low, node) or loops_of_rows.add_slices(low, node)
    return lower_rows(low, node) or loops_of_rows.add_slices(low, node)


@lowers(IndexCopy)
def lower_copies(low: Lowering, node: Node) -> bool:
    """Lower index_copy: whole rows of a leaf, or on an accelerator slices of any operand."""
    return lower_slices(low, node) if low.is_device else lower_rows(low, node)


def lower_rows(low: Lowering, node: Node) -> bool:
    """Lower a change of whole rows of a leaf. Returns False for any other form."""
    f = low.function
    if len(node.inputs) != 3 or not low.kernel_types(node):
        return False
    base, index, source = node.inputs
    shape, count = f.shape(base), f.shape(index)
    if base not in f.inputs or not shape or len(count) != 1:
        return False
    prim: Any = node.prim
    place = prim.place(len(shape))
    dtype = f.dtypes[base]
    if place not in (0, (0,)) or f.shape(source) != (*count, *shape[1:]):
        return False
    if f.dtypes[index] not in (dtypes.int32, dtypes.int64):
        return False
    if adds(prim) and (dtype is dtypes.bool_ or widened(dtype) is not dtype):
        return False
    for i in node.inputs:
        low.materialise(i)
    if not is_dense(shape, f.layout(base).strides):
        return False
    if not is_dense(f.shape(source), f.layout(source).strides):
        source = low.copy(source)
    places = checked_places(low, node, index, 0, isinstance(prim, IndexPut))
    out = node.outputs[0]
    f.layouts[out] = Layout(out, contiguous(shape), ZERO)
    every = tuple(range(len(shape)))
    reads = [Read(base, every), Read(places, (0,)), Read(source, every)]
    f.add(Op(ROWS, node, node.outputs, reads))
    return True


@makes_kernel(ROWS)
def rows(f: Function, op: Op) -> Kernel:
    """Return the kernel of a change of rows, with its slots."""
    (out,) = op.outputs
    base, places, source = (read.value for read in op.reads)
    dtype = f.dtypes[out]
    shape, size = f.shape(out), dtype.itemsize
    kernel = Kernel("rows", _text(dtype, adds(op.node.prim)), f"rows {out}")
    kernel.reads = list(dict.fromkeys(f.base(read.value) for read in op.reads))
    kernel.writes = [out]
    kernel.over = {out: base}
    kernel.slots = [Slot("pointer", out, ZERO)]
    for i in (base, places, source):
        layout = f.layout(i)
        kernel.slots.append(
            Slot("pointer", layout.base, scale(layout.offset, f.dtypes[i].itemsize))
        )
    kernel.slots += [
        Slot("extent", f.shape(places)[0]),
        Slot("extent", scale(product(shape[1:]), size)),
        Slot("extent", scale(product(shape), size)),
    ]
    return kernel


@cached_by_processor
def _text(dtype: DType, add: bool) -> str:
    f, module, target = Routine("rows", [("ptr", "args")]), Module(), written_for()
    copy = "call void @llvm.memcpy.p0.p0.i64(ptr {}, ptr {}, i64 {}, i1 false)"
    out, base, index, source = (f.load("ptr", f.at("%args", 8 * k), 8) for k in range(4))
    count, row, whole = (f.load("i64", f.at("%args", 8 * k), 8) for k in range(4, 7))
    same = f.let(f"icmp eq ptr {out}, {base}")
    f.line(copy.format(out, base, f.select(same, "0", whole)))
    lanes = target.vector_bytes // max(4, dtype.itemsize)
    with f.loop("0", count, "1") as k:
        place = f.load("i64", f.at(index, f.mul(k, "8")), 8)
        to, origin = f.at(out, f.mul(place, row)), f.at(source, f.mul(k, row))
        if not add:
            f.line(copy.format(to, origin, row))
        else:
            width = f.div(row, str(dtype.itemsize))
            with f.loop("0", width, str(lanes)) as i:
                mask = lane_mask(f, lanes, f.sub(width, i))
                b = VectorBuilder(f, module, lanes, target, None, mask)
                offset = f.mul(i, str(dtype.itemsize))
                x, y = f.at(to, offset), f.at(origin, offset)
                b.store(b.add(b.load(x, dtype), b.load(y, dtype)), x)
    declared = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)\n"
    return f.text() + "\n" + declared + module.render()
