"""Convolutions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from wend._engine.base.devices import DeviceLike
from wend._engine.base.dtypes import DType
from wend._engine.base.errors import ArgumentError, ShapeError
from wend._frontend.toolkit import Tensor, empty, no_grad
from wend.nn import functional as F
from wend.nn import init
from wend.nn.modules.lazy import LazyModuleMixin
from wend.nn.modules.module import Module
from wend.nn.modules.utils import _ntuple, _reverse_repeat_tuple
from wend.nn.parameter import UninitializedParameter, fresh_parameter

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """Common part of all convolutions: checks, parameters, first values, printing."""

    weight: Tensor
    bias: Any
    padding: Any
    _spatial = 2

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...],
        padding: str | int | tuple[int, ...],
        dilation: int | tuple[int, ...],
        transposed: bool,
        output_padding: int | tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: DeviceLike = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        count = self._spatial
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size: tuple[Any, ...] = _ntuple(kernel_size, count)
        self.stride: tuple[Any, ...] = _ntuple(stride, count)
        self.padding = padding if isinstance(padding, str) else _ntuple(padding, count)
        self.dilation: tuple[Any, ...] = _ntuple(dilation, count)
        self.transposed = transposed
        self.output_padding: tuple[Any, ...] = _ntuple(output_padding, count)
        _check(in_channels, out_channels, groups, padding, self.stride, padding_mode)
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = self._pad_amounts()
        self.weight = fresh_parameter(empty(self._weight_shape(), device=device, dtype=dtype))
        if bias:
            self.bias = fresh_parameter(empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _weight_shape(self) -> tuple[int, ...]:
        first, second = self.out_channels, self.in_channels
        if self.transposed:
            first, second = second, first
        return first, second // self.groups, *self.kernel_size

    def _pad_amounts(self) -> list[int]:
        """The amounts that `F.pad` needs for this module's padding."""
        if not isinstance(self.padding, str):
            return list(_reverse_repeat_tuple(self.padding, 2))
        amounts = [0, 0] * len(self.kernel_size)
        if self.padding == "same":
            for i, (dilation, size) in enumerate(zip(self.dilation, self.kernel_size, strict=True)):
                total = dilation * (size - 1)
                place = 2 * (len(self.kernel_size) - 1 - i)
                amounts[place] = total // 2
                amounts[place + 1] = total - total // 2
        return amounts

    def reset_parameters(self) -> None:
        """Fill weight and bias from U(-b, b), b = 1 / √fan_in."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        parts = [
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        ]
        count = len(self.kernel_size)
        if self.padding != (0,) * len(self.padding):
            parts.append(f"padding={self.padding}")
        if self.dilation != (1,) * count:
            parts.append(f"dilation={self.dilation}")
        if self.output_padding != (0,) * count:
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "padding_mode" not in self.__dict__:
            self.padding_mode = "zeros"


def _check(
    in_channels: int, out_channels: int, groups: int, padding: Any, stride: Any, mode: str
) -> None:
    if groups <= 0:
        raise ArgumentError("groups must be a positive integer")
    if in_channels % groups != 0:
        raise ArgumentError("in_channels must be divisible by groups")
    if out_channels % groups != 0:
        raise ArgumentError("out_channels must be divisible by groups")
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ArgumentError(
                f"Invalid padding string {padding!r}, should be one of ('same', 'valid')"
            )
        if padding == "same" and any(step != 1 for step in stride):
            raise ArgumentError("padding='same' is not supported for strided convolutions")
    if mode not in _PADDING_MODES:
        raise ArgumentError(
            f"padding_mode must be one of {list(_PADDING_MODES)}, but got padding_mode='{mode}'"
        )


class _Conv(_ConvNd):
    """A convolution over `_spatial` dims."""

    _function: Callable[..., Any] = staticmethod(F.conv2d)

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: str | int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: DeviceLike = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, False, 0, groups,
            bias, padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = 0
        return self._function(input, weight, bias, self.stride, padding, self.dilation, self.groups)


class Conv1d(_Conv):
    """Cross-correlation over one dim.

    x: (N, C, L) or (C, L)   weight: (out, in / groups, kernel)   ->   y: (N, out, L')
    """

    _spatial = 1
    _function = staticmethod(F.conv1d)


class Conv2d(_Conv):
    """Cross-correlation over two dims.

    x: (N, C, H, W) or (C, H, W)   weight: (out, in / groups, kh, kw)   ->   y: (N, out, H', W')
    """


class Conv3d(_Conv):
    """Cross-correlation over three dims.

    x: (N, C, D, H, W) or (C, D, H, W)   weight: (out, in / groups, kd, kh, kw)
    """

    _spatial = 3
    _function = staticmethod(F.conv3d)


class _ConvTranspose(_ConvNd):
    """The transpose of a convolution over `_spatial` dims."""

    _function: Callable[..., Any] = staticmethod(F.conv_transpose2d)

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        output_padding: int | tuple[int, ...] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | tuple[int, ...] = 1,
        padding_mode: str = "zeros",
        device: DeviceLike = None,
        dtype: DType | None = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ArgumentError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, True,
            output_padding, groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        return self._function(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self._output_padding(input, output_size),
            self.groups,
            self.dilation,
        )

    def _output_padding(
        self, input: Tensor, output_size: list[int] | None
    ) -> tuple[int, ...] | list[int]:
        """The output padding that leads to `output_size`.

        Raises ValueError if no padding does.
        """
        if output_size is None:
            return self.output_padding
        count = self._spatial
        wanted = list(output_size)
        has_batch = input.dim() == count + 2
        if len(wanted) == count + 1 + has_batch:
            wanted = wanted[1 + has_batch :]
        if len(wanted) != count:
            raise ArgumentError(
                f"ConvTranspose{count}D: for {input.dim()}D input, output_size must have "
                f"{count} or {count + 1 + has_batch} elements (got {len(output_size)})"
            )
        least = []
        for i in range(count):
            size = (input.size(i + 1 + has_batch) - 1) * self.stride[i]
            size += self.dilation[i] * (self.kernel_size[i] - 1) + 1 - 2 * self.padding[i]
            least.append(size)
        most = [size + step - 1 for size, step in zip(least, self.stride, strict=True)]
        if any(
            not low <= size <= high for low, size, high in zip(least, wanted, most, strict=True)
        ):
            raise ArgumentError(
                f"requested an output size of {wanted}, but valid sizes range from {least} to "
                f"{most} (for an input of {input.size()[1 + has_batch :]})"
            )
        return tuple(size - low for size, low in zip(wanted, least, strict=True))


class ConvTranspose1d(_ConvTranspose):
    """The transpose of `Conv1d`: from output shape to input shape.

    x: (N, C, L) or (C, L)   weight: (in, out / groups, kernel)   ->   y: (N, out, L')
    """

    _spatial = 1
    _function = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTranspose):
    """The transpose of `Conv2d`: from output shape to input shape.

    x: (N, C, H, W) or (C, H, W)   weight: (in, out / groups, kh, kw)   ->   y: (N, out, H', W')
    """


class ConvTranspose3d(_ConvTranspose):
    """The transpose of `Conv3d`: from output shape to input shape.

    x: (N, C, D, H, W) or (C, D, H, W)   weight: (in, out / groups, kd, kh, kw)
    """

    _spatial = 3
    _function = staticmethod(F.conv_transpose3d)


class _LazyConvMixin(LazyModuleMixin):
    """A convolution that takes in_channels from the first input."""

    weight: Tensor
    bias: Any
    groups: int
    transposed: bool
    kernel_size: tuple[int, ...]

    def _defer(self, out_channels: int, bias: bool, device: DeviceLike, dtype: DType) -> None:
        """Give the module parameters that wait for the first input."""
        self.out_channels = out_channels
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Fill the parameters anew, if their shapes are known."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Take the shape of the parameters from the first input."""
        if not self.has_uninitialized_params():
            return
        spatial = self._spatial  # type: ignore[attr-defined]
        if input.dim() not in (spatial + 1, spatial + 2):
            raise ShapeError(
                f"Expected {spatial + 1}D (unbatched) or {spatial + 2}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {tuple(input.shape)}"
            )
        self.in_channels = input.shape[-spatial - 1]
        if self.in_channels % self.groups != 0:
            raise ArgumentError("in_channels must be divisible by groups")
        with no_grad():
            self.weight.materialize(self._weight_shape())  # type: ignore[attr-defined]
            if self.bias is not None:
                self.bias.materialize((self.out_channels,))
            self.reset_parameters()


class _LazyConv(_LazyConvMixin):
    def __init__(
        self,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: str | int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        # The bias comes later: with no channels yet there is nothing to fill the bias from.
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode)
        self._defer(out_channels, bias, device, dtype)


class _LazyConvTranspose(_LazyConvMixin):
    def __init__(
        self,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        output_padding: int | tuple[int, ...] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | tuple[int, ...] = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation,
            padding_mode,
        )  # fmt: skip
        self._defer(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConv, Conv1d):
    """`Conv1d` that takes in_channels from the first input."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """`Conv2d` that takes in_channels from the first input."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """`Conv3d` that takes in_channels from the first input."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """`ConvTranspose1d` that takes in_channels from the first input."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """`ConvTranspose2d` that takes in_channels from the first input."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """`ConvTranspose3d` that takes in_channels from the first input."""

    cls_to_become = ConvTranspose3d
