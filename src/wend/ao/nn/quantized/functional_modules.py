"""Operations as modules: `FloatFunctional` in a float model, `QFunctional` in a quantised model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wend._engine.base.dtypes import ABSENT
from wend._engine.core.primitive import ops
from wend._frontend.quantized.functions import quantize_per_tensor
from wend._frontend.toolkit import Tensor, tensor
from wend.nn.modules.linear import Identity
from wend.nn.modules.module import Module

__all__ = ["FloatFunctional", "QFunctional"]


class FloatFunctional(Module):
    """Operations between tensors, as a module that a converted model replaces."""

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process = Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Raises RuntimeError: call add, mul, cat ..."""
        raise RuntimeError("FloatFunctional: call its methods, not the module")

    def add(self, x: Tensor, y: Tensor) -> Any:
        """x + y."""
        return self.activation_post_process(ops.add(x, y))

    def add_scalar(self, x: Tensor, y: float) -> Any:
        """x + y, of a number y."""
        return ops.add(x, y)

    def mul(self, x: Tensor, y: Tensor) -> Any:
        """x * y."""
        return self.activation_post_process(ops.mul(x, y))

    def mul_scalar(self, x: Tensor, y: float) -> Any:
        """x * y, of a number y."""
        return ops.mul(x, y)

    def cat(self, x: Sequence[Tensor], dim: int = 0) -> Any:
        """The tensors joined along a dim."""
        return self.activation_post_process(ops.cat(x, dim))

    def add_relu(self, x: Tensor, y: Tensor) -> Any:
        """relu(x + y)."""
        return self.activation_post_process(ops.relu(ops.add(x, y)))

    def matmul(self, x: Tensor, y: Tensor) -> Any:
        """x @ y."""
        return self.activation_post_process(ops.matmul(x, y))


class QFunctional(Module):
    """The same of quantised tensors: floats are computed, and rounded by the module's scale."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.zero_point = 1.0, 0
        self.activation_post_process = Identity()

    def forward(self, x: Any) -> Any:
        """Raises RuntimeError: call add, mul, cat ..."""
        raise RuntimeError("QFunctional: call its methods, not the module")

    def _rounded(self, y: Tensor) -> Any:
        return quantize_per_tensor(y, self.scale, self.zero_point, ABSENT["quint8"])

    def add(self, x: Any, y: Any) -> Any:
        """x + y."""
        return self._rounded(ops.add(x.dequantize(), y.dequantize()))

    def mul(self, x: Any, y: Any) -> Any:
        """x * y."""
        return self._rounded(ops.mul(x.dequantize(), y.dequantize()))

    def cat(self, x: Sequence[Any], dim: int = 0) -> Any:
        """The tensors joined along a dim."""
        return self._rounded(ops.cat([part.dequantize() for part in x], dim))

    def add_relu(self, x: Any, y: Any) -> Any:
        """relu(x + y)."""
        return self._rounded(ops.relu(ops.add(x.dequantize(), y.dequantize())))

    def matmul(self, x: Any, y: Any) -> Any:
        """x @ y."""
        return self._rounded(ops.matmul(x.dequantize(), y.dequantize()))

    def add_scalar(self, x: Any, y: float) -> Any:
        """x + y, of a number y: the zero point and the scale stay."""
        return quantize_per_tensor(
            ops.add(x.dequantize(), y), x.q_scale(), x.q_zero_point(), x.dtype
        )

    def mul_scalar(self, x: Any, y: float) -> Any:
        """x * y, of a number y."""
        return quantize_per_tensor(
            ops.mul(x.dequantize(), y), x.q_scale() * abs(y), x.q_zero_point(), x.dtype
        )

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> QFunctional:
        """The module of a FloatFunctional with an observer."""
        module = cls()
        scale, zero = mod.activation_post_process.calculate_qparams()
        module.scale, module.zero_point = float(scale), int(zero)
        return module

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "scale"] = tensor(self.scale)
        destination[prefix + "zero_point"] = tensor(self.zero_point)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *rest: Any
    ) -> None:
        self.scale = float(state_dict[prefix + "scale"])
        self.zero_point = int(state_dict[prefix + "zero_point"])

    def extra_repr(self) -> str:
        return f"scale={self.scale}, zero_point={self.zero_point}"
