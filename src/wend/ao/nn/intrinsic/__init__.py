"""torch.ao.nn.intrinsic: float modules in a row that a quantised model computes at once."""

from wend._engine.base.lazy_modules import load_when_named
from wend.ao.nn.intrinsic.fused import (
    BNReLU2d,
    ConvBn1d,
    ConvBn2d,
    ConvBnReLU1d,
    ConvBnReLU2d,
    ConvReLU1d,
    ConvReLU2d,
    LinearBn1d,
    LinearReLU,
)

__all__ = [
    "BNReLU2d",
    "ConvBn1d",
    "ConvBn2d",
    "ConvBnReLU1d",
    "ConvBnReLU2d",
    "ConvReLU1d",
    "ConvReLU2d",
    "LinearBn1d",
    "LinearReLU",
]
load_when_named(__name__, "qat quantized")
