"""Resize and Upsample: each axis by a table of sources and shares, computed from the sizes."""

from __future__ import annotations

import math
from typing import Any

import wend
from wend._engine.core._hot import Tensor
from wend.onnx.importing.ops.support import axes_of, floats, in_float32, ints, is_float
from wend.onnx.importing.registry import OpNode, op
from wend.onnx.importing.types import plain


class Axis:
    """An axis to be resized: sizes, scale, region, and the node's rules."""

    def __init__(self, node: OpNode, size: int, out: int, scale: float, roi: tuple[float, float]):
        self.node, self.size, self.out, self.scale, self.roi = node, size, out, scale, roi
        default = "half_pixel" if node.version >= 11 else "asymmetric"
        self.rule = node.get("coordinate_transformation_mode", default)

    def source(self, i: int) -> float:
        """The coordinate in the input of a place in the result."""
        n, out, scale = self.size, self.out, self.scale
        if self.rule == "asymmetric":
            return i / scale
        if self.rule == "align_corners":
            return 0.0 if out == 1 else i * (n - 1) / (self._length() - 1)
        if self.rule == "pytorch_half_pixel" and self._length() <= 1:
            return 0.0
        if self.rule == "tf_half_pixel_for_nn":
            return (i + 0.5) / scale
        if self.rule == "tf_crop_and_resize":
            start, end = self.roi
            if out > 1:
                return start * (n - 1) + i * (end - start) * (n - 1) / (out - 1)
            return 0.5 * (start + end) * (n - 1)
        if self.rule == "half_pixel_symmetric":
            adjusted = out / self._length()
            return n / 2 * (1 - adjusted) + (i + 0.5) / scale - 0.5
        return (i + 0.5) / scale - 0.5

    def _length(self) -> float:
        return self.scale * self.size

    def outside(self) -> list[bool]:
        """Which places have no source, and take the extrapolation value."""
        if self.rule != "tf_crop_and_resize":
            return [False] * self.out
        return [not 0 <= self.source(i) <= self.size - 1 for i in range(self.out)]

    def nearest(self) -> list[int]:
        """The source of each place."""
        old = self.node.version < 11
        mode = self.node.get("nearest_mode", "floor" if old else "round_prefer_floor")
        sources = []
        for i in range(self.out):
            x = self.source(i)
            place = {
                "round_prefer_floor": math.ceil(x - 0.5),
                "round_prefer_ceil": math.floor(x + 0.5),
                "floor": math.floor(x),
                "ceil": math.ceil(x),
            }[mode]
            sources.append(min(max(place, 0), self.size - 1))
        return sources

    def shares(self, cubic: bool) -> list[list[float]]:
        """A row per place: the share that each element of the input has."""
        rows = []
        antialias = self.node.get("antialias") and self.scale < 1
        shrink = self.scale if antialias else 1.0
        reach = math.ceil((2 if cubic else 1) / shrink)
        for i in range(self.out):
            x = self.source(i)
            base = math.floor(x)
            row = [0.0] * self.size
            total = 0.0
            for place in range(base - reach + 1, base + reach + 1):
                share = self._weight((x - place) * shrink, cubic)
                inside = 0 <= place < self.size
                if not inside and self.node.get("exclude_outside"):
                    continue
                row[min(max(place, 0), self.size - 1)] += share
                total += share
            rows.append([share / total for share in row] if total else row)
        return rows

    def _weight(self, distance: float, cubic: bool) -> float:
        d = abs(distance)
        if not cubic:
            return max(1 - d, 0.0)
        a = self.node.get("cubic_coeff_a", -0.75)
        if d <= 1:
            return float(((a + 2) * d - (a + 3)) * d * d + 1)
        if d < 2:
            return float(((a * d - 5 * a) * d + 8 * a) * d - 4 * a)
        return 0.0


def resize_axes(node: OpNode, x: Tensor, plan: dict[int, Axis]) -> Tensor:
    """The input with each of the axes resized."""
    mode = node.get("mode", "nearest")
    kept = x.dtype
    if mode == "nearest":
        for axis, how in plan.items():
            x = x.index_select(axis, wend.tensor(how.nearest(), dtype=wend.int64))
    else:
        x = in_float32(x) if is_float(x) else x.float()
        for axis, how in plan.items():
            table = wend.tensor(how.shares(mode == "cubic"), dtype=x.dtype)
            x = wend.matmul(x.movedim(axis, -1), table.t()).movedim(-1, axis)
        if not kept.is_floating_point:
            limits = wend.iinfo(kept)
            x = wend.clamp(wend.round(x), limits.min, limits.max)
    for axis, how in plan.items():
        missing = how.outside()
        if any(missing):
            mask = wend.tensor(missing).reshape((-1,) + (1,) * (x.ndim - 1 - axis))
            x = wend.where(mask, wend.full_like(x, node.get("extrapolation_value", 0.0)), x)
    return x.to(kept)


def _sized(
    node: OpNode, x: Tensor, axes: list[int], sizes: list[int]
) -> tuple[list[int], list[float]]:
    """Sizes and scales of the axes, under the node's policy for the aspect ratio."""
    scales = [size / x.shape[axis] for axis, size in zip(axes, sizes)]
    policy = node.get("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return sizes, scales
    scale = min(scales) if policy == "not_larger" else max(scales)
    return [math.floor(scale * x.shape[axis] + 0.5) for axis in axes], [scale] * len(axes)


@op("Resize")
def resize(
    node: OpNode,
    x: Tensor,
    roi: Tensor | None = None,
    scales: Any = None,
    sizes: Tensor | None = None,
) -> Tensor:
    """Another number of elements along axes, interpolated."""
    if node.version < 11:
        roi, scales = None, roi
    axes = axes_of(node.get("axes", range(x.ndim)), x.ndim)
    if sizes is not None and plain(sizes).numel():
        wanted, factors = _sized(node, x, axes, ints(sizes))
    else:
        factors = floats(scales)
        wanted = [math.floor(x.shape[axis] * f) for axis, f in zip(axes, factors)]
    region = [] if roi is None else floats(roi)
    plan = {}
    for i, (axis, out, factor) in enumerate(zip(axes, wanted, factors)):
        bounds = (region[i], region[i + len(axes)]) if region else (0.0, 1.0)
        how = Axis(node, x.shape[axis], out, factor, bounds)
        if out != x.shape[axis] or factor != 1 or how.rule == "tf_crop_and_resize":
            plan[axis] = how
    return resize_axes(node, x, plan)


@op("Upsample")
def upsample(node: OpNode, x: Tensor, scales: Tensor | None = None) -> Tensor:
    """The former Resize: scales are an attribute before opset 9."""
    if scales is not None:
        factors = floats(scales)
    elif node.get("scales") is not None:
        factors = list(node.get("scales"))
    else:
        factors = [1.0, 1.0, node.get("height_scale", 1.0), node.get("width_scale", 1.0)]
    plan = {
        axis: Axis(node, x.shape[axis], math.floor(x.shape[axis] * f), f, (0.0, 1.0))
        for axis, f in enumerate(factors)
        if f != 1
    }
    return resize_axes(node, x, plan)
