"""Lowering of matrix products to steps of a plan: the words of their kernels."""

from __future__ import annotations

from typing import Any

from wend._engine.compiler.ir.kernel import Kernel, Slot
from wend._engine.compiler.ir.loops import Function, Op
from wend._engine.compiler.ir.symbolic_extents import ONE, ZERO, Poly, constant, scale
from wend._engine.compiler.kernels.matmul import matmul
from wend._engine.compiler.kernels.matmul.sizes import PRODUCT
from wend._engine.compiler.lower.contraction import Axis
from wend._engine.core.graph import PathGraph

_WORDS = tuple(PRODUCT)
_ZERO = Slot("word", 0)
_UNIT = Axis(ONE, ZERO, ZERO, ZERO)


def product_kernel(f: Function, op: Op, path: PathGraph) -> Kernel:
    """Return the kernel of a contraction as a matrix product."""
    p = op.product
    dtype = f.dtypes[op.out]
    kernel = Kernel("product", "", f"contract {op.out}")
    kernel.source = dtype.name
    kernel.reads = [p.x.base, p.y.base]
    kernel.writes = [op.out]

    def at(layout: Any) -> Slot:
        return Slot("pointer", layout.base, scale(layout.offset, dtype.itemsize))

    numbers: dict[Poly, Slot] = {}  # most words of a product are the same few extents

    def number(p: Poly) -> Slot:
        slot = numbers.get(p)
        if slot is None:
            slot = numbers[p] = Slot("extent", p)
        return slot

    outer, inner = (_UNIT, _UNIT, *p.batch)[-2:]
    words = {
        "left": at(p.x), "right": at(p.y), "out": at(p.out),
        "rows": number(p.m.extent), "columns": number(p.n.extent),
        "depth": number(p.k.extent),
        "left_row": number(p.m.x), "left_step": number(p.k.x),
        "right_step": number(p.k.y), "right_column": number(p.n.y),
        "packed": _ZERO, "out_row": number(p.m.out),
        "batch0": number(outer.extent), "batch1": number(inner.extent),
        "left0": number(outer.x), "left1": number(inner.x),
        "right0": number(outer.y), "right1": number(inner.y),
        "out0": number(outer.out), "out1": number(inner.out),
        "first_row": _ZERO, "last_row": number(p.m.extent),
        "first_column": _ZERO, "last_column": number(p.n.extent),
        "accumulate": _ZERO, "epilogue": _ZERO, "state": _ZERO,
        "scratch": Slot("scratch", constant(matmul.scratch_bytes(dtype.name)), "product"),
        "origin0": _ZERO, "origin1": _ZERO,
    }  # fmt: skip
    kernel.words = _WORDS
    kernel.slots = [words[name] for name in _WORDS]
    # An input with a row for each member of a group is not packable: each row is read only once.
    outside = p.y.base in f.inputs and p.y.base not in path.same
    kernel.packable = outside and outer.y == inner.y == ZERO
    return kernel
