"""torch.ao.nn.intrinsic.qat: fused modules to be trained for quantisation."""

from wend.ao.nn.qat.modules import ConvBn2d, ConvBnReLU2d, ConvReLU2d, LinearReLU

__all__ = ["ConvBn2d", "ConvBnReLU2d", "ConvReLU2d", "LinearReLU"]
