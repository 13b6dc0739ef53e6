"""Lowering of the ops of `ops.attend` to steps of a plan, and the words of their kernels."""

from __future__ import annotations

from typing import Any

from wend._engine.base import dtypes
from wend._engine.base.errors import CompileError
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
    AttentionText,
    AttentionVariant,
    row_elements,
)
from wend._engine.compiler.kernels.attention.backward import ATTEND_BACKWARD, backward_text
from wend._engine.compiler.kernels.attention.forward import ATTEND, attend_text
from wend._engine.compiler.kernels.attention.pairs import pair_words
from wend._engine.compiler.kernels.matmul import matmul
from wend._engine.compiler.llvm_ir.jit import cached_by_processor
from wend._engine.compiler.lower.registry import lowers, makes_kernel
from wend._engine.core.graph import Node
from wend._engine.ops.elementwise.family import widened
from wend._engine.ops.neural.attend import AttendBackward, Attention
from wend._engine.ops.neural.attend_pairs import AttendPairsBackward, PairAttention
from wend._engine.ops.numeric import accumulator
from wend._engine.ops.views.family import View

#: The rows from which on a copy takes less time than adding repeatedly to rows that lie far apart.
_MANY = 512
_FORWARD = ("query", "key", "value", "mask")
_BACKWARD = ("query", "key", "value", "total", "delta", "grad", "mask")
_PAIR_NUMBERS = ("scale", "block_rows", "block_columns")
_RESULTS = {False: ("output", "total"), True: ("dq", "dk", "dv")}
_NUMBERS = ("scale", "p", "factor", "seed", "offset")


def _roles(prim: Any) -> tuple[str, ...]:
    if not isinstance(prim, PairAttention):
        return _BACKWARD if _is_backward(prim) else _FORWARD
    captured = [f"c{k}" for k in range(len(prim.pairs.captured))]
    plain = (_BACKWARD if _is_backward(prim) else _FORWARD)[:-1]
    return (*plain, *(("blocks",) if _is_blocked(prim) else ()), "numbers", *captured)


def _is_backward(prim: Any) -> bool:
    return isinstance(prim, (AttendBackward, AttendPairsBackward))


def _is_blocked(prim: Any) -> bool:
    """Whether an attention with a function of pairs has a table of blocks."""
    operands = 6 if _is_backward(prim) else 3
    return prim.form[operands] is not None


@lowers(Attention, accelerators=False)
def lower_attention(low: Any, node: Node) -> bool:
    """Lower an attention of floats over up to two batch dims. Returns whether it was lowered."""
    f: Function = low.function
    prim: Any = node.prim
    rank = len(f.shape(node.inputs[0]))
    if rank > 4 or any(c == dtypes.COMPLEX for c in prim.categories):
        return bool(low.refuse("attention is made for up to two batch dims"))
    if not low.kernel_types(node):
        return False
    if isinstance(prim, PairAttention) and not _can_write(low, node):
        return bool(low.refuse("an op of the score's function has no machine code"))
    own = f.dtypes[node.inputs[0]]
    reads = []
    for role, i in zip(_roles(prim), node.inputs):
        wanted = accumulator(own) if role in ("total", "delta") else own
        if f.dtypes[i] is not wanted and role in _BACKWARD[:-1]:
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
        order = _order(low, out, _is_backward(prim))
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
def _text(backward: bool, form: AttentionVariant) -> AttentionText:
    return backward_text(form) if backward else attend_text(form)


@makes_kernel(ATTENTION)
def attention(f: Function, op: Op) -> Kernel:
    """Return the kernel of an attention, with its slots."""
    prim: Any = op.node.prim
    backward = _is_backward(prim)
    roles = _roles(prim)
    values = {role: read.value for role, read in zip(roles, op.reads, strict=False)}
    values |= dict(zip(_RESULTS[backward], op.outputs, strict=True))
    form = _form(f, prim, values)
    name = "attend_backward" if backward else "attend"
    text = _text(backward, form)
    kernel = Kernel(name, text.text, f"{prim.name} {op.outputs[0]}")
    kernel.faults = list(text.faults)
    kernel.reads = [f.layout(read.value).base for read in op.reads]
    kernel.writes = list(op.outputs)
    words: dict[str, Slot] = {word: Slot("word", 0) for word in (*_NUMBERS, "mask", "first")}
    if form.pairs is None:
        for number, expr, category in zip(_NUMBERS, op.numbers, prim.categories, strict=False):
            words[number] = Slot("number", expr, category)
    else:
        words |= _pair_words(f, prim, values, op.numbers)
    if kernel.faults:
        words["fault"] = Slot("fault")
    n_batch = len(f.shape(values["query"])) - 2
    for role in (*_BACKWARD, *_RESULTS[backward], "blocks"):
        if role in values:
            words |= _place(f, role, values[role], n_batch)
    sizes = _sizes(f, values)
    words |= {word: Slot("extent", size) for word, size in sizes.items()}
    words["scratch"] = Slot("scratch", _scratch(sizes, form, backward), name)
    names = [*(ATTEND_BACKWARD if backward else ATTEND), *pair_words(form)]
    kernel.slots = [words.get(word, Slot("word", 0)) for word in names]
    return kernel


def _form(f: Function, prim: Any, values: dict[str, int]) -> AttentionVariant:
    mask = f.dtypes[values["mask"]] if "mask" in values else None
    integers = tuple(
        n for n, c in zip(_NUMBERS[:3], prim.categories, strict=False) if c != dtypes.FLOAT
    )
    own = f.dtypes[values["query"]]
    if not isinstance(prim, PairAttention):
        drops = len(prim.categories) > 1
        return AttentionVariant(own, mask, prim.is_causal, drops, integers)
    scale_only = tuple(n for n in integers if n == "scale")
    return AttentionVariant(
        own, None, False, False, scale_only, prim.pairs,
        tuple(f.dtypes[values[f"c{k}"]] for k in range(len(prim.pairs.captured))),
        f.dtypes[values["numbers"]], _is_blocked(prim),
    )  # fmt: skip


def _can_write(low: Any, node: Node) -> bool:
    """Whether code can be made for all ops of a function of pairs."""
    f: Function = low.function
    values = dict(zip(_roles(node.prim), node.inputs, strict=True))
    try:
        _text(_is_backward(node.prim), _form(f, node.prim, values))
    except (AssertionError, CompileError, NotImplementedError, TypeError):
        # The question is whether the code can be written; if not, the op is a host step with this
        # reason.
        return False
    return True


def _pair_words(f: Function, prim: Any, values: dict[str, int], numbers: Any) -> dict[str, Slot]:
    """The words of a function of pairs."""
    words: dict[str, Slot] = {}
    for number, expr, category in zip(_PAIR_NUMBERS, numbers, prim.categories, strict=True):
        plain = number != "scale" and type(expr) is not tuple
        words[number] = Slot("word", expr) if plain else Slot("number", expr, category)
    for role in ("numbers", *(f"c{k}" for k in range(len(prim.pairs.captured)))):
        layout, shape = f.layout(values[role]), f.shape(values[role])
        words[role] = Slot(
            "pointer", layout.base, scale(layout.offset, f.dtypes[values[role]].itemsize)
        )
        for d, (n, stride) in enumerate(zip(shape, layout.strides, strict=True)):
            words[f"{role}_n{d}"] = Slot("extent", n)
            words[f"{role}_s{d}"] = Slot("extent", stride)
    words["numbers_step"] = words["numbers_s0"]
    return words


def _place(f: Function, role: str, i: int, n_batch: int) -> dict[str, Slot]:
    """The address of an operand, and its strides by word."""
    layout, shape = f.layout(i), f.shape(i)
    slots = {role: Slot("pointer", layout.base, scale(layout.offset, f.dtypes[i].itemsize))}
    strides = [ZERO if n == ONE else s for n, s in zip(shape, layout.strides, strict=True)]
    # Both broadcast: dims are aligned at the right, and the rest have stride 0.
    if role in ("mask", "blocks"):
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
