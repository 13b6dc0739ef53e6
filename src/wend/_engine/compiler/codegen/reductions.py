"""Functions beside a nest's kernel, for folds that add up in memory: `clear` and `combine`.

`clear` sets sums to their identities; `combine` folds the sums of a nest's parts. Both take the
kernel's argument block. A fold that is ready only when its nest ends adds up in memory. A nest that
runs in parts has a copy of that memory for each part, and the copies follow in order.
"""

from __future__ import annotations

from typing import Any

from wend._engine.compiler.codegen.instructions import VectorBuilder
from wend._engine.compiler.codegen.scalar_ops import identity_of
from wend._engine.compiler.ir.kernel import Slots
from wend._engine.compiler.ir.loops import FOLD, Function, Op
from wend._engine.compiler.ir.symbolic_extents import product
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.jit import Target
from wend._engine.compiler.llvm_ir.text import Module
from wend._engine.compiler.llvm_ir.values import SsaValue, alignment, memory_type, register_type


def write_clear(
    ops: list[Op], function: Function, slots: Slots, module: Module, target: Target
) -> str:
    """The text of `clear`, which sets all copies of results to the identities of their folds."""
    f = Routine("clear", [("ptr", "block")])
    b = VectorBuilder(f, module, 1, target)
    for op in ops:
        fold, dtype = op.fold, function.dtypes[op.out]
        assert fold is not None
        base = _word(f, slots.sums(op.out), "ptr")
        count = _count(f, op, function, slots)
        if op.kind == FOLD:
            count = f.mul(count, _word(f, slots.copies(op.out)))
        number = identity_of(fold.identity, dtype)
        if number == 0:
            size = f.mul(count, str(dtype.itemsize))
            f.line(f"call void @llvm.memset.p0.i64(ptr {base}, i8 0, i64 {size}, i1 false)")
            continue
        identity = b.to_memory(b.number(number, dtype))
        with f.loop("0", count) as i:
            place = f.at(base, f.mul(i, str(dtype.itemsize)))
            f.store(memory_type(dtype), identity, place, alignment(dtype))
    return f.text()


def write_combine(
    ops: list[Op], function: Function, slots: Slots, module: Module, target: Target
) -> str:
    """The text of `combine`, which folds copies, from the first to the last, into the results."""
    f = Routine("combine", [("ptr", "block")])
    b = VectorBuilder(f, module, 1, target)
    for op in ops:
        fold, dtype = op.fold, function.dtypes[op.out]
        assert fold is not None
        copies = _word(f, slots.copies(op.out))
        base, out = (_word(f, k, "ptr") for k in (slots.sums(op.out), slots.result(op.out)))
        count = _count(f, op, function, slots)
        apart = f.mul(count, str(dtype.itemsize))
        with f.when(f.is_("sgt", copies, "1")), f.loop("0", count) as i:
            offset = f.mul(i, str(dtype.itemsize))
            place = f.at(base, offset)
            first = b.convert(b.load(place, dtype), fold.dtype)
            with f.turns("1", copies) as loop:
                total = loop.carry(register_type(fold.dtype), first.name)
                copy = f.at(place, f.mul(loop.index, apart))
                x = b.convert(b.load(copy, dtype), fold.dtype)
                loop.become(total, fold.combine(b, SsaValue(total, fold.dtype), x).name)
            b.store(b.convert(SsaValue(total, fold.dtype), dtype), f.at(out, offset))
    return f.text()


def _word(f: Routine, slot: int, kind: str = "i64") -> str:
    return f.load(kind, f.at("%block", 8 * slot), 8)


def _count(f: Routine, op: Any, function: Function, slots: Slots) -> str:
    return _word(f, slots.extent(product(function.shape(op.out))))
