"""Products of windows of bytes and int8 weights: convolutions and linear layers of 8 bits.

Sums are whole numbers in int32, so that all executors agree on every bit.  A weight comes in panels
of 16 filters, four steps of depth side by side:

    panels[g, p, s, 4 j + i] = weight[g, 16 p + j, 4 s + i]

The depth of a filter is its kernel's rows, columns and channels, in this order.  The number of
channels is a multiple of 4.  `products.pack_int8` makes panels.

    x: (G, N, H, W, C) uint8   panels: (G, P, S, 64) int8   offset, factor, shift: (G, F)

    An image x may have words instead, int32 of four channels each: (G, N, H, W, C / 4).

    `sums[g, n, i, j, f]`: the sum over k, l, c of
    x[g, n, i s + k d, j s + l d, c] weight[g, f, k, l, c]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from wend._engine.base.dtypes import DType, float32, int8, int32, uint8
from wend._engine.base.errors import DTypeError, ShapeError
from wend._engine.core.kinds import Size, Tensor
from wend._engine.core.op_facts import OpFacts, OpSchedule
from wend._engine.core.primitive import NO_GRADIENT, Primitive, Sample, ops
from wend._engine.core.symbolic import hints
from wend._engine.core.types import Spec
from wend._engine.ops.neural.patches import check_windows, window_count, window_view
from wend._engine.ops.numeric import Array

#: Filters of a panel, and steps of depth that an instruction takes at once.
FILTERS, DEPTH = 16, 4
_GEOMETRIES = (
    # G, N, H, W, C, F, kernel, stride, dilation
    (1, 1, 1, 5, 8, 20, (1, 1), (1, 1), (1, 1)),
    (1, 2, 6, 7, 4, 16, (3, 3), (1, 1), (1, 1)),
    (2, 1, 7, 9, 4, 3, (3, 2), (2, 2), (1, 2)),
    (1, 1, 1, 1, 12, 70, (1, 1), (1, 1), (1, 1)),
    (1, 0, 3, 3, 4, 2, (1, 1), (1, 1), (1, 1)),
)


class WindowsOfBytes(Primitive, abstract=True):
    """Base: checks, sums and the batching rule.

    kernel, stride, dilation: (rows, columns)
    """

    schedule = OpSchedule(heavy=True)
    facts = OpFacts(supports=frozenset({"int"}))
    vjp = NO_GRADIENT
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    #: The dtypes of the operands behind x, and of the result.
    others: ClassVar[tuple[DType, ...]]
    gives: ClassVar[DType]

    def infer(self, x: Spec, *rest: Spec) -> Spec:
        words = x.dtype is int32
        wanted = (int32 if words else uint8, *self.others)
        for spec, dtype in zip((x, *rest), wanted, strict=True):
            if spec.dtype is not dtype:
                raise DTypeError(f"{self.name}: an operand is {spec.dtype}, and not {dtype}")
        panels, offset = rest[:2]
        fits = x.rank == 5 and panels.rank == 4
        fits = fits and all(spec.rank == 2 and spec.shape[0] == x.shape[0] for spec in rest[1:])
        if fits:
            depth = x.shape[4] * (self.kernel[0] * self.kernel[1] * (DEPTH if words else 1))
            fits = bool(panels.shape[0] == x.shape[0]) and bool(panels.shape[2] * DEPTH == depth)
            fits = fits and bool(panels.shape[1] == (offset.shape[1] + FILTERS - 1) // FILTERS)
        if not fits:
            shapes = ", ".join(str(hints(spec.shape)) for spec in (x, *rest))
            raise ShapeError(
                f"{self.name}: operands of shapes {shapes} do not fit; expected (G, N, H, W, C), "
                f"(G, P, S, {FILTERS * DEPTH}) and (G, F), with {FILTERS} filters in a panel"
            )
        if self.kernel == (1, 1):  # there may be no rows: those of an empty batch
            counts = tuple(map(window_count, x.shape[2:4], (1, 1), self.stride, self.dilation))
        else:
            counts = check_windows(
                self.name, x.shape[2:4], self.kernel, self.stride, self.dilation, x.shape
            )
        return Spec((*x.shape[:2], *counts, offset.shape[1]), self.gives)

    def sums(self, x: Array, panels: Array, offset: Array) -> Array:
        """The sums less the offsets, exactly."""
        if x.dtype == np.int32:
            x = np.ascontiguousarray(x).view(np.uint8)
        groups, _, steps, _ = panels.shape
        weight = panels.reshape(groups, -1, steps, FILTERS, DEPTH).transpose(0, 1, 3, 2, 4)
        weight = weight.reshape(groups, -1, steps * DEPTH)[:, : offset.shape[1]]
        view = window_view(np.moveaxis(x, 4, 2), self.kernel, self.stride, self.dilation)
        rows = view.transpose(0, 1, 5, 6, 3, 4, 2).reshape(groups, -1, steps * DEPTH)
        # Whole numbers below 2 ** 53 are exact in float64, whose products a library computes.
        total = np.matmul(rows.astype(np.float64), weight.swapaxes(1, 2).astype(np.float64))
        total = total.astype(np.int64) - offset[:, None]
        counts = view.shape[5:7]
        return total.astype(np.int32).reshape(groups, x.shape[1], *counts, offset.shape[1])

    def scaled(self, sums: Array, factor: Array, shift: Array) -> Array:
        """sums * factor + shift, each rounded to float32."""
        spread = (slice(None), None, None, None)
        with np.errstate(all="ignore"):
            return sums.astype(np.float32) * factor[spread] + shift[spread]

    def batch(self, batched: Sequence[bool], size: Size, *operands: Tensor) -> Tensor:
        call = getattr(ops, self.name)
        x = operands[0]
        if not any(batched[1:]):  # examples are images
            x = ops.movedim(x, 0, 1)
            groups, examples, images, *rest = x.shape
            x = ops.reshape(x, (groups, examples * images, *rest))
            y = call(x, *operands[1:], **self.attrs)
            y = ops.reshape(y, (groups, examples, images, *y.shape[2:]))
            return ops.movedim(y, 1, 0)
        every = []
        for each, on in zip(operands, batched, strict=True):
            if not on:
                each = ops.expand(ops.unsqueeze(each, 0), (size, *each.shape))
            every.append(ops.reshape(each, (size * each.shape[1], *each.shape[2:])))
        y = call(*every, **self.attrs)
        return ops.reshape(y, (size, y.shape[0] // size, *y.shape[1:]))

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for groups, n, h, w, c, f, kernel, stride, dilation in _GEOMETRIES:
            steps = c * kernel[0] * kernel[1] // DEPTH
            shape = (groups, (f + FILTERS - 1) // FILTERS, steps, FILTERS * DEPTH)
            operands: list[Array] = [
                rng.integers(0, 256, (groups, n, h, w, c)).astype(np.uint8),
                rng.integers(-128, 128, shape).astype(np.int8),
                rng.integers(-9000, 9000, (groups, f)).astype(np.int32),
                rng.uniform(1e-4, 1e-3, (groups, f)).astype(np.float32),
                rng.normal(size=(groups, f)).astype(np.float32),
                np.tile(np.array([7, 3, 200], np.int32), (groups, 1)),
            ]
            yield Sample(*operands[: 1 + len(self.others)], kernel, stride, dilation)
        words = rng.integers(-(2**31), 2**31, (1, 2, 5, 6, 1)).astype(np.int32)
        panels = rng.integers(-128, 128, (1, 1, 9, 64)).astype(np.int8)
        rest = [x[:1, :3] for x in operands[2 : 1 + len(self.others)]]
        yield Sample(words, panels, *rest, (3, 3), (2, 1), (1, 1))


class WindowsSum(WindowsOfBytes):
    """y = sums - offset, in int32.

    Raises ShapeError or DTypeError where operands do not fit.
    """

    signature = "x, panels, offset, kernel: ints, stride: ints, dilation: ints"
    others, gives = (int8, int32), int32

    def reference(self, x: Array, panels: Array, offset: Array) -> Array:
        return self.sums(x, panels, offset)


class WindowsScaled(WindowsOfBytes):
    """y = (sums - offset) * factor + shift, in float32; or the ReLU of it.

    Raises ShapeError or DTypeError where operands do not fit.
    """

    signature = (
        "x, panels, offset, factor, shift, kernel: ints, stride: ints, dilation: ints, "
        "relu: bool = False"
    )
    others, gives = (int8, int32, float32, float32), float32
    relu: bool

    def reference(
        self, x: Array, panels: Array, offset: Array, factor: Array, shift: Array
    ) -> Array:
        y = self.scaled(self.sums(x, panels, offset), factor, shift)
        return np.where(y > 0, y, np.float32(0)) if self.relu else y

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in super().samples(rng):
            yield sample
            yield Sample(*sample.args, True)


class WindowsQuantized(WindowsOfBytes):
    """y = round((sums - offset) * factor + shift) + zero, between low and high, in uint8.

    limits: (G, 3) int32, the zero point, low and high
    Halves are rounded to even numbers. Raises ShapeError or DTypeError where operands do not fit.
    """

    signature = (
        "x, panels, offset, factor, shift, limits, kernel: ints, stride: ints, dilation: ints"
    )
    others, gives = (int8, int32, float32, float32, int32), uint8

    def reference(
        self,
        x: Array,
        panels: Array,
        offset: Array,
        factor: Array,
        shift: Array,
        limits: Array,
    ) -> Array:
        return to_bytes(self.scaled(self.sums(x, panels, offset), factor, shift), limits)


def to_bytes(y: Array, limits: Array) -> Array:
    """Floats (G, N, H, W, F), rounded to bytes by limits (G, 3 or more)."""
    zero, low, high = (limits[:, k, None, None, None, None] for k in range(3))
    least, most = ((limit - zero).astype(np.float32) for limit in (low, high))
    y = np.where(y > least, y, least)
    y = np.where(y < most, y, most)
    return (np.rint(y).astype(np.int32) + zero).astype(np.uint8)
