"""Concatenation of many tensors: rows of each tensor are copied whole.

    void join(ptr args)     copies, for each row of the result, the rows of all parts in order

`args` holds the result's address, the number of rows, the number of parts, and for each part the
address and the bytes of a row. A row consists of the joined dim and all dims behind it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from wend._engine.base.shapes import normalize_dim
from wend._engine.compiler.ir.kernel import Kernel, Slot
from wend._engine.compiler.ir.layout import is_dense
from wend._engine.compiler.ir.loops import JOIN, Function, Layout, Op, Read, contiguous
from wend._engine.compiler.ir.symbolic_extents import ZERO, product, scale
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.lower import movement
from wend._engine.compiler.lower.lowering import Lowering
from wend._engine.compiler.lower.registry import lowers, makes_kernel
from wend._engine.core.graph import Node
from wend._engine.ops.joining import Cat

#: The most parts. With more parts, filling the argument block takes longer than the reference.
MOST_JOINED = 512


@lowers(Cat)
def lower_cat(low: Lowering, node: Node) -> bool:
    """Lower a concatenation: a nest reads a few operands in place, `join` copies many.

    A nest has code of its own for each number of operands. So operands of products go to `join`,
    too: their number is the number of a loop's turns.

    Returns whether the node was lowered.
    """
    inputs = movement.joined(low, node)
    if inputs is None:
        return low.refuse("an operand is an empty vector beside tensors of more dims")
    many = len(inputs) > movement.MAX_PARTS or node.outputs[0] in low.joined
    if many and not low.is_device:
        return lower_join(low, node, inputs)
    return movement.cat(low, node, inputs)


def lower_join(low: Lowering, node: Node, inputs: list[int]) -> bool:
    """Add a step that joins the inputs. Returns False for too many inputs or several dtypes."""
    f = low.function
    out = node.outputs[0]
    if len(inputs) > MOST_JOINED or any(f.dtypes[i] is not f.dtypes[out] for i in inputs):
        return low.refuse(f"it joins more than {MOST_JOINED} operands, or several dtypes")
    parts = []
    for i in inputs:
        low.materialise(i)
        dense = is_dense(f.shape(i), f.layout(i).strides)
        parts.append(i if dense else low.copy(i))
    f.layouts[out] = Layout(out, contiguous(f.shape(out)), ZERO)
    every = tuple(range(len(f.shape(out))))
    f.add(Op(JOIN, node, node.outputs, [Read(i, every) for i in parts]))
    return True


@makes_kernel(JOIN)
def join(f: Function, op: Op) -> Kernel:
    """Return the kernel of a join, with its slots."""
    (out,) = op.outputs
    prim: Any = op.node.prim
    dim = normalize_dim(prim.dim, len(f.shape(out)), "cat")
    size = f.dtypes[out].itemsize
    kernel = Kernel("join", _text(), f"join {out}")
    kernel.reads = list(dict.fromkeys(f.base(read.value) for read in op.reads))
    kernel.writes = [out]
    kernel.slots = [
        Slot("pointer", out, ZERO),
        Slot("extent", product(f.shape(out)[:dim])),
        Slot("word", len(op.reads)),
    ]
    for read in op.reads:
        layout = f.layout(read.value)
        row = scale(product(f.shape(read.value)[dim:]), size)
        kernel.slots += [
            Slot("pointer", layout.base, scale(layout.offset, size)),
            Slot("extent", row),
        ]
    return kernel


@cache
def _text() -> str:
    f = Routine("join", [("ptr", "args")])
    out = f.load("ptr", "%args", 8)
    rows = f.load("i64", f.at("%args", 8), 8)
    parts = f.load("i64", f.at("%args", 16), 8)
    with f.turns("0", rows) as row:
        begun = row.carry("ptr", out)
        with f.turns("0", parts) as part:
            to = part.carry("ptr", begun)
            entry = f.at("%args", f.add(f.mul(part.index, "16"), "24"))
            source, size = f.load("ptr", entry, 8), f.load("i64", f.at(entry, 8), 8)
            source = f.at(source, f.mul(row.index, size))
            f.line(
                f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 {size}, i1 false)"
            )
            part.become(to, f.at(to, size))
        row.become(begun, to)
    return f.text() + "\ndeclare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)\n"
