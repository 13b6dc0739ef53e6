"""Ops that move elements: joining, cutting, padding, reordering."""

from __future__ import annotations

from collections.abc import Sequence

import wend
import wend.nn.functional as F
from wend._engine.core._hot import Tensor
from wend._engine.core.kinds import Size
from wend.onnx.importing.ops.support import axes_of, ints, number, pad_argument
from wend.onnx.importing.registry import OpNode, op
from wend.onnx.importing.sizes import is_int
from wend.onnx.importing.types import MOST_DIM, Carried, element_of, plain, with_element


@op("Transpose")
def transpose(node: OpNode, x: Tensor) -> Tensor:
    """Dims in another order; without `perm` in reverse."""
    return x.permute(tuple(node.get("perm", range(x.ndim - 1, -1, -1))))


@op("Concat")
def concat(node: OpNode, *xs: Tensor) -> Tensor:
    """Tensors joined along an axis."""
    return wend.cat(xs, node.get("axis", 1))


@op("Split")
def split(node: OpNode, x: Tensor, sizes: Tensor | None = None) -> tuple[Tensor, ...]:
    """Parts along an axis: of given sizes, or as equal as can be."""
    axis = node.get("axis", 0)
    parts = node.get("split") if sizes is None else ints(sizes)
    if parts is None:
        count, total = node.get("num_outputs", len(node.outputs)), x.shape[axis]
        each = -(-total // count)
        parts = [max(min(each, total - i * each), 0) for i in range(count)]
    return tuple(x.split(list(parts), axis))


def take_slice(x: Tensor, axis: int, start: int, end: int, step: int) -> Tensor:
    """Elements from start to before end by step, of either sign, clamped to the size."""
    if step > 0:  # as Python's
        return x[(slice(None),) * axis + (slice(start, end, step),)]
    if step == -1 and is_int(start, -1) and end <= -MOST_DIM:  # all, for any size
        return x.flip(axis)
    n = x.shape[axis]
    start, end = (i + n if i < 0 else i for i in (start, end))
    places = range(min(max(start, -1), n - 1), min(max(end, -1), n - 1), step)
    if not places:
        return x.narrow(axis, 0, 0)
    index = [slice(None)] * axis + [slice(places[-1], places[0] + 1, -step)]
    return x[tuple(index)].flip(axis)


@op("Slice")
def cut(
    node: OpNode,
    x: Tensor,
    starts: Tensor | None = None,
    ends: Tensor | None = None,
    axes: Tensor | None = None,
    steps: Tensor | None = None,
) -> Tensor:
    """Ranges along axes: attributes before opset 10, inputs from there on."""
    begin = ints(node.get("starts") if starts is None else starts)
    finish = ints(node.get("ends") if ends is None else ends)
    axes = node.get("axes") if axes is None else axes
    which = list(range(len(begin))) if axes is None else axes_of(axes, x.ndim)
    strides = [1] * len(begin) if steps is None else ints(steps)
    for axis, start, end, step in zip(which, begin, finish, strides):
        x = take_slice(x, axis, start, end, step)
    return x


@op("Pad")
def pad(
    node: OpNode,
    x: Tensor,
    pads: Tensor | None = None,
    value: Tensor | None = None,
    axes: Tensor | None = None,
) -> Tensor:
    """More elements around: constant, reflected, the edge's, or from the far side."""
    amounts = ints(node.get("pads", node.get("paddings")) if pads is None else pads)
    fill = node.get("value", 0) if value is None else number(value)
    if axes is not None:
        which, rank = axes_of(axes, x.ndim), x.ndim
        spread = [0] * 2 * rank
        for i, axis in enumerate(which):
            spread[axis], spread[axis + rank] = amounts[i], amounts[i + len(which)]
        amounts = spread
    mode = node.get("mode", "constant")
    if mode == "constant":
        return padded(x, amounts, fill)
    for axis in range(x.ndim):
        before, after = amounts[axis], amounts[axis + x.ndim]
        if not (is_int(before, 0) and is_int(after, 0)):
            x = x.index_select(axis, _sources(x.shape[axis], before, after, mode))
    return x


def padded(x: Tensor, amounts: Sequence[int], fill: float) -> Tensor:
    """Constant padding of any type."""
    if x.dtype is wend.bool:
        return F.pad(x.to(wend.uint8), pad_argument(amounts), value=int(fill)) != 0
    return F.pad(x, pad_argument(amounts), value=fill)


def _sources(size: Size, before: Size, after: Size, mode: str) -> Tensor:
    """The indices of the elements that the places along a padded axis repeat."""
    places = wend.arange(size + before + after) - before
    last = size - 1
    if mode == "edge":
        return places.clamp(0, last)
    if mode == "wrap":
        return places % size
    if before <= last and after <= last:  # each end mirrors once
        return last - (last - places.abs()).abs()
    if size == 1:
        return wend.zeros_like(places)
    places = places % (2 * last)
    return wend.minimum(places, 2 * last - places)


@op("Tile")
def tile(node: OpNode, x: Tensor, repeats: Tensor, axis: Tensor | None = None) -> Tensor:
    """Copies side by side."""
    if axis is not None:
        counts = [1] * x.ndim
        counts[number(axis)] = number(repeats)
        return x.repeat(*counts)
    return x.repeat(*ints(repeats)) if x.ndim else x


@op("Trilu")
def trilu(node: OpNode, x: Tensor, k: Tensor | None = None) -> Tensor:
    """The upper or the lower triangle of matrices."""
    diagonal = 0 if k is None else number(k)
    return wend.triu(x, diagonal) if node.get("upper", 1) else wend.tril(x, diagonal)


@op("DepthToSpace")
def depth_to_space(node: OpNode, x: Tensor) -> Tensor:
    """Blocks of channels laid out as squares."""
    n, c, h, w = x.shape
    b = node.get("blocksize")
    if node.get("mode", "DCR") == "DCR":
        x = x.reshape(n, b, b, c // (b * b), h, w).permute(0, 3, 4, 1, 5, 2)
    else:
        x = x.reshape(n, c // (b * b), b, b, h, w).permute(0, 1, 4, 2, 5, 3)
    return x.reshape(n, c // (b * b), h * b, w * b)


@op("SpaceToDepth")
def space_to_depth(node: OpNode, x: Tensor) -> Tensor:
    """Squares laid out as blocks of channels."""
    n, c, h, w = x.shape
    b = node.get("blocksize")
    x = x.reshape(n, c, h // b, b, w // b, b)
    order = (0, 1, 3, 5, 2, 4) if node.get("mode") == "CRD" else (0, 3, 5, 1, 2, 4)
    return x.permute(order).reshape(n, c * b * b, h // b, w // b)


@op("ReverseSequence")
def reverse_sequence(node: OpNode, x: Tensor, lengths: Tensor) -> Tensor:
    """The first elements of each sequence in reverse order."""
    time, batch = node.get("time_axis", 0), node.get("batch_axis", 1)
    steps = wend.arange(x.shape[time]).reshape(-1, 1)
    limits = lengths.reshape(1, -1)
    places = wend.where(steps < limits, limits - 1 - steps, steps)
    places = places if time < batch else places.t()
    places = places.reshape(tuple(places.shape) + (1,) * (x.ndim - 2))
    return wend.gather(x, time, places.expand(x.shape))


@op("CenterCropPad")
def center_crop_pad(node: OpNode, x: Tensor, sizes: Tensor) -> Tensor:
    """Cut or filled with zeros around the middle, to given sizes."""
    wanted = ints(sizes)
    axes = axes_of(node.get("axes", range(x.ndim)), x.ndim)
    amounts = [0] * 2 * x.ndim
    for axis, size in zip(axes, wanted):
        have = x.shape[axis]
        if size < have:
            x = x.narrow(axis, (have - size) // 2, size)
        else:
            amounts[axis] = (size - have) // 2
            amounts[axis + x.ndim] = size - have - amounts[axis]
    return padded(x, amounts, 0)


@op("Col2Im")
def col2im(node: OpNode, x: Tensor, image: Tensor, block: Tensor) -> Tensor:
    """Columns added up where the patches overlap."""
    sizes, kernel = ints(image), ints(block)
    rank = len(sizes)
    strides = node.get("strides", (1,) * rank)
    dilations = node.get("dilations", (1,) * rank)
    pads = node.get("pads", (0,) * 2 * rank)
    n = x.shape[0]
    channels = x.shape[1]
    for k in kernel:
        channels //= k
    full = [s + pads[i] + pads[i + rank] for i, s in enumerate(sizes)]
    # The flat index, in the padded image, of each element of each column.
    place = wend.zeros((1,) * 2 * rank, dtype=wend.int64)
    for i in range(rank):
        count = (full[i] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1
        inside = (wend.arange(kernel[i]) * dilations[i]).reshape(-1, *(1,) * (2 * rank - 1 - i))
        start = (wend.arange(count) * strides[i]).reshape(-1, *(1,) * (rank - 1 - i))
        place = place * full[i] + inside + start
    total = 1
    for s in full:
        total *= s
    flat = wend.zeros((n, channels, total), dtype=x.dtype)
    columns = x.reshape(n, channels, -1)
    index = place.reshape(1, 1, -1).expand(columns.shape)
    result = flat.scatter_add(2, index, columns).reshape(n, channels, *full)
    for i in range(rank):
        result = result.narrow(2 + i, pads[i], sizes[i])
    return result


@op("ConcatFromSequence")
def concat_from_sequence(node: OpNode, values: Sequence[Tensor | Carried]) -> Tensor | Carried:
    """The tensors of a sequence, joined along an axis or along a new axis."""
    axis = node.get("axis")
    tensors = [plain(value) for value in values]
    joined = wend.stack(tensors, axis) if node.get("new_axis") else wend.cat(tensors, axis)
    return with_element(joined, element_of(values[0]))
