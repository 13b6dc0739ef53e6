"""Sliding blocks of images as columns, and back, as modules."""

from __future__ import annotations

from wend._frontend.toolkit import Tensor
from wend.nn import functional as F
from wend.nn.common_types import size_any_t
from wend.nn.modules.module import Module

__all__ = ["Fold", "Unfold"]


class Unfold(Module):
    """(N, C, H, W) -> (N, C kh kw, L): every sliding block as a column."""

    def __init__(
        self,
        kernel_size: size_any_t,
        dilation: size_any_t = 1,
        padding: size_any_t = 0,
        stride: size_any_t = 1,
    ) -> None:
        super().__init__()
        self.kernel_size, self.dilation = kernel_size, dilation
        self.padding, self.stride = padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, dilation={self.dilation}, "
            f"padding={self.padding}, stride={self.stride}"
        )


class Fold(Module):
    """(N, C kh kw, L) -> (N, C, H, W): columns added up where they overlap."""

    def __init__(
        self,
        output_size: size_any_t,
        kernel_size: size_any_t,
        dilation: size_any_t = 1,
        padding: size_any_t = 0,
        stride: size_any_t = 1,
    ) -> None:
        super().__init__()
        self.output_size, self.kernel_size, self.dilation = output_size, kernel_size, dilation
        self.padding, self.stride = padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(
            input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride
        )

    def extra_repr(self) -> str:
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, "
            f"dilation={self.dilation}, padding={self.padding}, stride={self.stride}"
        )
