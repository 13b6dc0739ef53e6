"""torch.nn.quantized: operations as modules that a converted model would replace."""

from __future__ import annotations

from collections.abc import Sequence

from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend.nn.modules.module import Module

__all__ = ["FloatFunctional"]


class FloatFunctional(Module):
    """Operations between tensors, as a module that a converted model would replace."""

    def forward(self, x: Tensor) -> Tensor:
        """Raises RuntimeError: call add, mul, cat ..."""
        raise RuntimeError("FloatFunctional: call its methods, not the module")

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """x + y."""
        return ops.add(x, y)

    add_scalar = add

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        """x * y."""
        return ops.mul(x, y)

    mul_scalar = mul

    def cat(self, x: Sequence[Tensor], dim: int = 0) -> Tensor:
        """The tensors joined along a dim."""
        return ops.cat(x, dim)

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        """relu(x + y)."""
        return ops.relu(ops.add(x, y))
