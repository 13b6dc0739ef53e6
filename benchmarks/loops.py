"""Plain loops around the functions of generated code, for the benchmarks of their own qualities."""

from __future__ import annotations

import ctypes
import math
from typing import Any

from wend._engine.base import dtypes
from wend._engine.base.dtypes import DType
from wend._engine.compiler import mathlib
from wend._engine.compiler.codegen.instructions import VectorBuilder
from wend._engine.compiler.llvm_ir import jit
from wend._engine.compiler.llvm_ir.operand import Operand, where
from wend._engine.compiler.llvm_ir.text import Module, Text

LANES = 16


def loop(name: str, dtype: DType) -> Any:
    """A ctypes function (pointers of the operands, pointer of the result, n) of a function.

    n: a multiple of LANES
    """
    target = jit.host()
    module, text = Module(), Text()
    b = VectorBuilder(text, module, LANES, target)
    count = mathlib.FUNCTIONS[name][1]
    operands = []
    for k in range(count):
        place = text.let(f"getelementptr {b.type_of(dtype)}, ptr %x{k}, i64 %i")
        operands.append(b.load(place, dtype))
    result = b.function(name, *operands)
    b.store(result, text.let(f"getelementptr {b.type_of(dtype)}, ptr %y, i64 %i"))
    parameters = ", ".join(f"ptr noalias %x{k}" for k in range(count))
    full = f"""
define void @loop({parameters}, ptr noalias %y, i64 %n) {{
entry:
  %count = udiv i64 %n, {LANES}
  br label %head
head:
  %i = phi i64 [0, %entry], [%next, %last]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %body, label %end
body:
{text.render()}
  br label %last
last:
  %next = add i64 %i, 1
  br label %head
end:
  ret void
}}

{module.render()}"""
    library = jit.compile_module(full, ["loop"])
    return library.function("loop", *[ctypes.c_void_p] * (count + 1), ctypes.c_int64)


def judge(name: str) -> Any:
    """A ctypes function that compares a function of float32 with that of float64.

    judge(worst, where, start, n): over the n float32 whose bits are start, start + 1, ..., the
    largest distance in ulp (LANES float64, one a lane) and the bits where it is (LANES uint32).
    n: a multiple of LANES
    """
    module, text = Module(), Text()
    b = VectorBuilder(text, module, LANES, jit.host())
    kinds = {key: b.type_of(dtype) for key, dtype in _KINDS.items()}
    lanes = ", ".join(f"i32 {i}" for i in range(LANES))
    first = b.spread("%first", dtypes.int32)
    bits = Operand(b, b.add(first, b.value(f"<{lanes}>")))
    x = bits.from_bits()
    got, want = x.call(name), x.to(dtypes.float64).call(name)
    power = (want.bits() & (0x7FF << 52)).from_bits()
    ulp = (power * 2.0**-23).at_least(2.0**-149)
    found = abs(got.to(dtypes.float64) - want) / ulp
    rounded = want.to(dtypes.float32)
    same = (got.equals(rounded) & ~(abs(got) < math.inf)) | (got.is_nan() & want.is_nan())
    found = where(same, 0.0, where(found.is_nan(), math.inf, found))
    worst = Operand(b, b.value(text.let(f"load {kinds['worst']}, ptr %a"), dtypes.float64))
    place = Operand(b, b.value(text.let(f"load {kinds['bits']}, ptr %b")))
    more = found > worst
    text.line(f"store {kinds['worst']} {where(more, found, worst).value.name}, ptr %a")
    text.line(f"store {kinds['bits']} {where(more, bits, place).value.name}, ptr %b")
    full = f"""
define void @judge(ptr %worst, ptr %where, i64 %start, i64 %n) {{
entry:
  %a = alloca {kinds["worst"]}
  %b = alloca {kinds["bits"]}
  store {kinds["worst"]} zeroinitializer, ptr %a
  store {kinds["bits"]} zeroinitializer, ptr %b
  %end = add i64 %start, %n
  br label %head
head:
  %i = phi i64 [%start, %entry], [%next, %last]
  %more = icmp ult i64 %i, %end
  br i1 %more, label %body, label %done
body:
  %first = trunc i64 %i to i32
{text.render()}
  br label %last
last:
  %next = add i64 %i, {LANES}
  br label %head
done:
  %e = load {kinds["worst"]}, ptr %a
  store {kinds["worst"]} %e, ptr %worst, align 8
  %w = load {kinds["bits"]}, ptr %b
  store {kinds["bits"]} %w, ptr %where, align 4
  ret void
}}

{module.render()}"""
    library = jit.compile_module(full, ["judge"])
    pointers, ints = [ctypes.c_void_p] * 2, [ctypes.c_int64] * 2
    return library.function("judge", *pointers, *ints)


_KINDS = {"worst": dtypes.float64, "bits": dtypes.int32}
