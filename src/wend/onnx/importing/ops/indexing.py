"""Ops with indices: gathering, scattering, selecting, sorting."""

from __future__ import annotations

import math
from collections.abc import Sequence

import wend
from wend._engine.core._hot import Tensor
from wend.onnx.importing.ops.support import number
from wend.onnx.importing.registry import OpNode, op


def counted_from_start(index: Tensor, size: int) -> Tensor:
    """Indices, of which negative ones count from the end, as indices from the start."""
    index = index.to(wend.int64)
    return wend.where(index < 0, index + size, index)


@op("Gather")
def gather(node: OpNode, x: Tensor, index: Tensor) -> Tensor:
    """Slices of x along an axis, at indices of any shape."""
    axis = node.get("axis", 0) % x.ndim
    return x[(slice(None),) * axis + (index.to(wend.int64),)]


@op("GatherElements")
def gather_elements(node: OpNode, x: Tensor, index: Tensor) -> Tensor:
    """An element of x per index, along an axis."""
    axis = node.get("axis", 0)
    return wend.gather(x, axis, counted_from_start(index, x.shape[axis]))


def _flat_index(index: Tensor, sizes: Sequence[int]) -> Tensor:
    """Vectors of indices, along the last dim, as indices into the dims together."""
    flat = wend.zeros(tuple(index.shape[:-1]), dtype=wend.int64)
    for i, size in enumerate(sizes):
        flat = flat * size + counted_from_start(index[..., i], size)
    return flat


@op("GatherND")
def gather_nd(node: OpNode, x: Tensor, index: Tensor) -> Tensor:
    """Slices of x at vectors of indices."""
    b, depth = node.get("batch_dims", 0), index.shape[-1]
    shape = tuple(x.shape)
    batch, sizes, rest = shape[:b], shape[b : b + depth], shape[b + depth :]
    flat = _flat_index(index, sizes)
    lots, each = math.prod(batch), math.prod(sizes)
    base = wend.arange(lots).reshape(batch + (1,) * (flat.ndim - b)) * each
    rows = x.reshape((lots * each,) + rest)
    return rows.index_select(0, (flat + base).reshape(-1)).reshape(tuple(flat.shape) + rest)


_REDUCTIONS = {"mul": "prod", "max": "amax", "min": "amin"}


@op("ScatterElements", "Scatter")
def scatter_elements(node: OpNode, x: Tensor, index: Tensor, updates: Tensor) -> Tensor:
    """x with elements replaced, or combined, at an index per update."""
    axis = node.get("axis", 0)
    index = counted_from_start(index, x.shape[axis])
    how = node.get("reduction", "none")
    if how == "none":
        return wend.scatter(x, axis, index, updates)
    if how == "add":
        return wend.scatter_add(x, axis, index, updates)
    return wend.scatter_reduce(x, axis, index, updates, _REDUCTIONS[how])


@op("ScatterND")
def scatter_nd(node: OpNode, x: Tensor, index: Tensor, updates: Tensor) -> Tensor:
    """x with slices replaced, or combined, at vectors of indices."""
    shape, depth = tuple(x.shape), index.shape[-1]
    rest = shape[depth:]
    flat = _flat_index(index, shape[:depth]).reshape(-1)
    rows = x.reshape((math.prod(shape[:depth]), math.prod(rest)))
    new = updates.reshape(flat.shape[0], math.prod(rest))
    places = flat.reshape(-1, 1).expand(new.shape)
    how = node.get("reduction", "none")
    if how == "none":
        result = wend.scatter(rows, 0, places, new)
    elif how == "add":
        result = wend.scatter_add(rows, 0, places, new)
    else:
        result = wend.scatter_reduce(rows, 0, places, new, _REDUCTIONS[how])
    return result.reshape(shape)


@op("TensorScatter")
def tensor_scatter(
    node: OpNode, past: Tensor, update: Tensor, index: Tensor | None = None
) -> Tensor:
    """A cache with a run of new entries per batch, from given places on."""
    axis = node.get("axis", -2) % past.ndim
    count, size = update.shape[axis], past.shape[axis]
    start = wend.zeros(past.shape[0], dtype=wend.int64) if index is None else index.to(wend.int64)
    run = wend.arange(count).reshape((-1,) + (1,) * (past.ndim - 1 - axis))
    places = start.reshape((-1,) + (1,) * (past.ndim - 1)) + run
    if node.get("mode", "linear") == "circular":
        places = wend.remainder(places, size)
    return wend.scatter(past, axis, places.expand(update.shape), update)


@op("OneHot")
def one_hot(node: OpNode, index: Tensor, depth: Tensor, values: Tensor) -> Tensor:
    """A value at each index, another elsewhere, along a new axis."""
    size = int(number(depth))
    axis = node.get("axis", -1)
    axis = axis + index.ndim + 1 if axis < 0 else axis
    index = index.to(wend.int64)
    index = wend.where(index < 0, index + size, index).unsqueeze(axis)
    place = wend.arange(size).reshape((-1,) + (1,) * (index.ndim - 1 - axis))
    return wend.where(place == index, values[1], values[0])


@op("NonZero")
def nonzero(node: OpNode, x: Tensor) -> Tensor:
    """The indices of elements that are not 0, a row per dim."""
    return x.nonzero().t().contiguous() if x.ndim else wend.zeros((0, 1), dtype=wend.int64)


@op("Compress")
def compress(node: OpNode, x: Tensor, condition: Tensor) -> Tensor:
    """The slices for which a condition holds."""
    axis = node.get("axis")
    if axis is None:
        x, axis = x.reshape(-1), 0
    kept = condition[: x.shape[axis]].nonzero().reshape(-1)
    return x.index_select(axis, kept)


@op("TopK")
def top_k(node: OpNode, x: Tensor, k: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The largest or smallest elements along an axis, and their indices; of equals the first."""
    count = node.get("k") if k is None else number(k)
    axis = node.get("axis", -1)
    order = wend.sort(x, dim=axis, descending=bool(node.get("largest", 1)), stable=True)
    return order[0].narrow(axis, 0, count), order[1].narrow(axis, 0, count)


@op("ArgMax", "ArgMin")
def extreme(node: OpNode, x: Tensor) -> Tensor:
    """Where the largest or smallest element lies: the first, or the last of equals."""
    axis, keep = node.get("axis", 0), bool(node.get("keepdims", 1))
    function = wend.argmax if node.op_type == "ArgMax" else wend.argmin
    if not node.get("select_last_index"):
        return function(x, axis, keepdim=keep)
    return x.shape[axis] - 1 - function(x.flip(axis), axis, keepdim=keep)


@op("Unique")
def unique(node: OpNode, x: Tensor) -> tuple[Tensor, ...]:
    """Each value once, the first index, which value each element is, and all counts."""
    axis = node.get("axis")
    if axis is None:
        x, axis = x.reshape(-1), 0
    values, inverse, counts = x.unique(return_inverse=True, return_counts=True, dim=axis)
    inverse = inverse.reshape(-1)
    total, n = counts.shape[0], inverse.shape[0]
    first = wend.full((total,), n, dtype=wend.int64)
    first = wend.scatter_reduce(first, 0, inverse, wend.arange(n), "amin")
    if not node.get("sorted", 1):
        order = wend.argsort(first)
        rank = wend.zeros_like(order).scatter(0, order, wend.arange(total))
        values, first, counts = (
            values.index_select(axis, order),
            first.index_select(0, order),
            counts.index_select(0, order),
        )
        inverse = rank.index_select(0, inverse)
    return values, first, inverse, counts


@op("ArrayFeatureExtractor", domain="ai.onnx.ml")
def array_feature_extractor(node: OpNode, x: Tensor, index: Tensor) -> Tensor:
    """Elements along the last axis."""
    picked = x.index_select(x.ndim - 1, index.reshape(-1))
    return picked.reshape(1, -1) if x.ndim == 1 else picked


@op("Binarizer", domain="ai.onnx.ml")
def binarizer(node: OpNode, x: Tensor) -> Tensor:
    """1 above a threshold, else 0."""
    return (x > node.get("threshold", 0.0)).to(x.dtype)


@op("CumSum", "CumProd")
def cumulative(node: OpNode, x: Tensor, axis: Tensor) -> Tensor:
    """Sums or products of all elements so far, from either end, with the own element or without."""
    dim = int(number(axis)) % x.ndim
    function, neutral = (wend.cumsum, 0) if node.op_type == "CumSum" else (wend.cumprod, 1)
    if node.get("reverse"):
        x = x.flip(dim)
    y = function(x, dim, dtype=x.dtype)
    if node.get("exclusive"):
        first = wend.full_like(y.narrow(dim, 0, min(1, y.shape[dim])), neutral)
        y = wend.cat([first, y.narrow(dim, 0, max(y.shape[dim] - 1, 0))], dim)
    return y.flip(dim) if node.get("reverse") else y
