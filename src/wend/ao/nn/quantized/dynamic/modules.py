"""The dynamically quantised linear layer."""

from __future__ import annotations

from typing import Any

from wend._engine.base.dtypes import ABSENT, finfo, float32
from wend._engine.core.primitive import ops
from wend._frontend.quantized.functions import quantize_per_tensor
from wend._frontend.quantized.tensor import QuantizedTensor
from wend._frontend.toolkit import Tensor
from wend.ao.nn.quantized import modules
from wend.ao.nn.quantized.modules import quantized_weight
from wend.nn.modules.container import Sequential

__all__ = ["Linear", "dynamic_weight"]

_linear = ops.linear_int8_dynamic


def dynamic_weight(mod: Any, weight: Tensor) -> QuantizedTensor:
    """A weight of a float module, quantised by the module's qconfig.

    Without a qconfig there is a single scale, and zero point 0.
    """
    qconfig = getattr(mod, "qconfig", None)
    if qconfig is not None:
        return quantized_weight(weight, qconfig.weight())
    greatest = float(weight.detach().abs().max()) if weight.numel() else 0.0
    scale = max(greatest / 127.5, finfo(float32).eps)
    result: QuantizedTensor = quantize_per_tensor(weight.detach(), scale, 0, ABSENT["qint8"])
    return result


class Linear(modules.Linear):
    """y = x @ weight.T + bias, of x rounded to bytes by its own range.

    x: (..., in_features)   ->   y: (..., out_features)
    """

    def forward(self, x: Tensor) -> Tensor:
        packed = self.packed
        x = x.detach() if x.requires_grad else x
        return _linear(x, packed.panels, packed.totals, packed.scales, packed.shift, self.relu)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantised module of a float module."""
        mod = mod[0] if isinstance(mod, Sequential) else mod
        quantized = cls(mod.in_features, mod.out_features, mod.bias is not None)
        quantized.set_weight_bias(dynamic_weight(mod, mod.weight), mod.bias)
        return quantized

    def extra_repr(self) -> str:
        text = (
            f"in_features={self.in_features}, out_features={self.out_features}, dtype=torch.qint8"
        )
        return f"{text}, qscheme={self.weight().qscheme()}"

    def _get_name(self) -> str:
        return "DynamicQuantizedLinear"
