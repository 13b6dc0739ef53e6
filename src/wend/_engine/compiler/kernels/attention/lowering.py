"""Lowering of the ops of `ops.attend` to steps of a plan, and the words of their kernels."""

from __future__ import annotations

from typing import Any

from wend._engine.base import dtypes
from wend._engine.compiler.ir.kernel import Kernel, Slot
from wend._engine.compiler.ir.layout import ordered, orders_read
from wend._engine.compiler.ir.loops import ATTENTION, Function, Layout, Op, Read
from wend._engine.compiler.ir.symbolic_extents import (
    ONE,
    ZERO,
    Poly,
    add,
    constant,
    mul,
    product,
    scale,
)
from wend._engine.compiler.kernels.attention.attention import (
    BLOCK_ROWS,
    AttentionVariant,
    row_elements,
)
from wend._engine.compiler.kernels.attention.backward import ATTEND_BACKWARD, backward_text
from wend._engine.compiler.kernels.attention.forward import ATTEND, attend_text
from wend._engine.compiler.kernels.matmul import matmul
from wend._engine.compiler.llvm_ir.jit import cached_by_processor
from wend._engine.compiler.lower.registry import lowers, makes_kernel
from wend._engine.core.graph import Node
from wend._engine.ops.elementwise.family import widened
from wend._engine.ops.neural.attend import AttendBackward, Attention
from wend._engine.ops.numeric import accumulator
from wend._engine.ops.views.family import View

#: The rows from which on a copy takes less time than adding repeatedly to rows that lie far apart.
_MANY = 512
_FORWARD = ("query", "key", "value", "mask")
_BACKWARD = ("query", "key", "value", "total", "delta", "grad", "mask")
_RESULTS = {False: ("output", "total"), True: ("dq", "dk", "dv")}
_NUMBERS = ("scale", "p", "factor", "seed", "offset")


def _roles(prim: Any) -> tuple[str, ...]:
    return _BACKWARD if isinstance(prim, AttendBackward) else _FORWARD


@lowers(Attention)
def lower_attention(low: Any, node: Node) -> bool:
    """Lower an attention of floats over up to two batch dims. Returns whether it was lowered."""
    f: Function = low.function
    prim: Any = node.prim
    rank = len(f.shape(node.inputs[0]))
    if rank > 4 or any(c == dtypes.COMPLEX for c in prim.categories):
        return bool(low.refuse("attention is made for up to two batch dims"))
    if not low.kernel_types(node):
        return False
    own = f.dtypes[node.inputs[0]]
    reads = []
    for role, i in zip(_roles(prim), node.inputs):
        wanted = accumulator(own) if role in ("total", "delta") else own
        if f.dtypes[i] is not wanted and role != "mask":
            return bool(low.refuse("sums of the forward pass are kept in a wider dtype"))
        low.materialise(i)
        read = Read(i, tuple(range(len(f.shape(i)))))
        if role == "mask":
            scores = (*f.shape(node.inputs[0])[:-1], f.shape(node.inputs[1])[-2])
            if low.read(i, scores) is None:
                return bool(low.refuse("the mask does not broadcast for all sizes"))
        elif role in ("total", "delta") and f.dtypes[i] is not widened(f.dtypes[node.inputs[0]]):
            return False
        reads.append(read)
    for out in node.outputs:
        order = _order(low, out, isinstance(prim, AttendBackward))
        f.layouts[out] = Layout(out, ordered(f.shape(out), order), ZERO)
    f.add(Op(ATTENTION, node, node.outputs, reads, numbers=node.args))
    return True


def _order(low: Any, out: int, adds_up: bool) -> tuple[int, ...]:
    """Return the order of dims in which a result is stored.

    The order is that of the result's only view, if the last dim stays last; else the plain order.

    adds_up: whether blocks are added to the result in memory
    """
    shape = low.function.shape(out)
    plain = tuple(range(len(shape)))
    if out in low.needed or (adds_up and low.sizes(shape[-2]) > _MANY):
        return plain
    prims = {node.prim for node in low.consumers.get(out, ()) if isinstance(node.prim, View)}
    orders = orders_read(prims, len(plain))
    order = orders.pop() if len(orders) == 1 else plain
    return order if order[-1:] == plain[-1:] else plain


@cached_by_processor
def _text(backward: bool, form: AttentionVariant) -> str:
    return backward_text(form) if backward else attend_text(form)


@makes_kernel(ATTENTION)
def attention(f: Function, op: Op) -> Kernel:
    """Return the kernel of an attention, with its slots."""
    prim: Any = op.node.prim
    backward = isinstance(prim, AttendBackward)
    roles = _roles(prim)
    values = {role: read.value for role, read in zip(roles, op.reads, strict=False)}
    values |= dict(zip(_RESULTS[backward], op.outputs, strict=True))
    form = _form(f, prim, values)
    name = "attend_backward" if backward else "attend"
    kernel = Kernel(name, _text(backward, form), f"{prim.name} {op.outputs[0]}")
    kernel.reads = [f.layout(read.value).base for read in op.reads]
    kernel.writes = list(op.outputs)
    words: dict[str, Slot] = {word: Slot("word", 0) for word in (*_NUMBERS, "mask", "first")}
    for number, expr, category in zip(_NUMBERS, op.numbers, prim.categories, strict=False):
        words[number] = Slot("number", expr, category)
    for role, i in values.items():
        words |= _place(f, role, i, len(f.shape(values["query"])) - 2)
    sizes = _sizes(f, values)
    words |= {word: Slot("extent", size) for word, size in sizes.items()}
    words["scratch"] = Slot("scratch", _scratch(sizes, form, backward), name)
    names = ATTEND_BACKWARD if backward else ATTEND
    kernel.slots = [words.get(word, Slot("word", 0)) for word in names]
    return kernel


def _form(f: Function, prim: Any, values: dict[str, int]) -> AttentionVariant:
    mask = f.dtypes[values["mask"]] if "mask" in values else None
    integers = tuple(
        n for n, c in zip(_NUMBERS[:3], prim.categories, strict=False) if c != dtypes.FLOAT
    )
    drops = len(prim.categories) > 1
    return AttentionVariant(f.dtypes[values["query"]], mask, prim.is_causal, drops, integers)


def _place(f: Function, role: str, i: int, n_batch: int) -> dict[str, Slot]:
    """The address of an operand, and its strides by word."""
    layout, shape = f.layout(i), f.shape(i)
    slots = {role: Slot("pointer", layout.base, scale(layout.offset, f.dtypes[i].itemsize))}
    strides = [ZERO if n == ONE else s for n, s in zip(shape, layout.strides, strict=True)]
    if role == "mask":  # broadcast: dims are aligned at the right, and the rest have stride 0
        strides = [ZERO] * (n_batch + 2 - len(strides)) + strides
    if role in ("total", "delta"):
        strides = [*strides, ZERO]
    if len(strides) == n_batch + 2:
        steps = [ZERO] * (2 - n_batch) + strides
        words = ("0", "1", "_row", "_step")
        slots |= {role + word: Slot("extent", s) for word, s in zip(words, steps, strict=True)}
    return slots


def _sizes(f: Function, values: dict[str, int]) -> dict[str, Poly]:
    query, key, value = (f.shape(values[x]) for x in ("query", "key", "value"))
    batch = [ONE] * (4 - len(query)) + list(query[:-2])
    return {
        "batch0": batch[0],
        "batch1": batch[1],
        "last": f.extents.canonical(mul(*batch)),
        "rows": query[-2],
        "columns": key[-2],
        "depth": query[-1],
        "width": value[-1],
    }


def _scratch(sizes: dict[str, Poly], form: AttentionVariant, backward: bool) -> Poly:
    """The bytes of the scratch memory of a kernel."""
    shape = form.shape()
    block = constant(row_elements(shape) * BLOCK_ROWS)
    rows, columns, depth, width = (sizes[n] for n in ("rows", "columns", "depth", "width"))
    packed = add(columns, constant(shape.lanes))
    parts = [block, mul(packed, depth), constant(2 * BLOCK_ROWS)]
    if backward:
        parts += [block, mul(packed, width)]
    if form.wide is not form.dtype:
        of_rows, of_keys = [rows], [columns]
        if backward:
            of_rows, of_keys = [rows] * 2, [columns] * 2
        parts += [product([n, depth]) for n in of_rows + of_keys]
        parts += [mul(n, width) for n in (of_keys + [rows] if backward else [columns])]
        parts.append(mul(constant(BLOCK_ROWS), width))
    total = constant(matmul.scratch_bytes(form.wide.name) + 64 * 16)
    for part in parts:
        total = add(total, scale(part, shape.size))
    return total
