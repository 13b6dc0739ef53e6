# Made by `python -m wend._tools.stubs`; do not edit.
# mypy: disable-error-code="overload-overlap,overload-cannot-match,misc,override"
from wend._engine.base.lazy_modules import load_when_named as load_when_named
from wend.ao.nn.intrinsic import fused as fused
from wend.ao.nn.intrinsic import qat as qat
from wend.ao.nn.intrinsic import quantized as quantized
from wend.ao.nn.intrinsic.fused import BNReLU2d as BNReLU2d
from wend.ao.nn.intrinsic.fused import ConvBn1d as ConvBn1d
from wend.ao.nn.intrinsic.fused import ConvBn2d as ConvBn2d
from wend.ao.nn.intrinsic.fused import ConvBnReLU1d as ConvBnReLU1d
from wend.ao.nn.intrinsic.fused import ConvBnReLU2d as ConvBnReLU2d
from wend.ao.nn.intrinsic.fused import ConvReLU1d as ConvReLU1d
from wend.ao.nn.intrinsic.fused import ConvReLU2d as ConvReLU2d
from wend.ao.nn.intrinsic.fused import LinearBn1d as LinearBn1d
from wend.ao.nn.intrinsic.fused import LinearReLU as LinearReLU
