"""Pooling as modules."""

from __future__ import annotations

from typing import Any

from wend._engine.base.errors import ArgumentError
from wend._frontend.toolkit import Tensor
from wend.nn import functional as F
from wend.nn.common_types import size_any_opt_t, size_any_t
from wend.nn.modules.module import Module
from wend.nn.modules.utils import _ntuple, _single

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]


class _MaxPoolNd(Module):
    _function: Any = None

    def __init__(
        self,
        kernel_size: size_any_t,
        stride: size_any_t | None = None,
        padding: size_any_t = 0,
        dilation: size_any_t = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride: size_any_t = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:  # with return_indices a pair, to be unpacked
        how = (self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)
        if self.return_indices:
            return self._function(input, *how, True)
        return self._function(input, *how)

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    """The maximum of each window of (N, C, L) or (C, L)."""

    _function = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPoolNd):
    """The maximum of each window of (N, C, H, W) or (C, H, W)."""

    _function = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPoolNd):
    """The maximum of each window of (N, C, D, H, W) or (C, D, H, W)."""

    _function = staticmethod(F.max_pool3d)


class _MaxUnpoolNd(Module):
    _spatial = 1
    _function: Any = None

    def __init__(
        self, kernel_size: size_any_t, stride: size_any_t | None = None, padding: size_any_t = 0
    ) -> None:
        super().__init__()
        count = self._spatial
        self.kernel_size: tuple[Any, ...] = _ntuple(kernel_size, count)
        self.stride: tuple[Any, ...] = _ntuple(stride if stride is not None else kernel_size, count)
        self.padding: tuple[Any, ...] = _ntuple(padding, count)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return self._function(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """Maxima put back to the places that `MaxPool1d` found, zeros elsewhere."""

    _function = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpoolNd):
    """Maxima put back to the places that `MaxPool2d` found, zeros elsewhere."""

    _spatial, _function = 2, staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpoolNd):
    """Maxima put back to the places that `MaxPool3d` found, zeros elsewhere."""

    _spatial, _function = 3, staticmethod(F.max_unpool3d)


class _AvgPoolNd(Module):
    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """The mean of each window of (N, C, L) or (C, L)."""

    def __init__(
        self,
        kernel_size: size_any_t,
        stride: size_any_t | None = None,
        padding: size_any_t = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size: tuple[Any, ...] = _single(kernel_size)
        self.stride: tuple[Any, ...] = _single(stride if stride is not None else kernel_size)
        self.padding: tuple[Any, ...] = _single(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )


class AvgPool2d(_AvgPoolNd):
    """The mean of each window of (N, C, H, W) or (C, H, W)."""

    def __init__(
        self,
        kernel_size: size_any_t,
        stride: size_any_t | None = None,
        padding: size_any_t = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride: size_any_t = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool2d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool3d(AvgPool2d):
    """The mean of each window of (N, C, D, H, W) or (C, D, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool3d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        defaults = {"padding": 0, "ceil_mode": False, "count_include_pad": True}
        super().__setstate__({**defaults, **state})


class _LPPoolNd(Module):
    def __init__(
        self,
        norm_type: float,
        kernel_size: size_any_t,
        stride: size_any_t | None = None,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    """The norm_type-norm of each window of (N, C, L) or (C, L)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool1d(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


class LPPool2d(_LPPoolNd):
    """The norm_type-norm of each window of (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool2d(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


class LPPool3d(_LPPoolNd):
    """The norm_type-norm of each window of (N, C, D, H, W) or (C, D, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool3d(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


class _AdaptiveAvgPoolNd(Module):
    def __init__(self, output_size: size_any_opt_t) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """The mean of each of output_size windows that cover (N, C, L) or (C, L)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """The mean of each of output_size windows that cover (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """The mean of each of output_size windows that cover (N, C, D, H, W) or (C, D, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool3d(input, self.output_size)


class _AdaptiveMaxPoolNd(Module):
    def __init__(self, output_size: size_any_opt_t, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """The maximum of each of output_size windows that cover (N, C, L) or (C, L)."""

    def forward(self, input: Tensor) -> Tensor:
        pool: Any = F.adaptive_max_pool1d
        return pool(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """The maximum of each of output_size windows that cover (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        pool: Any = F.adaptive_max_pool2d
        return pool(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """The maximum of each of output_size windows that cover (N, C, D, H, W) or (C, D, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        pool: Any = F.adaptive_max_pool3d
        return pool(input, self.output_size, self.return_indices)


class _FractionalMaxPoolNd(Module):
    _function = ""
    _spatial = 2

    def __init__(
        self,
        kernel_size: size_any_t,
        output_size: size_any_t | None = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        count, name = self._spatial, type(self).__name__
        self.kernel_size: tuple[Any, ...] = _ntuple(kernel_size, count)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else _ntuple(output_size, count)
        self.output_ratio = None if output_ratio is None else _ntuple(output_ratio, count)
        if self.output_size is None and self.output_ratio is None:
            raise ArgumentError(
                f"{name} requires specifying either an output size, or a pooling ratio"
            )
        if self.output_size is not None and self.output_ratio is not None:
            raise ArgumentError("only one of output_size and output_ratio may be specified")
        if any(not 0 < ratio < 1 for ratio in self.output_ratio or ()):
            raise ArgumentError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Tensor:
        pool = getattr(F, self._function)
        return pool(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """Max pooling of windows whose places are drawn at random (Graham, 2014)."""

    _function = "fractional_max_pool2d"


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """As FractionalMaxPool2d, of three spatial dims."""

    _function = "fractional_max_pool3d"
    _spatial = 3
