"""Images resized, sampled and rearranged."""

from __future__ import annotations

import math
import warnings
from typing import Any

from wend.frontend.nn._core import NotImplementedInWend, Tensor, arange, ops
from wend.frontend.nn.functional.pooling import adaptive_avg_pool1d, adaptive_avg_pool2d
from wend.frontend.nn.utils import _ntuple

__all__ = [
    "channel_shuffle",
    "interpolate",
    "pixel_shuffle",
    "pixel_unshuffle",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(..., C r², H, W) -> (..., C, H r, W r): channels become pixels (Shi et al., 2016)."""
    if input.dim() < 3:
        raise RuntimeError(
            "pixel_shuffle expects input to have at least 3 dimensions, but got input with "
            f"{input.dim()} dimension(s)"
        )
    r = upscale_factor
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    *front, channels, height, width = input.shape
    if channels % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square "
            f"of upscale_factor, but input.size(-3)={channels} is not divisible by {r * r}"
        )
    n = len(front)
    x = input.reshape(*front, channels // (r * r), r, r, height, width)
    x = x.permute(*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return x.reshape(*front, channels // (r * r), height * r, width * r)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(..., C, H r, W r) -> (..., C r², H, W): the inverse of `pixel_shuffle`."""
    if input.dim() < 3:
        raise RuntimeError(
            "pixel_unshuffle expects input to have at least 3 dimensions, but got input with "
            f"{input.dim()} dimension(s)"
        )
    r = downscale_factor
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    *front, channels, height, width = input.shape
    for name, size in (("height", height), ("width", width)):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but "
                f"{size} is not divisible by {r}"
            )
    n = len(front)
    x = input.reshape(*front, channels, height // r, r, width // r, r)
    x = x.permute(*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return x.reshape(*front, channels * r * r, height // r, width // r)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels of `groups` groups interleaved (Zhang et al., 2018); input: (N, C, ...)."""
    if input.dim() < 3:
        raise RuntimeError(
            "channel_shuffle expects input with > 2 dims, but got input with sizes "
            f"{list(input.shape)}"
        )
    batch, channels, *rest = input.shape
    if groups <= 0 or channels % groups:
        raise RuntimeError(
            "Number of channels must be divisible by groups. "
            f"Got {channels} channels and {groups} groups."
        )
    x = input.reshape(batch, groups, channels // groups, *rest).transpose(1, 2)
    return x.reshape(batch, channels, *rest)


# -- resizing --------------------------------------------------------------------------------

_LINEAR_MODES = {"linear": 3, "bilinear": 4, "bicubic": 4}


def _output_sizes(
    input: Tensor, size: Any, scale_factor: Any, recompute: bool | None
) -> tuple[list[int], list[float | None]]:
    """Per spatial dim the output's size, and the scale that was asked for (None: from sizes)."""
    count = input.dim() - 2
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is not None:
        if isinstance(size, (tuple, list)) and len(size) != count:
            raise ValueError(
                "Input and output must have the same number of spatial dimensions, but got "
                f"input with spatial dimensions of {list(input.shape[2:])} and output size of "
                f"{size}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and "
                "output size in (o1, o2, ...,oK) format."
            )
        return [int(n) for n in _ntuple(size, count)], [None] * count
    if scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    if isinstance(scale_factor, (tuple, list)) and len(scale_factor) != count:
        raise ValueError(
            "Input and scale_factor must have the same number of spatial dimensions, but got "
            f"input with spatial dimensions of {list(input.shape[2:])} and scale_factor of shape "
            f"{scale_factor}."
        )
    factors = [float(f) for f in _ntuple(scale_factor, count)]
    sizes = [math.floor(n * f) for n, f in zip(input.shape[2:], factors, strict=True)]
    if recompute:
        return sizes, [None] * count
    return sizes, [1.0 / f for f in factors]


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """(N, C, ...) with its spatial dims resized.

    mode: 'nearest', 'nearest-exact', 'linear' (3 dims), 'bilinear', 'bicubic' (4 dims), 'area'
    align_corners: the corner pixels' centres, not the images' corners, coincide
    """
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: "
                "linear | bilinear | bicubic | trilinear"
            )
    elif mode not in _LINEAR_MODES:
        raise NotImplementedInWend(f"interpolate: mode {mode!r} is not available")
    elif input.dim() != _LINEAR_MODES[mode]:
        raise NotImplementedError(
            f"Got {input.dim()}D input, but {mode} mode needs {_LINEAR_MODES[mode]}D input"
        )
    if antialias:
        raise NotImplementedInWend("interpolate: antialias=True is not available")
    if input.dim() not in (3, 4):
        raise NotImplementedInWend(
            f"interpolate: takes 3-D and 4-D inputs (N, C, ...), and this one has {input.dim()} dims"
        )
    sizes, scales = _output_sizes(input, size, scale_factor, recompute_scale_factor)
    if mode == "area":
        pool = adaptive_avg_pool1d if input.dim() == 3 else adaptive_avg_pool2d
        return pool(input, sizes if len(sizes) > 1 else sizes[0])
    for i, (n, scale) in enumerate(zip(sizes, scales, strict=True)):
        input = _resized(input, i + 2, n, scale, mode, bool(align_corners))
    return input


def _resized(
    x: Tensor, dim: int, size: int, scale: float | None, mode: str, align_corners: bool
) -> Tensor:
    """One dim resized, as a weighted sum of elements gathered."""
    old = x.shape[dim]
    if size <= 0 or old <= 0:
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input size {old} and "
            f"output size {size} at dimension {dim}"
        )
    if size == old and (scale is None or scale == 1.0):
        return x
    if mode.startswith("nearest"):
        step = old / size if scale is None else scale
        shift = 0.5 if mode == "nearest-exact" else 0.0
        index = ((arange(size, dtype=ops.float32) + shift) * step).floor()
        return x.index_select(dim, index.clamp(max=old - 1).long())
    dtype = x.dtype if x.is_floating_point() else ops.float32
    place = arange(size, dtype=dtype)
    if align_corners:
        place = place * ((old - 1) / (size - 1) if size > 1 else 0.0)
    else:
        place = (place + 0.5) * (old / size if scale is None else scale) - 0.5
    if mode == "bicubic":
        return _cubic(x, dim, place, old)
    place = place.clamp(min=0.0)
    first = place.floor().clamp(max=old - 1)
    weight = (place - first).reshape((size,) + (1,) * (x.dim() - 1 - dim))
    low = x.index_select(dim, first.long())
    high = x.index_select(dim, (first + 1).clamp(max=old - 1).long())
    return low * (1 - weight) + high * weight


def _cubic(x: Tensor, dim: int, place: Tensor, old: int) -> Tensor:
    """Four neighbours weighted by Keys' cubic kernel with a = -3/4."""
    first = place.floor()
    t = place - first
    total = None
    for k in range(-1, 3):
        index = (first + k).clamp(0, old - 1).long()
        weight = _keys((t - k).abs(), 0 <= k <= 1)
        weight = weight.reshape((place.shape[0],) + (1,) * (x.dim() - 1 - dim))
        term = x.index_select(dim, index) * weight
        total = term if total is None else total + term
    return total


def _keys(d: Tensor, near: bool) -> Tensor:
    """Keys' kernel at distances d: at most 1 (near), or 1 to 2."""
    a = -0.75
    if near:
        return ((a + 2) * d - (a + 3)) * d * d + 1
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a


def upsample(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """The former name of `interpolate`."""
    _deprecated("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` with mode 'nearest'."""
    _deprecated("upsample_nearest")
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` with mode 'bilinear' and aligned corners."""
    _deprecated("upsample_bilinear")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def _deprecated(name: str) -> None:
    warnings.warn(
        f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=3,
    )
