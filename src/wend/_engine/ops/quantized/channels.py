"""Depthwise convolutions of bytes: each channel by a filter of its own, with channels last.

Sums are whole numbers in int32, as in `windows`.  Taps beyond the image meet the zero point.

    x: (G, N, H, W, C) uint8   weight: (G, taps, C) int8   offset, factor, shift: (G, C)

    `sums[g, n, i, j, c]`: the sum over k, l of
    x[g, n, i s + k d - p, j s + l d - p, c] weight[g, kl, c]
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wend._engine.base.dtypes import uint8
from wend._engine.base.errors import DTypeError, ShapeError
from wend._engine.core.primitive import Sample
from wend._engine.core.symbolic import hints
from wend._engine.core.types import Spec
from wend._engine.ops.neural.patches import check_windows, taps, window_view
from wend._engine.ops.numeric import Array
from wend._engine.ops.quantized.windows import WindowsOfBytes, WindowsQuantized, to_bytes

_GEOMETRIES = (
    # G, N, H, W, C, kernel, stride, dilation, padding
    (1, 2, 5, 6, 16, (3, 3), (1, 1), (1, 1), (1, 1)),
    (2, 1, 7, 4, 19, (3, 2), (2, 2), (1, 2), (0, 3)),
    (1, 1, 3, 3, 40, (5, 6), (1, 1), (1, 1), (2, 3)),
    (1, 0, 3, 3, 2, (1, 1), (1, 1), (1, 1), (0, 0)),
)


class ChannelsQuantized(WindowsOfBytes):
    """y = round((sums - offset) * factor + shift) + zero, between low and high, in uint8.

    limits: (G, 4) int32, the zero point, low, high, and the zero point of x
    kernel, stride, dilation, padding: (rows, columns)
    Halves are rounded to even numbers. Raises ShapeError or DTypeError where operands do not fit.
    """

    signature = (
        "x, weight, offset, factor, shift, limits, kernel: ints, stride: ints, dilation: ints, "
        "padding: ints"
    )
    others, gives = WindowsQuantized.others, uint8
    padding: tuple[int, ...]

    def infer(self, x: Spec, *rest: Spec) -> Spec:
        for spec, dtype in zip((x, *rest), (uint8, *self.others), strict=True):
            if spec.dtype is not dtype:
                raise DTypeError(f"{self.name}: an operand is {spec.dtype}, and not {dtype}")
        fits = x.rank == 5 and rest[0].rank == 3
        fits = fits and all(bool(spec.shape[0] == x.shape[0]) for spec in rest)
        fits = fits and all(bool(spec.shape[-1] == x.shape[4]) for spec in rest[:4])
        if not fits:
            shapes = ", ".join(str(hints(spec.shape)) for spec in (x, *rest))
            raise ShapeError(
                f"{self.name}: operands of shapes {shapes} do not fit; expected (G, N, H, W, C), "
                "(G, taps, C) and (G, C)"
            )
        padded = tuple(n + 2 * p for n, p in zip(x.shape[2:4], self.padding, strict=True))
        counts = check_windows(self.name, padded, self.kernel, self.stride, self.dilation, x.shape)
        return Spec((*x.shape[:2], *counts, x.shape[4]), uint8)

    def reference(
        self, x: Array, weight: Array, offset: Array, factor: Array, shift: Array, limits: Array
    ) -> Array:
        (top, left), zero = self.padding, limits[:, 3, None, None, None, None]
        grown = ((0, 0), (0, 0), (top, top), (left, left), (0, 0))
        inside = np.pad(np.ones(x.shape, bool), grown)
        wide = np.where(inside, np.pad(x, grown).astype(np.int64), zero)
        view = window_view(np.moveaxis(wide, 4, 2), self.kernel, self.stride, self.dilation)
        sums = np.zeros(1, np.int64)
        for k, (row, column) in enumerate(taps(self.kernel)):
            part = view[:, :, :, row, column].transpose(0, 1, 3, 4, 2)
            sums = sums + part * weight[:, k, None, None, None].astype(np.int64)
        sums = (sums - offset[:, None, None, None]).astype(np.int32)
        return to_bytes(self.scaled(sums, factor, shift), limits)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for groups, n, h, w, c, kernel, stride, dilation, padding in _GEOMETRIES:
            yield Sample(
                rng.integers(0, 256, (groups, n, h, w, c)).astype(np.uint8),
                rng.integers(-128, 128, (groups, kernel[0] * kernel[1], c)).astype(np.int8),
                rng.integers(-9000, 9000, (groups, c)).astype(np.int32),
                rng.uniform(1e-4, 1e-3, (groups, c)).astype(np.float32),
                rng.normal(size=(groups, c)).astype(np.float32),
                np.tile(np.array([7, 3, 200, 9], np.int32), (groups, 1)),
                kernel, stride, dilation, padding,
            )  # fmt: skip
