"""torch.ao.nn.quantized: modules that compute with bytes."""

from wend._engine.base.lazy_modules import load_when_named
from wend.ao.nn.quantized.functional_modules import FloatFunctional, QFunctional
from wend.ao.nn.quantized.modules import (
    ELU,
    BatchNorm2d,
    Conv1d,
    Conv2d,
    DeQuantize,
    Dropout,
    GroupNorm,
    Hardswish,
    LayerNorm,
    LeakyReLU,
    Linear,
    MaxPool2d,
    Quantize,
    ReLU6,
    Sigmoid,
)

__all__ = [
    "ELU",
    "BatchNorm2d",
    "Conv1d",
    "Conv2d",
    "DeQuantize",
    "Dropout",
    "FloatFunctional",
    "GroupNorm",
    "Hardswish",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "MaxPool2d",
    "QFunctional",
    "Quantize",
    "ReLU6",
    "Sigmoid",
]
load_when_named(__name__, "dynamic")
