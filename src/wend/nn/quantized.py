"""torch.nn.quantized: operations as modules that a converted model would replace."""

from __future__ import annotations

from typing import Any

from wend._engine.core.primitive import ops
from wend.nn.modules.module import Module

__all__ = ["FloatFunctional"]


class FloatFunctional(Module):
    """Operations between tensors, as a module that a converted model would replace."""

    def forward(self, x: Any) -> Any:
        """Raises RuntimeError: call add, mul, cat ..."""
        raise RuntimeError("FloatFunctional: call its methods, not the module")

    def add(self, x: Any, y: Any) -> Any:
        """x + y."""
        return ops.add(x, y)

    add_scalar = add

    def mul(self, x: Any, y: Any) -> Any:
        """x * y."""
        return ops.mul(x, y)

    mul_scalar = mul

    def cat(self, x: Any, dim: int = 0) -> Any:
        """The tensors joined along a dim."""
        return ops.cat(x, dim)

    def add_relu(self, x: Any, y: Any) -> Any:
        """relu(x + y)."""
        return ops.relu(ops.add(x, y))
