"""Resampling: interpolate in all modes, pixel and channel shuffles.

Each spatial dim is resampled by itself: an element of the result is a weighted sum of a few
gathered elements.  Coordinates are computed in float32 for float32 data, as PyTorch computes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wend._engine.base.dtypes import DType, float32, float64, int64, uint8
from wend._engine.base.errors import ArgumentError, NotImplementedInWend, ShapeError
from wend._engine.core.kinds import Attr, Size, Sizes, Tensor
from wend._engine.core.primitive import Primitive, Sample, composite, ops
from wend._engine.core.symbolic import hints, sym_max
from wend._engine.ops.composites.layers.adaptive import adaptive_average
from wend._engine.ops.composites.layers.conv import per_dim
from wend._engine.ops.composites.layers.pool import pool_nodes
from wend._engine.ops.composites.reduce import widened
from wend._engine.ops.gradient_nodes import NodeBuilder, NodeOperand
from wend._engine.ops.numeric import FLOATING, accumulator, require
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue

_LINEAR = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}
_MODES = ("nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear", "area")


class Axis:
    """How a dim is resampled: from n to `out` elements, `scale` source elements per result."""

    def __init__(self, n: Size, out: Any, scale: Any, align_corners: bool) -> None:
        self.n = n
        self.out = out
        self.scale = scale
        self.align_corners = align_corners

    def centers(self, dtype: DType) -> Tensor:
        """Source coordinate of each element of the result (1-D)."""
        i = ops.arange(0, self.out, 1, self.out, dtype=dtype)
        if self.align_corners:
            return ops.mul(i, (self.n - 1) / sym_max(self.out - 1, 1))
        return ops.sub(ops.mul(ops.add(i, 0.5), self.scale), 0.5)


def _nearest(axis: Axis, exact: bool) -> Tensor:
    """The source index of each element of the result."""
    i = ops.arange(0, axis.out, 1, axis.out, dtype=float32)
    if exact:
        i = ops.add(i, 0.5)
    index = ops.cast(ops.floor(ops.mul(i, axis.scale)), int64)
    return ops.minimum(index, axis.n - 1)


def _linear_taps(axis: Axis, dtype: DType) -> list[tuple[Any, Any]]:
    """(source index, weight) pairs whose weighted sum is the result."""
    at = ops.maximum(axis.centers(dtype), 0)
    low = ops.minimum(ops.cast(ops.floor(at), int64), axis.n - 1)
    high = ops.minimum(ops.add(low, 1), axis.n - 1)
    weight = ops.clamp(ops.sub(at, ops.cast(low, dtype)), 0, 1)
    return [(low, ops.sub(1, weight)), (high, weight)]


def _cubic_taps(axis: Axis, dtype: DType) -> list[tuple[Any, Any]]:
    """As _linear_taps, by the cubic convolution kernel with a = -3/4."""
    at = axis.centers(dtype)
    floor = ops.floor(at)
    t = ops.sub(at, floor)
    base = ops.cast(floor, int64)
    taps = []
    for k in (-1, 0, 1, 2):
        index = ops.minimum(ops.maximum(ops.add(base, k), 0), axis.n - 1)
        distance = ops.abs(ops.sub(t, float(k)))
        taps.append((index, _cubic(distance, -0.75, near=k in (0, 1))))
    return taps


def _cubic(d: Tensor, a: float, near: bool) -> Tensor:
    """The kernel at distance d: near is d <= 1, else 1 < d < 2."""
    if near:
        return ops.add(ops.mul(ops.mul(ops.sub(ops.mul(d, a + 2), a + 3), d), d), 1)
    inner = ops.add(ops.mul(ops.sub(ops.mul(d, a), 5 * a), d), 8 * a)
    return ops.sub(ops.mul(inner, d), 4 * a)


def _antialias_matrix(axis: Axis, cubic: bool, dtype: DType) -> Tensor:
    """Weights (out, n) of a kernel stretched over all source elements of a smaller result."""
    stretch = ops.maximum(ops.full((), axis.scale, dtype=dtype), 1)
    i = ops.arange(0, axis.out, 1, axis.out, dtype=dtype)
    center = ops.unsqueeze(ops.mul(ops.add(i, 0.5), axis.scale), 1)
    j = ops.arange(0, axis.n, 1, axis.n, dtype=dtype)
    support = ops.mul(stretch, 2.0 if cubic else 1.0)
    low = ops.maximum(ops.floor(ops.add(ops.sub(center, support), 0.5)), 0)
    high = ops.minimum(ops.floor(ops.add(ops.add(center, support), 0.5)), axis.n)
    d = ops.abs(ops.div(ops.add(ops.sub(j, center), 0.5), stretch))
    if cubic:
        near, far = _cubic(d, -0.5, near=True), _cubic(d, -0.5, near=False)
        weight = ops.where(ops.lt(d, 1), near, ops.where(ops.lt(d, 2), far, 0))
    else:
        weight = ops.maximum(ops.sub(1, d), 0)
    inside = ops.logical_and(ops.ge(j, low), ops.lt(j, high))
    weight = ops.where(inside, weight, 0)
    return ops.div(weight, ops.sum(weight, 1, True))


def _resampled(x: Tensor, axes: list[Axis], mode: str, antialias: bool) -> Tensor:
    for i, axis in enumerate(axes):
        dim = 2 + i
        if mode.startswith("nearest"):
            x = ops.index_select(x, dim, _nearest(axis, mode == "nearest-exact"))
            continue
        if antialias:
            matrix = _antialias_matrix(axis, mode == "bicubic", x.dtype)
            x = ops.transpose(ops.contract(x, matrix, (dim,), (1,)), dim, -1)
            continue
        taps = (_cubic_taps if mode == "bicubic" else _linear_taps)(axis, x.dtype)
        x = _weighted(x, dim, [index for index, _ in taps], [weight for _, weight in taps])
    return x


def _resampled_bytes(x: Tensor, axes: list[Axis], mode: str, antialias: bool) -> Tensor:
    """The result in uint8, from weights of fixed point, as PyTorch computes images of bytes.

    The last dim comes first; each dim's sums are rounded to bytes, halves upwards.
    """
    y = ops.cast(x, float64)
    for i, axis in reversed(list(enumerate(axes))):
        dim = 2 + i
        if antialias:
            (matrix,) = _fixed([_antialias_matrix(axis, mode == "bicubic", float64)])
            y = ops.transpose(ops.contract(y, matrix, (dim,), (1,)), dim, -1)
        else:
            taps = _merged((_cubic_taps if mode == "bicubic" else _linear_taps)(axis, float64))
            weights = _fixed([weight for _, weight in taps])
            y = _weighted(y, dim, [index for index, _ in taps], weights)
        y = ops.clamp(ops.floor(ops.add(y, 0.5)), 0, 255)
    return ops.cast(y, uint8)


def _merged(taps: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """The taps with the weights of equal source elements added up in the first of them."""
    merged = []
    for k, (index, _) in enumerate(taps):
        total: Any = 0.0
        for other, weight in taps:
            total = ops.add(ops.where(ops.eq(index, other), weight, 0), total)
        for earlier, _ in taps[:k]:
            total = ops.where(ops.eq(index, earlier), 0, total)
        merged.append((index, total))
    return merged


def _fixed(weights: list[Any]) -> list[Any]:
    """Weights rounded to multiples of the power of two with which the largest fits into 15 bits."""
    largest = ops.maximum(ops.amax(weights[0]), 0)
    for weight in weights[1:]:
        largest = ops.maximum(largest, ops.amax(weight))
    bits = ops.sub(ops.ceil(ops.log2(ops.div(2**15 - 0.5, largest))), 1)
    unit = ops.exp2(ops.clamp(bits, 0, 22))
    rounded = [ops.floor(ops.add(ops.mul(ops.abs(w), unit), 0.5)) for w in weights]
    return [ops.div(ops.mul(r, ops.sgn(w)), unit) for r, w in zip(rounded, weights, strict=True)]


def _weighted(x: Tensor, dim: int, indices: list[Any], weights: list[Any]) -> Any:
    """The sum of elements taken along a dim, each times its weight."""
    total = None
    for index, weight in zip(indices, weights, strict=True):
        weight = ops.reshape(weight, (weight.shape[0], *(1,) * (len(x.shape) - 1 - dim)))
        term = ops.mul(ops.index_select(x, dim, index), weight)
        total = term if total is None else ops.add(total, term)
    return total


def _scaled_extent(n: Size, factor: float) -> int:
    """floor(n * factor), in integers: extents are computed natively."""
    from fractions import Fraction  # few programs resize, and loading it takes a millisecond

    ratio = Fraction(factor).limit_denominator(1 << 20)
    return n * ratio.numerator // ratio.denominator


def _axes(
    x: Tensor, size: Any, scale_factor: Any, align_corners: bool, recompute: bool
) -> list[Axis]:
    nd = len(x.shape) - 2
    outs: tuple[Any, ...]
    factors: tuple[Any, ...]
    if (size is None) == (scale_factor is None):
        which = "only one of" if size is not None else "either"
        raise ArgumentError(f"interpolate: {which} size or scale_factor should be defined")
    extents = x.shape[2:]
    if size is not None:
        if len(size) not in (1, nd):
            raise ArgumentError(
                f"interpolate: input and output must have the same number of spatial dimensions, "
                f"but got input of shape {hints(x.shape)} and size {hints(size)}"
            )
        outs, factors = per_dim("interpolate", "size", size, nd), (None,) * nd
    else:
        scales = scale_factor if isinstance(scale_factor, tuple) else (scale_factor,) * nd
        factors = scales * nd if len(scales) == 1 else scales
        if len(factors) != nd:
            raise ArgumentError(
                f"interpolate: input and scale_factor must have the same number of spatial "
                f"dimensions, but got input of shape {hints(x.shape)} and scale_factor {scales}"
            )
        outs = tuple(_scaled_extent(n, f) for n, f in zip(extents, factors, strict=True))
    axes = []
    for n, out, factor in zip(extents, outs, factors, strict=True):
        if out <= 0 or n == 0:
            raise ShapeError(
                f"interpolate: input and output sizes should be greater than 0, but got input "
                f"{hints(extents)} and output {hints(outs)}"
            )
        exact = factor is None or recompute
        scale = n / out if exact else 1.0 / factor
        axes.append(Axis(n, out, scale, align_corners))
    return axes


def _check_mode(x: Tensor, mode: str, align_corners: bool | None, antialias: bool) -> None:
    nd = len(x.shape) - 2
    if mode not in _MODES or nd not in (1, 2, 3):
        raise NotImplementedInWend(
            f"interpolate: only 3D, 4D and 5D inputs are supported, for the modes "
            f"{' | '.join(_MODES)} (got {len(x.shape)}D, {mode})"
        )
    if mode in _LINEAR and _LINEAR[mode] != nd:
        raise NotImplementedInWend(
            f"interpolate: got {len(x.shape)}D input, but {mode} mode needs {_LINEAR[mode] + 2}D "
            "input"
        )
    if align_corners is not None and mode not in _LINEAR:
        raise ArgumentError(
            "interpolate: align_corners option can only be set with the interpolating modes: "
            "linear | bilinear | bicubic | trilinear"
        )
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ArgumentError("interpolate: antialias is only for the modes bilinear and bicubic")


def _nodes(n: NodeBuilder, x: NodeOperand, *how: Any) -> object:
    mode, antialias, nd = how[2], how[5], x.rank - 2
    if mode == "area":
        return pool_nodes(n, nd, "AdaptiveAvgPool{}D", x)
    kind = "".join(part.capitalize() for part in mode.split("-"))
    return getattr(n, f"Upsample{kind}{nd}D{'Aa' * antialias}")(x)


def _onnx_resize(self: Any, g: OnnxBuilder, x: OnnxValue, size: Any) -> Any:
    factors = self.scale_factor
    factors = factors if isinstance(factors, tuple) else (factors,)
    whole = size is None and all(float(f).is_integer() for f in factors)
    # At other factors than whole numbers, runtimes round the places of the nearest otherwise.
    fits = self.mode in _LINEAR or (self.mode == "nearest" and whole)
    wide = accumulator(x.dtype)
    if not fits or self.antialias or wide is not float32:
        return NotImplemented
    how: dict[str, Any] = {"mode": "nearest", "nearest_mode": "floor"}
    if self.mode in _LINEAR:
        how = {"mode": "cubic" if self.mode == "bicubic" else "linear", "cubic_coeff_a": -0.75}
    place = "align_corners" if self.align_corners else "half_pixel"
    how["coordinate_transformation_mode"] = place if self.mode in _LINEAR else "asymmetric"
    nd = x.rank - 2
    if size is None and not self.align_corners and not self.recompute_scale_factor:
        scales = factors * nd if len(factors) == 1 else factors
        operands: Any = (None, g.constant((1.0, 1.0, *scales), float32))
    else:
        operands = (None, None, g.sizes((*x.shape[:2], *g.out[0].shape[2:])))
    return g.cast(g.node("Resize", g.cast(x, wide), *operands, **how), x.dtype)


def _interpolate_samples(rng: np.random.Generator) -> Iterator[Sample]:
    line, image = rng.normal(size=(2, 3, 5)), rng.normal(size=(1, 2, 5, 4))
    yield Sample(line, 8)
    yield Sample(line, 3, mode="linear")
    yield Sample(line, scale_factor=1.5, mode="linear", align_corners=True)
    yield Sample(image, scale_factor=2)
    yield Sample(image, (7, 3), mode="bilinear")
    yield Sample(image, (7, 1), mode="bilinear", align_corners=True)
    yield Sample(image, scale_factor=(0.6, 1.7), mode="bilinear")
    yield Sample(image, (7, 3), mode="bicubic")
    yield Sample(image, (7, 3), mode="area")
    yield Sample(image, (7, 3), mode="nearest-exact")
    yield Sample(image, (3, 2), mode="bilinear", antialias=True)
    yield Sample(rng.normal(size=(1, 2, 3, 2, 2)), (2, 3, 4), mode="trilinear")


@composite(
    samples=_interpolate_samples,
    onnx=_onnx_resize,
    functional=("interpolate",),
    supports=frozenset({"float"}),
    grad_nodes=_nodes,
    format_of="first",
)
def interpolate(
    input: Tensor,
    size: Sizes | None = None,
    scale_factor: Attr = None,
    mode: str = "nearest",
    align_corners: Attr = None,
    recompute_scale_factor: Attr = None,
    antialias: bool = False,
) -> Any:
    """y = x resampled to `size`, or by `scale_factor`, over the spatial dims.

    input: (N, C, *S) with 1 to 3 spatial dims   size: int, or an int per dim
    mode: nearest, nearest-exact, linear (3D), bilinear and bicubic (4D), trilinear (5D), area
    Raises ArgumentError unless exactly one of size and scale_factor is given, ShapeError for
    empty extents, NotImplementedInWend for a mode that does not fit the rank.
    """
    _check_mode(input, mode, align_corners, antialias)
    if input.dtype is not uint8 or mode == "area":
        require("interpolate", FLOATING, input.dtype)
    axes = _axes(input, size, scale_factor, bool(align_corners), bool(recompute_scale_factor))
    if mode == "area":
        return adaptive_average(input, tuple(axis.out for axis in axes))
    if mode.startswith("nearest"):
        return _resampled(input, axes, mode, False)
    if input.dtype is uint8:
        return _resampled_bytes(input, axes, mode, antialias)
    return ops.cast(_resampled(widened(input), axes, mode, antialias), input.dtype)


# --- shuffles ------------------------------------------------------------------------------------


def _shuffle_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(rng.normal(size=(2, 8, 3, 2)), 2)
    yield Sample(rng.normal(size=(9, 2, 2)), 3)
    yield Sample(rng.normal(size=(2, 3, 3, 2)), 1)


def _require_rank(op: str, x: Tensor, rank: int) -> None:
    if len(x.shape) < rank:
        raise ShapeError(
            f"{op}: expects input to have at least {rank} dimensions, but got {len(x.shape)}"
        )


def _onnx_shuffle(self: Primitive, g: OnnxBuilder, x: OnnxValue, factor: Size) -> Any:
    size = g.fixed(factor)
    if x.rank != 4 or size is None or not g.runs("DepthToSpace", x.dtype):
        return NotImplemented
    return g.node("DepthToSpace", x, blocksize=size, mode="CRD")


@composite(
    onnx=_onnx_shuffle,
    functions=("pixel_shuffle",),
    functional=("pixel_shuffle",),
    samples=_shuffle_samples,
    format_of="first",
)
def pixel_shuffle(input: Tensor, upscale_factor: Size) -> Tensor:
    """y: (..., C * r * r, H, W) rearranged to (..., C, H * r, W * r).

    Raises ShapeError unless r * r divides the channels.
    """
    _require_rank("pixel_shuffle", input, 3)
    r = upscale_factor
    *front, channels, height, width = input.shape
    if r <= 0:
        raise ShapeError(f"pixel_shuffle: expects a positive upscale_factor, but got {r}")
    if channels % (r * r) != 0:
        raise ShapeError(
            "pixel_shuffle: expects its input's 'channel' dimension to be divisible by the square "
            f"of upscale_factor, but input.size(-3)={channels} is not divisible by {r * r}"
        )
    kept = channels // (r * r)
    n = len(front)
    y = ops.reshape(input, (*front, kept, r, r, height, width))
    y = ops.permute(y, (*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return ops.reshape(y, (*front, kept, height * r, width * r))


def _unshuffle_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(rng.normal(size=(2, 3, 4, 6)), 2)
    yield Sample(rng.normal(size=(2, 3, 6)), 3)


@composite(
    functions=("pixel_unshuffle",),
    functional=("pixel_unshuffle",),
    samples=_unshuffle_samples,
    format_of="first",
)
def pixel_unshuffle(input: Tensor, downscale_factor: Size) -> Tensor:
    """y: (..., C, H * r, W * r) rearranged to (..., C * r * r, H, W).

    Raises ShapeError unless r divides height and width.
    """
    _require_rank("pixel_unshuffle", input, 3)
    r = downscale_factor
    *front, channels, height, width = input.shape
    if r <= 0:
        raise ShapeError(f"pixel_unshuffle: expects a positive downscale_factor, but got {r}")
    for name, extent, dim in (("height", height, -2), ("width", width, -1)):
        if extent % r != 0:
            raise ShapeError(
                f"pixel_unshuffle: expects {name} to be divisible by downscale_factor, but "
                f"input.size({dim})={extent} is not divisible by {r}"
            )
    n = len(front)
    y = ops.reshape(input, (*front, channels, height // r, r, width // r, r))
    y = ops.permute(y, (*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return ops.reshape(y, (*front, channels * r * r, height // r, width // r))


def _channel_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(rng.normal(size=(2, 6, 3)), 2)
    yield Sample(rng.normal(size=(1, 4, 2, 2)), 4)


@composite(
    functions=("channel_shuffle",),
    functional=("channel_shuffle", "native_channel_shuffle"),
    samples=_channel_samples,
    format_of="first",
)
def channel_shuffle(input: Tensor, groups: Size) -> Tensor:
    """y = x with channel (g, c) at (c, g): the channels of `groups` groups interleaved.

    input: (N, C, *S). Raises ShapeError unless groups divides C.
    """
    _require_rank("channel_shuffle", input, 3)
    n, channels, *rest = input.shape
    if groups <= 0 or channels % groups != 0:
        raise ShapeError(
            f"channel_shuffle: number of channels ({channels}) must be divisible by groups "
            f"({groups})"
        )
    y = ops.reshape(input, (n, groups, channels // groups, *rest))
    return ops.reshape(ops.transpose(y, 1, 2), (n, channels, *rest))
