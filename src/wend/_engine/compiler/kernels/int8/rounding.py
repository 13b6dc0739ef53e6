"""The end of kernels that give bytes: floats are rounded by a zero point and limits."""

from __future__ import annotations

from collections.abc import Sequence

from wend._engine.base.dtypes import float32, int32, uint8
from wend._engine.compiler.codegen.instructions import VectorBuilder
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.values import SsaValue


def limits_of(f: Routine) -> list[SsaValue]:
    """The zero point at `%limits`, and the least and greatest number less the zero point."""
    zero, low, high = (f.load("i32", f.at("%limits", 4 * k), 4) for k in range(3))
    least, most = (
        f.let(f"sitofp i32 {f.let(f'sub i32 {x}, {zero}')} to float") for x in (low, high)
    )
    return [SsaValue(zero, int32), SsaValue(least, float32), SsaValue(most, float32)]


def rounded(b: VectorBuilder, y: SsaValue, limits: Sequence[SsaValue]) -> SsaValue:
    """A vector of floats as bytes. limits: those of `limits_of`, in all lanes"""
    zero, least, most = limits
    y = b.select(b.gt(y, least), y, least)
    y = b.round(b.select(b.lt(y, most), y, most))
    kinds = f"{b.type_of(float32)} {y.name} to {b.type_of(int32)}"
    whole = SsaValue(b.text.let(f"fptosi {kinds}"), int32)
    return b.convert(b.add(whole, zero), uint8)
