"""Layers of 8 bits as composites of `windows`: packing, linear layers, convolutions.

A weight is packed once into panels, see `ops/quantized/windows.py`. Inside, channels are the last
dim of an image: (N, H, W, C).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from wend._engine.base.dtypes import float32, int32, uint8
from wend._engine.core.kinds import Ints, Scalar, Size, Sizes, Tensor
from wend._engine.core.primitive import Sample, composite, ops
from wend._engine.ops.quantized.windows import DEPTH, FILTERS

_ONE = ((1, 1), (1, 1), (1, 1))
#: The dims of an image with channels last, and with channels in front of these.
_LAST, _FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
INTEGERS = frozenset({"int"})


def _missing(n: Size, multiple: int) -> Size:
    """How many there are less than the next multiple."""
    return (n + multiple - 1) // multiple * multiple - n


def _bytes(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(0, 256, shape).astype(np.uint8)


def _weights(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-128, 128, shape).astype(np.int8)


def _pack_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(_weights(rng, 2, 5, 12))
    yield Sample(_weights(rng, 1, 32, 7))
    yield Sample(_weights(rng, 1, 0, 4))


@composite(samples=_pack_samples, supports=INTEGERS)
def pack_int8(weight: Tensor) -> Tensor:
    """The panels of a weight: (G, F, K) int8 -> (G, P, S, 64)."""
    groups, filters, depth = weight.shape
    more, deeper = _missing(filters, FILTERS), _missing(depth, DEPTH)
    weight = ops.pad(weight, (0, deeper, 0, more))
    shape = (groups, (filters + more) // FILTERS, FILTERS, (depth + deeper) // DEPTH, DEPTH)
    panels = ops.permute(ops.reshape(weight, shape), (0, 1, 3, 2, 4))
    return ops.reshape(panels, (*panels.shape[:3], FILTERS * DEPTH))


def _rows(x: Tensor, panels: Tensor) -> Tensor:
    """Rows of bytes as an image of a row, as deep as the panels: (..., K) -> (1, 1, 1, M, 4 S)."""
    *front, depth = x.shape
    x = ops.reshape(x, (1, 1, 1, math.prod(front), depth))
    more = panels.shape[2] * DEPTH - depth
    return x if more == 0 else ops.pad(x, (0, more))


def _dynamic_samples(rng: np.random.Generator) -> Iterator[Sample]:
    for shape, filters in (((5, 8), 20), ((2, 3, 6), 3), ((4,), 16)):
        steps, panels = (shape[-1] + 3) // 4, (filters + 15) // 16
        weight = _weights(rng, 1, panels, steps, 64)
        x, totals = rng.normal(size=shape).astype(np.float32), rng.integers(-900, 900, filters)
        yield Sample(
            x, weight, totals.astype(np.int32),
            rng.uniform(1e-3, 1e-2, filters).astype(np.float32),
            rng.normal(size=filters).astype(np.float32), False, 127,
        )  # fmt: skip


@composite(samples=_dynamic_samples, supports=INTEGERS)
def linear_int8_dynamic(
    input: Tensor, panels: Tensor, totals: Tensor, scales: Tensor, bias: Tensor,
    relu: bool = False, top: int = 127,
) -> Tensor:  # fmt: skip
    """y = x weight.T + bias, of x rounded to bytes up to `top` by the range of all of x.

    input: (..., K)   panels: (1, P, S, 64)   totals, scales, bias: (F,)   ->   (..., F)
    totals: the sums of the rows of the weight, int32   scales: those of the rows
    """
    x = ops.cast(input, float32)
    if math.prod(x.shape) == 0:
        scale, zero = ops.full((), 0.1, dtype=float32), ops.full((), 0, dtype=int32)
    else:
        every = tuple(range(len(x.shape)))
        least, greatest = ops.amin(x, every), ops.amax(x, every)
        scale, zero = ops.byte_scale(least, greatest, top), ops.byte_point(least, greatest, top)
    q = ops.round_to_bytes(x, 1 / scale, zero, 0, 255, uint8)
    offset, factor = ops.unsqueeze(totals * zero, 0), ops.unsqueeze(scales * scale, 0)
    y = ops.windows_scaled(
        _rows(q, panels), panels, offset, factor, ops.unsqueeze(bias, 0), *_ONE, relu
    )
    return ops.reshape(y, (*x.shape[:-1], totals.shape[0]))


def _linear_samples(rng: np.random.Generator) -> Iterator[Sample]:
    for shape, filters in (((5, 8), 20), ((2, 3, 6), 3), ((0, 4), 16)):
        steps, panels = (shape[-1] + 3) // 4, (filters + 15) // 16
        yield Sample(
            _bytes(rng, *shape), _weights(rng, 1, panels, steps, 64),
            rng.integers(-900, 900, (1, filters)).astype(np.int32),
            rng.uniform(1e-3, 1e-2, (1, filters)).astype(np.float32),
            rng.normal(size=(1, filters)).astype(np.float32),
            np.array([[7, 7, 255]], np.int32),
        )  # fmt: skip


@composite(samples=_linear_samples, supports=INTEGERS)
def linear_int8(
    input: Tensor, panels: Tensor, offset: Tensor, factor: Tensor, shift: Tensor, limits: Tensor
) -> Tensor:
    """A linear layer from bytes to bytes: (..., K) uint8 -> (..., F) uint8.

    panels: (1, P, S, 64)   offset, factor, shift, limits: as of `windows_quantized`
    """
    y = ops.windows_quantized(_rows(input, panels), panels, offset, factor, shift, limits, *_ONE)
    return ops.reshape(y, (*input.shape[:-1], offset.shape[1]))


def _gate_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(_weights(rng, 12, 3), 4)
    yield Sample(_weights(rng, 57, 19), 3)


@composite(samples=_gate_samples, supports=INTEGERS)
def pack_int8_gates(weight: Tensor, gates: int) -> Tensor:
    """The panels of a recurrent weight, see `scans`: (gates * H, K) int8 -> (P, S, 64)."""
    rows, depth = weight.shape
    units = rows // gates
    more, deeper = _missing(units, FILTERS), _missing(depth, DEPTH)
    weight = ops.pad(ops.reshape(weight, (gates, units, depth)), (0, deeper, 0, more))
    shape = (gates, (units + more) // FILTERS, FILTERS, (depth + deeper) // DEPTH, DEPTH)
    panels = ops.permute(ops.reshape(weight, shape), (1, 0, 3, 2, 4))
    return ops.reshape(panels, (gates * shape[1], shape[3], FILTERS * DEPTH))


def _conv_samples(rng: np.random.Generator) -> Iterator[Sample]:
    for shape, filters, groups in (
        ((2, 4, 5, 6), 3, 1),
        ((1, 3, 4, 4), 8, 1),
        ((1, 8, 5, 5), 6, 2),
    ):
        channels = (shape[1] // groups + 3) // 4 * 4
        each = filters // groups
        weight = _weights(rng, groups, (each + 15) // 16, channels * 9 // 4, 64)
        yield Sample(
            _bytes(rng, *shape), weight,
            rng.integers(-900, 900, (groups, each)).astype(np.int32),
            rng.uniform(1e-3, 1e-2, (groups, each)).astype(np.float32),
            rng.normal(size=(groups, each)).astype(np.float32),
            np.tile(np.array([7, 7, 255], np.int32), (groups, 1)), 9,
            (1, 1), (3, 3), (1, 2), (1, 1),
        )  # fmt: skip


@composite(samples=_conv_samples, supports=INTEGERS)
def conv2d_int8(
    input: Tensor, panels: Tensor, offset: Tensor, factor: Tensor, shift: Tensor, limits: Tensor,
    zero: Scalar, padding: Sizes, kernel: Ints, stride: Ints, dilation: Ints,
) -> Tensor:  # fmt: skip
    """A convolution from bytes to bytes: (N, C, H, W) uint8 -> (N, F, OH, OW) uint8.

    panels: (G, P, S, 64)   offset, factor, shift: (G, F / G)   limits: (G, 3)
    zero: the zero point of the input, with which images are padded
    """
    x = image_of_bytes(ops.permute(input, _LAST), panels, zero, padding, kernel)
    how = (kernel, stride, dilation)
    y = ops.windows_quantized(x, panels, offset, factor, shift, limits, *how)
    return ops.permute(_joined(y), _FIRST)


def image_of_bytes(input: Tensor, panels: Tensor, zero: Any, padding: Any, kernel: Ints) -> Tensor:
    """An image of bytes padded, with channels as the panels have: (G, N, H, W, C), or words."""
    n, h, w, channels = input.shape
    groups, taps = panels.shape[0], kernel[0] * kernel[1]
    each = channels // groups
    more = panels.shape[2] * DEPTH // taps - each
    if groups == 1 and (more == 1 or more == 2 or more == 3):
        few = next((k for k in (1, 2, 3) if each == k), None)
        if few is not None:
            return ops.unsqueeze(_words_of_bytes(input, few, zero, padding), 0)
    x = input
    if any(p != 0 for p in padding) or more != 0:
        x = ops.reshape(x, (n, h, w, groups, each)) if groups != 1 else x
        pads = (0, more, 0, 0) if groups != 1 else (0, more)
        (top, left) = padding
        x = ops.pad(x, (*pads, left, left, top, top), zero)
        n, h, w = x.shape[:3]
    if groups == 1:
        return ops.unsqueeze(x, 0)
    x = ops.reshape(x, (n, h, w, groups, each + more))
    return ops.permute(x, (3, 0, 1, 2, 4))


def _words_of_bytes(x: Tensor, channels: int, zero: Any, padding: Any) -> Tensor:
    """An image of up to three channels, padded, as words of four bytes: (N, H, W, 1) int32.

    Colours usually lie in planes. Whole vectors of these become words of four bytes; to move byte
    by byte would take several times as long.
    """
    words = None
    for k in range(channels):
        plane = ops.mul(ops.cast(ops.select(x, 3, k), int32), 1 << 8 * k)
        words = plane if words is None else ops.add(words, plane)
    top, left = padding
    if any(p != 0 for p in padding):
        every = sum(1 << 8 * k for k in range(channels))
        words = ops.pad(words, (left, left, top, top), zero * every)
    return ops.unsqueeze(words, 3)


def _joined(y: Tensor) -> Tensor:
    """(G, N, H, W, F) -> (N, H, W, G F)."""
    groups, n, h, w, f = y.shape
    if groups == 1:
        return ops.reshape(y, (n, h, w, f))
    return ops.reshape(ops.permute(y, (1, 2, 3, 0, 4)), (n, h, w, groups * f))


def _depthwise_samples(rng: np.random.Generator) -> Iterator[Sample]:
    for shape, padding, stride in (((2, 4, 5, 6), (1, 1), (1, 1)), ((1, 19, 6, 5), (0, 1), (2, 2))):
        channels = shape[1]
        yield Sample(
            _bytes(rng, *shape), _weights(rng, 9, channels),
            rng.integers(-900, 900, channels).astype(np.int32),
            rng.uniform(1e-3, 1e-2, channels).astype(np.float32),
            rng.normal(size=channels).astype(np.float32),
            np.array([9, 7, 255, 7], np.int32), padding, (3, 3), stride, (1, 1),
        )  # fmt: skip


@composite(samples=_depthwise_samples, supports=INTEGERS)
def depthwise_int8(
    input: Tensor, weight: Tensor, offset: Tensor, factor: Tensor, shift: Tensor, limits: Tensor,
    padding: Ints, kernel: Ints, stride: Ints, dilation: Ints,
) -> Tensor:  # fmt: skip
    """A convolution of each channel by itself: (N, C, H, W) uint8 -> (N, C, OH, OW) uint8.

    weight: (taps, C) int8   offset, factor, shift: (C,)   limits: (4,), as of `channels_quantized`
    """
    rest = [ops.unsqueeze(x, 0) for x in (weight, offset, factor, shift, limits)]
    x = ops.unsqueeze(ops.permute(input, _LAST), 0)
    y = ops.channels_quantized(x, *rest, kernel, stride, dilation, padding)
    return ops.permute(ops.squeeze(y, 0), _FIRST)
