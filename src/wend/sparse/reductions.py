"""Sums over sparse tensors, and softmax over the elements that are there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wend._engine.base.dtypes import DType
from wend._engine.base.errors import GraphError
from wend._engine.base.shapes import normalize_dim
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._frontend.creation import held
from wend._frontend.interop import places as arrays
from wend.sparse.families import in_coordinates
from wend.sparse.tensor import SparseTensor, coo, merged

__all__ = ["log_softmax", "softmax", "sum"]


def _dims(x: Tensor, dim: Any) -> list[int]:
    dims = list(dim) if isinstance(dim, (list, tuple)) else [dim]
    return sorted({normalize_dim(d, x.dim(), "sum") for d in dims})


def sum_rule(
    input: SparseTensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """The sum of all elements (dense), or over dims; sparse where a sparse dim is left."""
    elements = input.elements if dtype is None else input.elements.to(dtype)
    dims = list(range(input.dim())) if dim is None or dim == () else _dims(input, dim)
    places = input.places
    sparse = len(places.size)
    dense = [d - sparse + 1 for d in dims if d >= sparse]
    if dense:
        elements = elements.sum(dense, keepdim=keepdim)
    kept = [d for d in range(sparse) if d not in dims]
    if dim is None or not kept:
        total = elements.sum(0)
        return total.reshape(*[1] * sparse, *total.shape) if keepdim and sparse else total
    if len(kept) == sparse:
        return coo(places.array, elements, places.size, places.ordered)
    rows = [places.array[d] if d in kept else 0 for d in range(sparse) if keepdim or d in kept]
    extents = [(d, places.size[d]) for d in range(sparse) if keepdim or d in kept]
    size = tuple([n if d in kept else 1 for d, n in extents])
    return merged(coo(arrays.stacked(rows, places.count), elements, size))


def mean(
    input: SparseTensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """The mean of all elements, zeros included, or over dims."""
    dims = range(input.dim()) if dim is None else _dims(input, dim)
    count = 1
    for d in dims:
        count *= int(input.shape[d])
    return sum_rule(input, dim, keepdim, dtype=dtype) / count


def norm(
    input: SparseTensor,
    p: float | str | None = "fro",
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    dtype: DType | None = None,
) -> Tensor:
    """The norm of all elements."""
    if dim is not None and len(_dims(input, dim)) < input.dim():
        raise GraphError("norm: of a sparse tensor, over all dims only")
    values = merged(input).elements.reshape(-1)
    order = 2 if p in (None, "fro") else p
    magnitude: Tensor = ops.norm(values if dtype is None else values.to(dtype), order)
    return magnitude.reshape((1,) * input.dim()) if keepdim else magnitude


def any_rule(input: SparseTensor) -> Tensor:
    """Whether any element is not 0."""
    return ops.any(merged(input).elements)  # type: ignore[no-any-return]


def count_nonzero(input: SparseTensor) -> Tensor:
    """The number of elements that are not 0."""
    return ops.ne(merged(input).elements, 0).sum()  # type: ignore[no-any-return]


def _normalized(input: SparseTensor, dim: int, dtype: DType | None, log: bool) -> SparseTensor:
    at = normalize_dim(dim, input.dim(), "softmax")
    x = merged(input)
    values = x._values_ if dtype is None else x._values_.to(dtype)
    places = x.places
    sparse = len(places.size)
    if at >= sparse:
        function = ops.log_softmax if log else ops.softmax
        return x.with_values(function(values, at - sparse + 1))
    others = [d for d in range(sparse) if d != at]
    size = tuple([places.size[d] for d in others])
    array = arrays.stacked([places.array[d] for d in others], places.count)
    groups, inverse, _ = arrays.merged(array, size)
    count = groups.shape[1]
    number = held(arrays.integers(range(count) if inverse is None else inverse))
    shape = (count, *values.shape[1:])
    lowest = ops.full(shape, float("-inf"), dtype=values.dtype)
    top = lowest.index_reduce(0, number, values.detach(), "amax")
    shifted = values - ops.index_select(top, 0, number)
    total = ops.index_add(ops.full(shape, 0, dtype=values.dtype), 0, number, shifted.exp())
    divisor = ops.index_select(total, 0, number)
    return x.with_values(shifted - divisor.log() if log else shifted.exp() / divisor)


def softmax_rule(input: SparseTensor, dim: int, dtype: DType | None = None) -> SparseTensor:
    """softmax over the elements that are there; those that are not count as minus infinity."""
    return _normalized(input, dim, dtype, False)


def log_softmax_rule(input: SparseTensor, dim: int, dtype: DType | None = None) -> SparseTensor:
    """The logarithm of `softmax`."""
    return _normalized(input, dim, dtype, True)


def _sparse(name: str, input: object) -> SparseTensor:
    if not isinstance(input, SparseTensor):
        raise GraphError(f"torch.sparse.{name}: the input must be a sparse tensor")
    return input


def softmax(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """softmax along a dim over the elements that are there: empty places stay 0."""
    return in_coordinates(softmax_rule, _sparse("softmax", input), dim, dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """The logarithm of `softmax`, at the places of the elements that are there."""
    return in_coordinates(log_softmax_rule, _sparse("log_softmax", input), dim, dtype)


def sum(
    input: Tensor, dim: int | Sequence[int] | None = None, dtype: DType | None = None
) -> Tensor:
    """The sum of all elements (dense), or over some dims; sparse where a sparse dim is left."""
    return in_coordinates(sum_rule, _sparse("sum", input), dim, dtype=dtype)
