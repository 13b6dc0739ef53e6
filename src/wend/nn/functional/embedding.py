"""Look-ups by index."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from wend._engine.base.errors import ArgumentError, GraphError, RequirementError, ShapeError
from wend._engine.base.tracebacks import short_errors
from wend._engine.core import _hot
from wend._engine.core._hot import Value
from wend._engine.ops.placing import beside
from wend._frontend.creation import held
from wend._frontend.interop import places as arrays
from wend._frontend.interop.exchange import array_of
from wend._frontend.toolkit import (
    Tensor,
    assign,
    float32,
    in_rule,
    is_grad_enabled,
    no_grad,
    ops,
    zeros_like,
)

__all__ = ["embedding", "embedding_bag"]

_embedding = ops.embedding


@dataclass(slots=True)
class _Limited:
    """A pending table of limited norm whose rows a look-up has shrunk.

    step, at: the step that has made the table's value, and the position
    former: the index of the table's value before any pending look-up has shrunk rows
    data: the index of the same value without the identity of a variable
    norm: most, and of which order
    """

    step: Any
    at: int
    former: int
    data: int
    norm: tuple[float, float]


#: By (serial of the trace, index of the table's value). A row that is shrunk is not shrunk again:
#: so look-ups read the former table, and need not wait for one another.
_limited: dict[tuple[int, int], _Limited] = {}


def renormalize(
    weight: Tensor, indices: Tensor, max_norm: float, norm_type: float
) -> tuple[Tensor, Tensor] | None:
    """Shrink, in place, the rows that will be looked up to at most max_norm.

    Returns a former state of the table, and the rows, (*indices, m), without gradients; None if
    there are no rows.
    """
    if indices.numel() == 0:
        return None
    norm = float(max_norm), float(norm_type)
    with no_grad():
        trace = _hot.current_trace()
        former = data = _hot.value_of(weight)
        known = _known(former, norm)
        if known is not None:
            former, data = trace.values[known.former], trace.values[known.data]
        table = _hot.wrap(former)
        table.leaf = former.leaf
        rows: Tensor = ops.limited_rows(table, indices, *norm)
        at, written = indices, rows
        if indices.dim() != 1:
            at, written = indices.reshape(-1), rows.reshape(-1, weight.size(1))
        # A row that comes twice is the same twice.
        result = ops.index_copy(table if data is former else _hot.wrap(data), 0, at, written)
        assign(weight, result)
        _note(weight, former, result.value, norm)
    return table, rows


def _known(value: Value, norm: tuple[float, float]) -> _Limited | None:
    """Return the notes on a pending table of this norm."""
    trace = _hot.current_trace()
    if value.buffer is None and value.serial == trace.serial:
        known = _limited.get((trace.serial, value.index))
        # Steps that a function's rule has taken back leave their place to others.
        if known is not None and known.norm == norm and known.at < len(trace.states):
            return known if trace.states[known.at] is known.step else None
    return None


def _note(weight: Tensor, former: Value, data: Value, norm: tuple[float, float]) -> None:
    """Note what a table was before its rows were shrunk.  data: the new value"""
    trace, value = _hot.current_trace(), _hot.value_of(weight)
    serial = trace.serial
    if value.buffer is not None or not value.serial == former.serial == data.serial == serial:
        return
    if _limited and next(iter(_limited))[0] != serial:
        _limited.clear()
    at = len(trace.states) - 1
    known = _Limited(trace.states[at], at, former.index, data.index, norm)
    _limited[serial, value.index] = known


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """weight[input]: rows of a table.

    padding_idx: this row gets no gradient   max_norm: rows are first shrunk to this norm
    scale_grad_by_freq: gradients are divided by the number of lookups of the row
    sparse: the gradient of a weight that is a leaf is a sparse tensor
    """
    if weight.dim() != 2:
        raise ShapeError(f"embedding: 'weight' must be 2-D, but has {weight.dim()} dims")
    if padding_idx is not None:
        rows = weight.size(0)
        if not -rows <= padding_idx < rows:
            raise RequirementError("Padding_idx must be within num_embeddings")
        padding_idx %= rows
    limited = None if max_norm is None else renormalize(weight, input, max_norm, norm_type)
    padding = -1 if padding_idx is None else padding_idx
    if sparse and _gets_gradient(weight):
        if scale_grad_by_freq:
            raise GraphError(
                "embedding_backward: scale_grad_by_freq not supported with sparse gradients"
            )
        return _sparse_lookup()(weight, input, padding, None if limited is None else limited[1])
    if limited is not None and _gets_gradient(weight):
        former, rows = limited
        return ops.graft(rows, _embedding(former, input, padding, scale_grad_by_freq))
    if padding_idx is None and not scale_grad_by_freq:
        return _embedding(weight, input)
    return _embedding(weight, input, padding, scale_grad_by_freq)


@cache
def _sparse_lookup() -> Callable[[Tensor, Tensor, int, Tensor | None], Tensor]:
    """`wend.sparse.lookups.lookup`, imported at the first need."""
    lookup: Callable[[Tensor, Tensor, int, Tensor | None], Tensor]
    lookup = importlib.import_module("wend.sparse.lookups").lookup
    return lookup


def _gets_gradient(weight: Tensor) -> bool:
    """Whether gradients of this table end in its `.grad`, and are not part of a function's rule."""
    return weight.requires_grad and weight.is_leaf and is_grad_enabled() and not in_rule()


@short_errors
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sum, mean or maximum of the rows of each bag of indices.

    input: (bags, n), or all indices in a row with `offsets`: the begin of each bag
    """
    if weight.dtype.is_floating_point is False and input.dtype.is_floating_point:
        warnings.warn("Argument order of nn.functional.embedding_bag was changed.", stacklevel=2)
        input, weight = weight, input
    if mode not in ("sum", "mean", "max"):
        raise ArgumentError("mode has to be one of sum, mean or max")
    if mode == "max" and sparse:
        raise ArgumentError("max mode does not support sparse weights")
    if per_sample_weights is not None:
        if mode != "sum":
            raise NotImplementedError(
                "embedding_bag: per_sample_weights was not None. per_sample_weights is only "
                f"supported for mode='sum' (got mode='{mode}')."
            )
        if per_sample_weights.shape != input.shape:
            raise ArgumentError(
                f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, "
                f"then it must have the same shape as the input ({input.shape})"
            )
    starts = _starts(input, offsets)
    rows = embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    counted = None
    if padding_idx is not None:
        counted = input != padding_idx % weight.size(0)
    dtype = rows.dtype
    if dtype.is_floating_point and dtype.itemsize < MOST_EXACT:
        rows = rows.to(float32)  # as sums of halves
    if starts is None:
        return _of_matrix(rows, counted, mode).to(dtype)
    return _of_bags(rows, counted, starts, mode, include_last_offset).to(dtype)


#: Bytes of a number below which sums are computed in float32.
MOST_EXACT = 4


def _starts(input: Tensor, offsets: Tensor | None) -> Any:
    """Where the bags begin, as an array; None if the bags are the rows of a matrix."""
    if input.dim() == 2:
        if offsets is not None:
            raise ArgumentError(
                "if input is 2D, then offsets has to be None, as input is treated is a "
                f"mini-batch of fixed length sequences. However, found offsets of type "
                f"{type(offsets)}"
            )
        return None
    if input.dim() != 1:
        raise ArgumentError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}"
        )
    if offsets is None:
        raise ArgumentError("offsets has to be a 1D Tensor but got None")
    if offsets.dim() != 1:
        raise ArgumentError("offsets has to be a 1D Tensor")
    starts = array_of(offsets)
    if starts.size and starts[0] != 0:
        raise ArgumentError(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start "
            f"from position 0. However, got {starts[0]}"
        )
    return starts


def _of_matrix(rows: Tensor, counted: Tensor | None, mode: str) -> Tensor:
    """The reduced rows of each bag, where all bags are as long.  rows: (bags, n, width)"""
    if rows.size(1) == 0:
        return rows.sum(1)
    if counted is None:
        if mode == "max":
            return rows.amax(1)
        return rows.sum(1) if mode == "sum" else rows.mean(1)
    mask = counted.unsqueeze(-1)
    if mode == "max":
        maxima = ops.where(mask, rows, rows.new_full((), float("-inf"))).amax(1)
        return ops.where(mask.any(1), maxima, zeros_like(maxima))
    total = ops.where(mask, rows, zeros_like(rows)).sum(1)
    return total if mode == "sum" else total / mask.sum(1).clamp(min=1)


def _of_bags(
    rows: Tensor, counted: Tensor | None, starts: Any, mode: str, include_last_offset: bool
) -> Tensor:
    """The reduced rows of each bag, where bags begin anywhere.  rows: (n, width)

    Rows that do not count go to a bag behind the last bag, which is cut off.
    """
    size = rows.size(0)
    bags = max(0, starts.size - include_last_offset)
    if not bags:
        return rows.new_zeros((0, rows.size(1)))
    numbers, sizes = arrays.bag_numbers(starts, size, bags)
    places = beside(input, held(numbers))
    if counted is not None:
        places = ops.where(counted, places, bags)
    zeros = rows.new_zeros((bags + 1, rows.size(1)))
    if mode == "max":
        reduced = ops.index_reduce(zeros, 0, places, rows, "amax", include_self=False)
        return reduced[:bags]
    total = ops.index_add(zeros, 0, places, rows)[:bags]
    if mode == "sum":
        return total
    if counted is None:
        return total / beside(total, held(sizes)).unsqueeze(1).clamp(min=1)
    counts = ops.index_add(rows.new_zeros((bags + 1,)), 0, places, rows.new_ones((size,)))
    return total / counts[:bags].unsqueeze(1).clamp(min=1)
