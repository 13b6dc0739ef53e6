"""Modified Bessel functions of order 0 and 1, times exp(-|x|)."""

from __future__ import annotations

from wend._engine.compiler.llvm_ir.operand import Operand, where
from wend._engine.compiler.mathlib.parts import wide
from wend._engine.ops.functions.tables import I0, I1


def i0e(x: Operand) -> Operand:
    """exp(-|x|) I0(x)."""
    return _scaled(x, 0)


def i1e(x: Operand) -> Operand:
    """exp(-|x|) I1(x)."""
    return _scaled(x, 1)


def _scaled(x: Operand, order: int) -> Operand:
    v = wide(x)
    a = abs(v)
    near, far = I1 if order else I0
    close = (a * 0.25 - 1.0).polynomial(near)
    distant = (16.0 / a - 1.0).polynomial(far) / a.sqrt()
    if order:
        close = close * a
    magnitude = where(a < 8.0, close, distant)
    return (where(v < 0.0, -magnitude, magnitude) if order else magnitude).to(x.dtype)
