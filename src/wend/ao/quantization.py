"""torch.ao.quantization: marks in models, which pass values through; converting is refused."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from wend._engine.base.errors import NotImplementedInWend
from wend._engine.core._hot import Tensor
from wend.nn.modules.module import Module
from wend.nn.quantized import FloatFunctional

__all__ = [
    "DeQuantStub",
    "FloatFunctional",
    "QConfig",
    "QuantStub",
    "convert",
    "fuse_modules",
    "fuse_modules_qat",
    "get_default_qat_qconfig",
    "get_default_qconfig",
    "prepare",
    "prepare_qat",
]

#: The observers of activations and of weights.
QConfig = namedtuple("QConfig", ["activation", "weight"])


class QuantStub(Module):
    """Place at which a converted model would quantise."""

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        """x itself."""
        return x


class DeQuantStub(QuantStub):
    """Place at which a converted model would dequantise."""


def _refuse(*args: Any, **kwargs: Any) -> Any:
    """Raises NotImplementedInWend: there are no quantised tensors."""
    raise NotImplementedInWend("torch.ao.quantization: models cannot be quantised")


convert = prepare = prepare_qat = fuse_modules = fuse_modules_qat = _refuse
get_default_qconfig = get_default_qat_qconfig = _refuse
default_observer = default_weight_observer = default_per_channel_weight_observer = _refuse
