"""torch.ao.nn.intrinsic.quantized: quantised modules with a ReLU behind."""

from wend.ao.nn.quantized import dynamic, modules

__all__ = ["ConvReLU1d", "ConvReLU2d", "LinearReLU"]


class LinearReLU(modules.Linear):
    """relu(x @ weight.T + bias) of bytes."""

    relu = True

    def _get_name(self) -> str:
        return "QuantizedLinearReLU"


class ConvReLU1d(modules.Conv1d):
    """The ReLU of a convolution over a single dim."""

    relu = True

    def _get_name(self) -> str:
        return "QuantizedConvReLU1d"


class ConvReLU2d(modules.Conv2d):
    """The ReLU of a convolution over two dims."""

    relu = True

    def _get_name(self) -> str:
        return "QuantizedConvReLU2d"


class DynamicLinearReLU(dynamic.Linear):
    """relu(x @ weight.T + bias), of x rounded to bytes by its own range."""

    relu = True

    def _get_name(self) -> str:
        return "DynamicQuantizedLinearReLU"
