"""Pooling: the largest, the mean or a norm of windows, and the way back from indices."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import wend
import wend.nn.functional as F
from wend._engine.core._hot import Tensor
from wend.onnx.importing.ops.movement import padded
from wend.onnx.importing.ops.reduction import _bound
from wend.onnx.importing.ops.support import ints, is_float, same_padding
from wend.onnx.importing.registry import OpNode, op

_MAX: dict[int, Any] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_MEAN: dict[int, Any] = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


class Windows:
    """The windows that a pooling node asks for, over an input of given sizes."""

    def __init__(self, node: OpNode, sizes: Sequence[int]) -> None:
        self.kernel = tuple(node.get("kernel_shape"))
        self.rank = rank = len(self.kernel)
        self.strides = tuple(node.get("strides", (1,) * rank))
        self.dilations = tuple(node.get("dilations", (1,) * rank))
        self.pads = same_padding(node, sizes, self.kernel, self.strides, self.dilations)
        self.sizes, self.count, self.fill = tuple(sizes), [], []
        for i, size in enumerate(sizes):
            span = (self.kernel[i] - 1) * self.dilations[i] + 1
            room = size + self.pads[i] + self.pads[i + rank] - span
            stride = self.strides[i]
            count = (-(-room // stride) if node.get("ceil_mode") else room // stride) + 1
            if node.get("ceil_mode") and (count - 1) * stride >= size + self.pads[i]:
                count -= 1
            self.count.append(count)
            # Windows may end behind the padding, or before the end of that.
            self.fill.append((count - 1) * stride + span - size - self.pads[i])

    def pad(self, x: Tensor, value: float) -> Tensor:
        """The input with all that the windows reach, and nothing else."""
        outer = (0,) * (x.ndim - self.rank)
        return padded(x, (*outer, *self.pads[: self.rank], *outer, *self.fill), value)

    def cut(self, x: Tensor) -> Tensor:
        """(..., windows, elements of a window) of a padded input."""
        lead = x.ndim - self.rank
        for i in range(self.rank):
            starts = (wend.arange(self.count[i]) * self.strides[i]).reshape(-1, 1)
            places = starts + wend.arange(self.kernel[i]) * self.dilations[i]
            axis = lead + 2 * i
            shape = tuple(x.shape)
            x = x.index_select(axis, places.reshape(-1))
            x = x.reshape(shape[:axis] + (self.count[i], self.kernel[i]) + shape[axis + 1 :])
        order = [lead + 2 * i for i in range(self.rank)]
        x = x.permute(*range(lead), *order, *[axis + 1 for axis in order])
        return x.reshape(*x.shape[: lead + self.rank], math.prod(self.kernel))

    def numbers(self, node: OpNode) -> Tensor:
        """How many elements of each window count for the mean."""
        lists = []
        for i, size in enumerate(self.sizes):
            before, after = self.pads[i], self.pads[i + self.rank]
            low, high = (-before, size + after) if node.get("count_include_pad") else (0, size)
            starts = [n * self.strides[i] - before for n in range(self.count[i])]
            steps = [k * self.dilations[i] for k in range(self.kernel[i])]
            lists.append([sum(low <= s + k < high for k in steps) for s in starts])
        vectors = [
            wend.tensor(row).reshape((-1,) + (1,) * (self.rank - 1 - i))
            for i, row in enumerate(lists)
        ]
        return functools.reduce(wend.mul, vectors)


def is_plain(node: OpNode) -> bool:
    """Whether a pooling node asks for windows that `nn.functional` makes: equal pads, and small."""
    kernel = node.get("kernel_shape")
    rank = len(kernel)
    pads = node.get("pads", (0,) * 2 * rank)
    small = all(2 * p <= k for p, k in zip(pads, kernel))
    return (
        rank in _MAX
        and node.get("auto_pad", "NOTSET") == "NOTSET"
        and small
        and pads[:rank] == pads[rank:]
    )


def plain_windows(node: OpNode) -> tuple[Any, ...]:
    """Kernel, strides and padding of a plain node."""
    kernel = node.get("kernel_shape")
    rank = len(kernel)
    pads = node.get("pads", (0,) * 2 * rank)
    return kernel, node.get("strides", (1,) * rank), pads[:rank]


def ceiling(node: OpNode) -> dict[str, bool]:
    """Whether windows may end behind the padding."""
    return {"ceil_mode": bool(node.get("ceil_mode"))}


@op("MaxPool")
def max_pool(node: OpNode, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
    """The largest element of each window, and the index of that."""
    if is_plain(node) and not node.wants(1) and is_float(x):
        return _MAX[x.ndim - 2](x, *plain_windows(node), node.get("dilations", 1), **ceiling(node))
    windows = Windows(node, x.shape[2:])
    least = _bound(x.dtype, -1)
    full = windows.pad(x, least)
    if not node.wants(1):
        function = _MAX.get(windows.rank)
        if function is None or not is_float(x):
            return wend.amax(windows.cut(full), -1)
        return function(full, windows.kernel, windows.strides, 0, windows.dilations)
    values = windows.cut(full)
    best = values.argmax(-1, keepdim=True)
    place = wend.arange(math.prod(windows.sizes))
    if node.get("storage_order"):
        place = place.reshape(windows.sizes[::-1]).permute(*range(windows.rank - 1, -1, -1))
    else:
        place = place.reshape(windows.sizes)
    places = windows.cut(windows.pad(place, 0)).expand(values.shape)
    within = wend.gather(places, -1, best).squeeze(-1)
    lots = wend.arange(x.shape[0] * x.shape[1]) * math.prod(windows.sizes)
    index = within + lots.reshape((x.shape[0], x.shape[1]) + (1,) * windows.rank)
    return wend.gather(values, -1, best).squeeze(-1), index


@op("AveragePool")
def average_pool(node: OpNode, x: Tensor) -> Tensor:
    """The mean of each window."""
    if is_plain(node) and all(d == 1 for d in node.get("dilations", ())):
        whole = bool(node.get("count_include_pad"))
        function = _MEAN[x.ndim - 2]
        return function(x, *plain_windows(node), count_include_pad=whole, **ceiling(node))
    windows = Windows(node, x.shape[2:])
    full = windows.pad(x, 0)
    function = _MEAN.get(windows.rank)
    if function is None or any(d != 1 for d in windows.dilations):
        total = windows.cut(full).sum(-1)
    else:
        total = function(full, windows.kernel, windows.strides) * math.prod(windows.kernel)
    return total / windows.numbers(node).to(x.dtype)


@op("LpPool")
def lp_pool(node: OpNode, x: Tensor) -> Tensor:
    """The p-norm of each window."""
    p = node.get("p", 2)
    windows = Windows(node, x.shape[2:])
    return windows.cut(windows.pad(x.abs() ** p, 0)).sum(-1) ** (1 / p)


@op("GlobalAveragePool")
def global_average_pool(node: OpNode, x: Tensor) -> Tensor:
    """The mean of each channel."""
    return x.mean(tuple(range(2, x.ndim)), keepdim=True)


@op("GlobalMaxPool")
def global_max_pool(node: OpNode, x: Tensor) -> Tensor:
    """The largest element of each channel."""
    return wend.amax(x, tuple(range(2, x.ndim)), keepdim=True)


@op("GlobalLpPool")
def global_lp_pool(node: OpNode, x: Tensor) -> Tensor:
    """The p-norm of each channel."""
    p = node.get("p", 2)
    return (x.abs() ** p).sum(tuple(range(2, x.ndim)), keepdim=True) ** (1 / p)


@op("MaxUnpool")
def max_unpool(node: OpNode, x: Tensor, index: Tensor, shape: Tensor | None = None) -> Tensor:
    """Elements back at the places that MaxPool found, zeros elsewhere."""
    kernel = node.get("kernel_shape")
    rank = len(kernel)
    strides, pads = node.get("strides", (1,) * rank), node.get("pads", (0,) * 2 * rank)
    small = [
        (n - 1) * s + k - pads[i] - pads[i + rank]
        for i, (n, s, k) in enumerate(zip(x.shape[2:], strides, kernel))
    ]
    lead = tuple(x.shape[:2])
    flat = wend.zeros(math.prod(lead) * math.prod(small), dtype=x.dtype)
    full = flat.scatter(0, index.reshape(-1), x.reshape(-1)).reshape(*lead, *small)
    if shape is None:
        return full
    wanted = ints(shape)
    return padded(full, [0] * len(wanted) + [w - n for w, n in zip(wanted, full.shape)], 0)
