"""Products of quantised tensors by the kernels for bytes: exact sums in int32.

    sum of (x - zx) (w - zw) = sum of x w - zx sum of w - zw sum of (x - zx)

A filter of ones, beside the filters of the weight, gives the last sum.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import wend
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend.onnx.importing.ops.support import same_padding
from wend.onnx.importing.registry import OpNode
from wend.onnx.importing.sizes import prepared

_ONE = (1, 1)
#: The most steps of a sum: all terms of the formula stay within int32.
_DEEPEST = 1 << 14
_TYPES = (wend.uint8, wend.int8)


def suited(*tensors: Any) -> bool:
    """Whether the kernels take operands of these types."""
    return all(isinstance(t, Tensor) and t.dtype in _TYPES for t in tensors)


def _unsigned(x: Tensor, zero: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """x as uint8, and its zero point in int32."""
    zero = None if zero is None else zero.to(wend.int32)
    if x.dtype is wend.uint8:
        return x, zero
    moved = wend.full((), 128, dtype=wend.int32) if zero is None else zero + 128
    return (x.to(wend.int16) + 128).to(wend.uint8), moved


def _signed(w: Tensor) -> Tensor:
    """w as int8."""
    return w if w.dtype is wend.int8 else (w.to(wend.int16) - 128).to(wend.int8)


def _zero_of_signed(w: Tensor, zero: Tensor | None) -> Tensor | None:
    """The zero point of `_signed(w)` in int32; None for no zero point."""
    zero = None if zero is None else zero.to(wend.int32)
    if w.dtype is wend.int8:
        return zero
    return wend.full((), -128, dtype=wend.int32) if zero is None else zero - 128


class Filters(NamedTuple):
    """The rows of a weight, as the kernel reads them, and their sums.

    count: of the rows of each group, without the row of ones
    """

    panels: Tensor
    totals: Tensor
    count: int


def packed(rows: Tensor, real: Tensor, with_ones: bool) -> Filters:
    """Filters of rows (G, F, depth) in int8.

    real: ones, and zeros where the depth is padded, in int8, for the row of ones
    """
    count = rows.shape[1]
    if with_ones:
        rows = wend.cat([rows, real.expand(rows.shape[0], 1, rows.shape[2])], 1)
    return Filters(ops.pack_int8(rows), rows.to(wend.int32).sum(-1, dtype=wend.int32), count)


def _sums(x: Tensor, weight: Filters, zx: Tensor | None, zw: Tensor | None, how: Any) -> Tensor:
    """The sums: x (G, N, H, W, C) uint8, F filters of each group -> (G, N, OH, OW, F) int32.

    zx: of a shape that fits the sums   zw: for each filter, or a single number
    """
    panels, totals, filters = weight
    offset = wend.zeros(totals.shape, dtype=wend.int32)
    y = ops.windows_sum(x, panels, offset, *how)
    if zx is not None:
        y = y - zx * totals[:, None, None, None]
    if zw is None:
        return y
    if zw.numel() > 1:
        zw = zw.reshape(totals.shape[0], 1, 1, 1, filters)
    return y[..., :filters] - y[..., filters:] * zw


def matmul(a: Tensor, za: Tensor | None, b: Tensor, zb: Tensor | None) -> Tensor | None:
    """The product of (..., M, K) and (K, N) less zero points, in int32; None if not for kernels.

    za: a number, or (M,) for rows of a matrix   zb: a number, or (N,)
    """
    if not suited(a, b) or b.ndim != 2 or a.ndim < 1 or 0 in (*a.shape, *b.shape):
        return None
    by_row = za is not None and za.numel() > 1
    if b.shape[0] > _DEEPEST or (by_row and (a.ndim != 2 or za is None or za.ndim != 1)):
        return None
    (a, za), zw = _unsigned(a, za), _zero_of_signed(b, zb)
    *front, depth = a.shape
    more = -depth % 4
    rows = a.reshape(1, 1, 1, -1, depth)
    rows = wend.nn.functional.pad(rows, (0, more)) if more else rows
    if za is not None:
        za = za.reshape(1, 1, 1, -1, 1) if by_row else za.reshape(())

    def filters() -> Filters:
        real = wend.ones((1, 1, depth), dtype=wend.int8)
        w, ones = (wend.nn.functional.pad(x, (0, more)) for x in (_signed(b.t())[None], real))
        return packed(w, ones, zw is not None)

    weight = prepared(b, ("matmul", zw is None), filters)
    y = _sums(rows, weight, za, None if zw is None else zw.reshape(-1), (_ONE,) * 3)
    return y.reshape(*front, weight.count)


def convolve(
    node: OpNode, x: Tensor, zx: Tensor | None, w: Tensor, zw: Tensor | None
) -> Tensor | None:
    """A convolution over two dims less zero points, in int32; None if not for kernels."""
    groups = node.get("group", 1)
    if not suited(x, w) or x.ndim != 4 or 0 in (*x.shape, *w.shape):
        return None
    if w[0].numel() > _DEEPEST or (zx is not None and zx.numel() > 1):
        return None
    stride, dilation = (tuple(node.get(name, _ONE)) for name in ("strides", "dilations"))
    kernel = tuple(w.shape[2:])
    top, left, bottom, right = same_padding(node, x.shape[2:], kernel, stride, dilation)
    (x, zx), zw = _unsigned(x, zx), _zero_of_signed(w, zw)
    zx = None if zx is None else zx.reshape(())
    filters, channels = w.shape[:2]
    more = -channels % 4
    image = x.permute(0, 2, 3, 1)
    if top or left or bottom or right:
        pads = (0, 0, left, right, top, bottom)
        inside = wend.nn.functional.pad(wend.ones_like(image[..., :1]), pads)
        image = wend.nn.functional.pad(image, pads)
        if zx is not None:
            image = wend.where(inside != 0, image, zx.to(wend.uint8))
    n, height, width, _ = image.shape
    image = image.reshape(n, height, width, groups, channels).permute(3, 0, 1, 2, 4)
    image = wend.nn.functional.pad(image, (0, more)) if more else image

    def filters_of() -> Filters:
        ones = wend.ones((1, 1, *kernel, channels), dtype=wend.int8)
        rows = _signed(w).permute(0, 2, 3, 1)
        rows = rows.reshape(groups, filters // groups, *kernel, channels)
        rows, ones = (wend.nn.functional.pad(t, (0, more)).flatten(2) for t in (rows, ones))
        return packed(rows, ones, zw is not None)

    weight = prepared(w, ("convolve", groups, zw is None), filters_of)
    if zw is not None:
        zw = zw.reshape(-1)
    y = _sums(image, weight, zx, zw, (kernel, stride, dilation))
    return y.permute(1, 0, 4, 2, 3).flatten(1, 2)
