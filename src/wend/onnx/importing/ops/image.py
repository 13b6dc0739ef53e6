"""Sampling on grids, regions of interest, and boxes."""

from __future__ import annotations

import itertools
import math
from typing import Any

import wend
from wend._engine.base.dtypes import DType
from wend._engine.core._hot import Tensor
from wend.onnx.importing.ops.support import number
from wend.onnx.importing.registry import OpNode, op


def _reflected(x: Tensor, low: float, high: float) -> Tensor:
    """Coordinates reflected at two bounds until all are inside."""
    span = high - low
    if span <= 0:
        return wend.zeros_like(x)
    place = wend.remainder(x - low, 2 * span)
    return low + wend.minimum(place, 2 * span - place)


class Grid:
    """Where a GridSample node reads, along each of the image's dims."""

    def __init__(self, node: OpNode, sizes: tuple[int, ...]) -> None:
        self.sizes = sizes
        self.aligned = bool(node.get("align_corners"))
        self.padding = node.get("padding_mode", "zeros")

    def coordinate(self, grid: Tensor, size: int) -> Tensor:
        """From -1 ... 1 to places of elements."""
        if self.aligned:
            return (grid + 1) / 2 * (size - 1)
        return ((grid + 1) * size - 1) / 2

    def inside(self, x: Tensor, size: int) -> Tensor:
        """Places moved inside by the padding's rule."""
        if self.padding == "border":
            return x.clamp(0, size - 1)
        if self.padding == "reflection":
            low, high = (0.0, size - 1.0) if self.aligned else (-0.5, size - 0.5)
            return _reflected(x, low, high).clamp(0, size - 1)
        return x

    def read(self, flat: Tensor, places: list[Any]) -> Tensor:
        """The elements at whole places, (n, c, points); 0 outside for padding 'zeros'."""
        index: Any = 0
        there: Any = None
        for place, size in zip(places, self.sizes):
            place = self.inside(place, size)
            inside = (place >= 0) & (place <= size - 1)
            there = inside if there is None else there & inside
            index = index * size + place.clamp(0, size - 1).to(wend.int64)
        n, c = flat.shape[:2]
        elements = wend.gather(flat, 2, index.reshape(n, 1, -1).expand(-1, c, -1))
        return elements * there.reshape(n, 1, -1).to(flat.dtype)


def _cubic(t: Tensor) -> list[Any]:
    """The shares of the four neighbours, for the distance from the second."""
    a = -0.75

    def near(d: Tensor) -> Tensor:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Tensor) -> Tensor:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


@op("GridSample")
def grid_sample(node: OpNode, x: Tensor, grid: Tensor) -> Tensor:
    """Elements of an image at the places that a grid names, interpolated."""
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(
        node.get("mode", "linear"), node.get("mode", "linear")
    )
    sizes = tuple(x.shape[2:])
    rank = len(sizes)
    where = Grid(node, sizes)
    flat = x.reshape(*x.shape[:2], math.prod(sizes))
    # The last number of a point is the place along the last dim.
    points = [where.coordinate(grid[..., rank - 1 - i], sizes[i]) for i in range(rank)]
    if mode == "nearest":
        result = where.read(flat, [wend.round(p) for p in points])
    else:
        if mode == "linear":
            points = [where.inside(p, size) for p, size in zip(points, sizes)]
        bases = [p.floor() for p in points]
        offsets = (0, 1) if mode == "linear" else (-1, 0, 1, 2)
        shares = [
            [1 - (p - b), p - b] if mode == "linear" else _cubic(p - b)
            for p, b in zip(points, bases)
        ]
        result = 0
        for corner in itertools.product(range(len(offsets)), repeat=rank):
            weight: Any = 1
            for axis, i in enumerate(corner):
                weight = weight * shares[axis][i]
            values = where.read(flat, [b + offsets[i] for b, i in zip(bases, corner)])
            result = result + values * weight.reshape(x.shape[0], 1, -1)
    return result.reshape(*x.shape[:2], *grid.shape[1:-1]).to(x.dtype)


@op("RoiAlign")
def roi_align(node: OpNode, x: Tensor, rois: Tensor, batch: Tensor) -> Tensor:
    """Regions of images as tensors of equal size: means or maxima of interpolated points."""
    out_h, out_w = node.get("output_height", 1), node.get("output_width", 1)
    ratio, scale = node.get("sampling_ratio", 0), node.get("spatial_scale", 1.0)
    half = node.version >= 16 and node.get("coordinate_transformation_mode", "half_pixel") == (
        "half_pixel"
    )
    height, width = x.shape[2:]
    results = []
    for box, index in zip(rois.tolist(), batch.tolist()):
        x1, y1, x2, y2 = (edge * scale - (0.5 if half else 0.0) for edge in box)
        w, h = x2 - x1, y2 - y1
        if not half:
            w, h = max(w, 1.0), max(h, 1.0)
        ny = ratio or math.ceil(h / out_h)
        nx = ratio or math.ceil(w / out_w)
        ys = [y1 + (i + 0.5) * h / out_h / ny for i in range(out_h * ny)]
        xs = [x1 + (i + 0.5) * w / out_w / nx for i in range(out_w * nx)]
        rows = _interpolation(ys, height, x.dtype)
        columns = _interpolation(xs, width, x.dtype)
        image = x[index]
        if node.get("mode", "avg") == "avg":
            values = wend.matmul(wend.matmul(rows[2], image), columns[2].t())
            parts = values.reshape(-1, out_h, ny, out_w, nx)
            results.append(parts.mean((2, 4)))
        else:
            results.append(_largest_corner(image, rows, columns, (out_h, ny, out_w, nx)))
    if not results:
        return wend.zeros((0, x.shape[1], out_h, out_w), dtype=x.dtype)
    return wend.stack(results)


def _interpolation(points: list[float], size: int, dtype: DType) -> tuple[Any, Any, Any]:
    """Per point the shares of the element before and of that after, and both together."""
    low, high = [], []
    for point in points:
        first, second = [0.0] * size, [0.0] * size
        if -1 <= point <= size:
            place = min(max(point, 0.0), size - 1.0)
            base = min(int(place), size - 1)
            first[base] = 1 - (place - base)
            second[min(base + 1, size - 1)] = place - base
        low.append(first)
        high.append(second)
    a, b = wend.tensor(low, dtype=dtype), wend.tensor(high, dtype=dtype)
    return a, b, a + b


def _largest_corner(
    image: Tensor, rows: tuple[Tensor, ...], columns: tuple[Tensor, ...], parts: tuple[int, ...]
) -> Tensor:
    """The largest weighted neighbour of all points of a part, as ONNX defines mode 'max'."""
    out_h, ny, out_w, nx = parts
    corners = [wend.matmul(wend.matmul(r, image), c.t()) for r in rows[:2] for c in columns[:2]]
    best = wend.amax(wend.stack(corners), 0)
    return wend.amax(best.reshape(-1, out_h, ny, out_w, nx), (2, 4))


@op("NonMaxSuppression")
def non_max_suppression(
    node: OpNode,
    boxes: Tensor,
    scores: Tensor,
    most: Tensor | None = None,
    overlap: Tensor | None = None,
    least: Tensor | None = None,
) -> Tensor:
    """The boxes of each class that no better box overlaps: (batch, class, box) each."""
    limit = 0 if most is None else number(most)
    threshold = 0.0 if overlap is None else number(overlap)
    floor = None if least is None else number(least)
    triples = []
    for i, (corners, classes) in enumerate(zip(boxes.tolist(), scores.tolist())):
        areas = [_corners(box, bool(node.get("center_point_box"))) for box in corners]
        for j, row in enumerate(classes):
            order = sorted(range(len(row)), key=lambda k: -row[k])
            kept: list[int] = []
            for k in order:
                if len(kept) >= limit or (floor is not None and row[k] <= floor):
                    break
                if all(_overlap(areas[k], areas[other]) <= threshold for other in kept):
                    kept.append(k)
            triples += [[i, j, k] for k in kept]
    return wend.tensor(triples, dtype=wend.int64).reshape(-1, 3)


def _corners(box: list[float], centred: bool) -> tuple[float, float, float, float]:
    if centred:
        x, y, w, h = box
        return y - h / 2, x - w / 2, y + h / 2, x + w / 2
    y1, x1, y2, x2 = box
    return min(y1, y2), min(x1, x2), max(y1, y2), max(x1, x2)


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    """The area that two boxes share, as a part of all that both cover."""
    high = max(min(a[2], b[2]) - max(a[0], b[0]), 0.0)
    wide = max(min(a[3], b[3]) - max(a[1], b[1]), 0.0)
    both = high * wide
    total = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both
    return both / total if total > 0 else 0.0
