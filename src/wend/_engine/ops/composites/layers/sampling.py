"""Images sampled at places of a grid (Jaderberg et al., 2015)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from wend._engine.base.dtypes import FLOAT, DType, float64, int64
from wend._engine.base.errors import ArgumentError, DTypeError, DTypeNotImplemented, ShapeError
from wend._engine.core.kinds import Size, Sizes, Tensor
from wend._engine.core.primitive import Sample, composite, ops
from wend._engine.core.symbolic import hints, numel
from wend._engine.ops.composites.reduce import widened
from wend._engine.ops.sugar import sugar

MODES = ("bilinear", "nearest", "bicubic")
PADDING_MODES = ("zeros", "border", "reflection")
_A = -0.75  # of the cubic kernel


def _pixels(place: Tensor, size: Size, nd: int, align_corners: bool) -> Tensor:
    """[-1, 1] as pixel numbers, rounded as PyTorch does for images of `nd` dims.

    At the centre of a pixel, rounding decides which neighbour the slope is taken to.
    """
    if align_corners:
        return (place + 1) * ((size - 1) / 2)
    return (place + 1) * (size / 2) - 0.5 if nd == 2 else ((place + 1) * size - 1) / 2


def _reflected(x: Tensor, low: float, span: Size) -> Tensor:
    """x mirrored at both ends, low and low + span, until it lies between them."""
    if span == 0:
        return x * 0
    turned = ops.fmod(ops.abs(x - low), 2 * span)
    return ops.where(turned > span, 2 * span - turned, turned) + low


def _padded(x: Tensor, size: Size, padding: str, align_corners: bool) -> Tensor:
    """Pixel numbers brought into the image as the padding mode says."""
    if padding == "zeros":
        return x
    if padding == "reflection":
        x = _reflected(x, 0, size - 1) if align_corners else _reflected(x, -0.5, size)
    return ops.clamp(x, 0, size - 1)


def _pick(x: Tensor, places: list[Any]) -> Tensor:
    """x[n, :, *places[n]], 0 outside; places: (N, *O) whole numbers per dim -> (N, C, *O)."""
    front, size = x.shape[:2], x.shape[2:]
    index = inside = None
    for place, n in zip(places, size, strict=True):
        within = ops.logical_and(place >= 0, place < n)
        whole = ops.cast(ops.where(within, place, 0), int64)
        index = whole if index is None else index * n + whole
        inside = within if inside is None else ops.logical_and(inside, within)
    assert index is not None and inside is not None
    out = index.shape[1:]
    rows = ops.expand(ops.reshape(index, (front[0], 1, numel(out))), (*front, numel(out)))
    elements = ops.gather(ops.reshape(x, (*front, numel(size))), 2, rows)
    elements = ops.reshape(elements, (*front, *out))
    return ops.where(ops.unsqueeze(inside, 1), elements, 0)


def _linear(x: Tensor, places: list[Any]) -> Any:
    """The 2^d pixels around each place, weighted by how near they lie."""
    low = [ops.floor(ops.detach(place)) for place in places]
    high_parts = [ops.unsqueeze(p - b, 1) for p, b in zip(places, low, strict=True)]
    total = None
    for corner in product((0, 1), repeat=len(places)):
        term = _pick(x, [b + c for b, c in zip(low, corner, strict=True)])
        for c, part in zip(corner, high_parts, strict=True):
            term = term * (part if c else 1 - part)
        total = term if total is None else total + term
    return total


def _cubic_weights(t: Tensor) -> list[Any]:
    """Weights of the four pixels around a place, t from the second on (Keys, 1981)."""

    def near(d: Tensor) -> Tensor:
        return ((_A + 2) * d - (_A + 3)) * d * d + 1

    def far(d: Tensor) -> Tensor:
        return ((_A * d - 5 * _A) * d + 8 * _A) * d - 4 * _A

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _cubic(x: Tensor, places: list[Any], padding: str, align_corners: bool) -> Any:
    """The 4 x 4 pixels around each place, each of them brought into the image."""
    base = [ops.floor(ops.detach(place)) for place in places]
    parts = [ops.unsqueeze(p - b, 1) for p, b in zip(places, base, strict=True)]
    rows, columns = ([_padded(b + k, n, padding, align_corners) for k in range(-1, 3)]
                     for b, n in zip(base, x.shape[2:], strict=True))  # fmt: skip
    weights = [_cubic_weights(t) for t in parts]
    total = None
    for i, row in enumerate(rows):
        line = sum(_pick(x, [row, c]) * weights[1][j] for j, c in enumerate(columns))
        line = line * weights[0][i]
        total = line if total is None else total + line
    return total


def _check(x: Tensor, grid: Tensor, mode: str) -> None:
    op, nd = "grid_sampler()", len(x.shape) - 2
    sizes = f"but got input with sizes {hints(x.shape)} and grid with sizes {hints(grid.shape)}"
    if x.dtype is not grid.dtype:
        raise DTypeError(
            f"{op}: expected input and grid to have the same dtype, but input has {x.dtype} "
            f"and grid has {grid.dtype}"
        )
    if nd not in (2, 3) or len(grid.shape) != len(x.shape):
        raise ShapeError(
            f"{op}: expected 4D or 5D input and grid with same number of dims, {sizes}"
        )
    if x.shape[0] != grid.shape[0]:
        raise ShapeError(f"{op}: expected grid and input to have same batch size, {sizes}")
    if grid.shape[-1] != nd:
        raise ShapeError(f"{op}: expected grid to have size {nd} in last dimension, {sizes}")
    if any(n == 0 for n in x.shape[2:]):
        raise ShapeError(f"{op}: expected input to have non-empty spatial dimensions, {sizes}")
    if mode == "bicubic" and nd == 3:
        raise ShapeError(f"{op}: bicubic interpolation only supports 4D input")
    if x.dtype.category < FLOAT:
        raise DTypeNotImplemented(f"{op}: not implemented for {x.dtype}: it takes floats")


def _sampler_samples(rng: np.random.Generator) -> Iterator[Sample]:
    image, volume = rng.normal(size=(2, 3, 4, 5)), rng.normal(size=(1, 2, 3, 4, 2))
    grid = rng.uniform(-1.3, 1.3, size=(2, 3, 2, 2))
    for mode, padding, corners in ((0, 0, False), (0, 2, True), (1, 1, False), (2, 2, False)):
        yield Sample(image, grid, mode, padding, corners)
    yield Sample(volume, rng.uniform(-1.3, 1.3, size=(1, 2, 3, 2, 3)), 0, 0, True)


@composite(
    samples=_sampler_samples,
    supports=frozenset({"float"}),
    grad_nodes=lambda n, x, grid, *_: (n.GridSampler2D if x.rank == 4 else n.GridSampler3D)(
        x, grid
    ),
)
def grid_sampled(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """y[n, :, *o] = input[n] at the place grid[n, *o] in [-1, 1], the last dim first.

    input: (N, C, *S) with 2 or 3 spatial dims   grid: (N, *O, d)   ->   y: (N, C, *O)
    interpolation_mode: 0 linear, 1 nearest, 2 cubic     padding_mode: 0 zeros, 1 border (the
    nearest pixel), 2 reflection. Raises ShapeError, ArgumentError.
    """
    if not (0 <= interpolation_mode < 3 and 0 <= padding_mode < 3):
        raise ArgumentError(
            f"grid_sampler(): modes are 0, 1 and 2, got interpolation_mode={interpolation_mode}, "
            f"padding_mode={padding_mode}"
        )
    mode, padding = MODES[interpolation_mode], PADDING_MODES[padding_mode]
    _check(input, grid, mode)
    x, places = widened(input), widened(grid)
    size = x.shape[2:]
    pixels = [
        _pixels(ops.select(places, -1, len(size) - 1 - i), n, len(size), align_corners)
        for i, n in enumerate(size)
    ]
    if mode == "bicubic":
        return ops.cast(_cubic(x, pixels, padding, align_corners), input.dtype)
    pixels = [_padded(p, n, padding, align_corners) for p, n in zip(pixels, size, strict=True)]
    if mode == "bilinear":
        return ops.cast(_linear(x, pixels), input.dtype)
    rounded = [ops.round(p) for p in pixels]
    picked = _pick(x, [ops.detach(p) for p in rounded])
    flat = sum(ops.unsqueeze(p, 1) for p in rounded)  # whose gradient is zeros, as PyTorch's
    return ops.cast(ops.graft(picked, picked + flat), input.dtype)


@sugar(functions=("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"))
def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """y[n, :, *o] = input[n] at the place grid[n, *o]; see `nn.functional.grid_sample`.

    interpolation_mode: 0 linear, 1 nearest, 2 cubic
    padding_mode: 0 zeros, 1 border, 2 reflection
    """
    modes = int(interpolation_mode), int(padding_mode)
    return ops.grid_sampled(input, grid, *modes, bool(align_corners))


def centres(size: Size, align_corners: bool, dtype: DType) -> Tensor:
    """Places of `size` pixels in [-1, 1]: of the centres, or with corners on the ends.

    Both halves are counted from their end, and rounded once, as PyTorch does.
    """
    count = ops.cast(ops.arange(0, size, 1, size), float64)
    if not size > 1:
        return ops.cast(count, dtype)
    step = ops.cast(ops.full((), 2 / (size - 1), dtype=dtype), float64)
    upper = 1 - step * (size - 1 - count)
    ends = ops.cast(ops.where(count < size // 2, step * count - 1, upper), dtype)
    return ends if align_corners else ends * (size - 1) / size


def _generator_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(rng.normal(size=(2, 2, 3)), (2, 3, 4, 5), True)
    yield Sample(rng.normal(size=(2, 2, 3)), (2, 3, 1, 5), False)
    yield Sample(rng.normal(size=(1, 3, 4)), (1, 2, 3, 2, 2), False)


@composite(
    functions=("affine_grid_generator",),
    samples=_generator_samples,
    supports=frozenset({"float"}),
)
def affine_grid_generator(theta: Tensor, size: Sizes, align_corners: bool) -> Tensor:
    """The grid of an affine map of places in [-1, 1], for `grid_sampler`.

    theta: (N, 2, 3)   size: (N, C, H, W)      ->   (N, H, W, 2)
    theta: (N, 3, 4)   size: (N, C, D, H, W)   ->   (N, D, H, W, 3)
    """
    spatial = tuple(size)[2:]
    nd = len(spatial)
    if nd not in (2, 3):
        raise ShapeError(f"affine_grid_generator: takes sizes of 4 or 5 dims, got {hints(size)}")
    if hints(theta.shape) != (hints(size)[0], nd, nd + 1):
        raise ShapeError(
            f"affine_grid_generator: expected theta of shape {(hints(size)[0], nd, nd + 1)}, got "
            f"{hints(theta.shape)}"
        )
    columns = []
    for i in reversed(range(nd)):
        row = ops.reshape(centres(spatial[i], align_corners, theta.dtype),
                          (spatial[i], *(1,) * (nd - 1 - i)))  # fmt: skip
        columns.append(ops.reshape(ops.expand(row, spatial), (numel(spatial),)))
    columns.append(ops.full((numel(spatial),), 1, dtype=theta.dtype))
    base = ops.stack(columns, -1)
    grid = ops.matmul(ops.unsqueeze(base, 0), ops.transpose(theta, 1, 2))
    return ops.reshape(grid, (theta.shape[0], *spatial, nd))
