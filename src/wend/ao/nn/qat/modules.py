"""Modules to be trained for quantisation: their weights are rounded in the forward pass.

The gradient passes the rounding where numbers are in range. A batch norm inside of a convolution
scales the weight before the rounding, by the running deviation (Jacob et al., 2018).
"""

from __future__ import annotations

from typing import Any, ClassVar

from wend._engine.base.errors import ArgumentError
from wend._frontend.toolkit import Tensor, ops
from wend.nn import functional as F
from wend.nn import modules
from wend.nn.modules.container import Sequential

__all__ = ["Conv1d", "Conv2d", "ConvBn2d", "ConvBnReLU2d", "ConvReLU2d", "Linear", "LinearReLU"]


def _taken(cls: Any, mod: Any) -> tuple[Any, Any]:
    """(the module with the weight, the fused module or itself). Raises ArgumentError."""
    if getattr(mod, "qconfig", None) is None:
        raise ArgumentError(f"{cls.__name__}: the float module has no qconfig; set mod.qconfig")
    return (mod[0] if isinstance(mod, Sequential) else mod), mod


class Linear(modules.Linear):
    """A linear layer whose weight is rounded."""

    relu: ClassVar[bool] = False
    weight_fake_quant: Any
    qconfig: Any

    def forward(self, input: Tensor) -> Tensor:
        y = F.linear(input, self.weight_fake_quant(self.weight), self.bias)
        return ops.relu(y) if self.relu else y

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The module of a float module with a qconfig. Raises ArgumentError without a qconfig."""
        inner, outer = _taken(cls, mod)
        module = cls(inner.in_features, inner.out_features, inner.bias is not None)
        return _given(module, inner, outer)


class LinearReLU(Linear):
    """A linear layer whose weight is rounded, and a ReLU."""

    relu = True


def _given(module: Any, inner: Any, outer: Any) -> Any:
    """Give a module the parameters of another module, and a rounding of the weight."""
    module.weight, module.bias = inner.weight, inner.bias
    module.qconfig = outer.qconfig
    module.weight_fake_quant = outer.qconfig.weight()
    return module.train(outer.training)


class _Convolution:
    """The common part of convolutions over a dim and over two dims."""

    relu: ClassVar[bool] = False
    qconfig: Any
    weight_fake_quant: Any
    bn: Any = None

    def forward(self, input: Tensor) -> Tensor:
        """The convolution by the rounded weight, the batch norm and the ReLU if there are any."""
        conv: Any = self
        if self.bn is None:
            y = conv._conv_forward(input, self.weight_fake_quant(conv.weight), conv.bias)
        else:
            norm = self.bn
            factor = norm.weight / ops.sqrt(norm.running_var + norm.eps)
            of_weight = (-1,) + (1,) * (conv.weight.ndim - 1)
            of_image = (1, *of_weight[:-1])
            weight = self.weight_fake_quant(conv.weight * factor.reshape(of_weight))
            y = conv._conv_forward(input, weight, None) / factor.reshape(of_image)
            if conv.bias is not None:
                y = y + conv.bias.reshape(of_image)
            y = norm(y)
        return ops.relu(y) if self.relu else y

    @classmethod
    def from_float(cls: Any, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The module of a float module with a qconfig. Raises ArgumentError without a qconfig."""
        inner, outer = _taken(cls, mod)
        module = cls(
            inner.in_channels, inner.out_channels, inner.kernel_size, inner.stride,
            inner.padding, inner.dilation, inner.groups, inner.bias is not None,
            inner.padding_mode,
        )  # fmt: skip
        if cls.normed:
            module.bn = mod[1]
        return _given(module, inner, outer)


class Conv1d(_Convolution, modules.Conv1d):
    """A convolution over a single dim whose weight is rounded."""

    normed: ClassVar[bool] = False


class Conv2d(_Convolution, modules.Conv2d):
    """A convolution over two dims whose weight is rounded."""

    normed: ClassVar[bool] = False


class ConvReLU2d(Conv2d):
    """A convolution whose weight is rounded, and a ReLU."""

    relu = True


class ConvBn2d(Conv2d):
    """A convolution and a batch norm, whose common weight is rounded."""

    normed = True


class ConvBnReLU2d(ConvBn2d):
    """A convolution and a batch norm, whose common weight is rounded, and a ReLU."""

    relu = True
