"""Former names of `interpolate`, and sampling on a grid."""

from __future__ import annotations

import warnings

from wend._frontend.toolkit import Tensor, ops
from wend.nn.common_types import size_any_t

__all__ = ["upsample", "upsample_bilinear", "upsample_nearest"]


def upsample(
    input: Tensor,
    size: size_any_t | None = None,
    scale_factor: float | tuple[float, ...] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """The former name of `interpolate`."""
    _deprecated("upsample")
    return ops.interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(
    input: Tensor,
    size: size_any_t | None = None,
    scale_factor: float | tuple[float, ...] | None = None,
) -> Tensor:
    """`interpolate` with mode 'nearest'."""
    _deprecated("upsample_nearest")
    return ops.interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(
    input: Tensor,
    size: size_any_t | None = None,
    scale_factor: float | tuple[float, ...] | None = None,
) -> Tensor:
    """`interpolate` with mode 'bilinear' and aligned corners."""
    _deprecated("upsample_bilinear")
    return ops.interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def _deprecated(name: str) -> None:
    warnings.warn(
        f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=3,
    )
