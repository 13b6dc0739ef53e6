"""Look-ups by index."""

from __future__ import annotations

import importlib
import warnings

from wend._engine.base.errors import GraphError
from wend._frontend.toolkit import (
    Tensor,
    in_rule,
    is_grad_enabled,
    no_grad,
    ones_like,
    ops,
    zeros_like,
)

__all__ = ["embedding", "embedding_bag"]

_embedding = ops.embedding


def renormalize(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> None:
    """Shrink, in place, the rows that will be looked up to at most max_norm."""
    with no_grad():
        rows = indices.reshape(-1).unique()
        if rows.numel() == 0:
            return
        vectors = weight[rows]
        norms = ops.norm(vectors, norm_type, -1, True)
        scale = ops.where(norms > max_norm, max_norm / (norms + 1e-7), ones_like(norms))
        weight[rows] = vectors * scale


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
        raise RuntimeError(f"embedding: 'weight' must be 2-D, but has {weight.dim()} dims")
    if padding_idx is not None:
        rows = weight.size(0)
        if not -rows <= padding_idx < rows:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx %= rows
    if max_norm is not None:
        renormalize(weight, input, max_norm, norm_type)
    if sparse and _gets_gradient(weight):
        if scale_grad_by_freq:
            raise GraphError(
                "embedding_backward: scale_grad_by_freq not supported with sparse gradients"
            )
        lookup = importlib.import_module("wend.sparse.lookups").lookup
        return lookup(weight, input, -1 if padding_idx is None else padding_idx)  # type: ignore[no-any-return]
    if padding_idx is None and not scale_grad_by_freq:
        return _embedding(weight, input)
    return _embedding(weight, input, -1 if padding_idx is None else padding_idx, scale_grad_by_freq)


def _gets_gradient(weight: Tensor) -> bool:
    """Whether gradients of this table end in its `.grad`, and are not part of a function's rule."""
    return weight.requires_grad and weight.is_leaf and is_grad_enabled() and not in_rule()


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
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if per_sample_weights is not None:
        if mode != "sum":
            raise NotImplementedError(
                "embedding_bag: per_sample_weights was not None. per_sample_weights is only "
                f"supported for mode='sum' (got mode='{mode}')."
            )
        if per_sample_weights.shape != input.shape:
            raise ValueError(
                f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, "
                f"then it must have the same shape as the input ({input.shape})"
            )
    bags = _bags(input, offsets, include_last_offset)
    rows = embedding(
        input.reshape(-1), weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse
    )
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(-1, 1)
    counted = None
    if padding_idx is not None:
        counted = input.reshape(-1) != padding_idx % weight.size(0)
    results = [_bag(rows, counted, start, end, mode) for start, end in bags]
    if not results:
        return rows.new_zeros((0, weight.size(1)))
    return ops.stack(results)


def _bags(
    input: Tensor, offsets: Tensor | None, include_last_offset: bool
) -> list[tuple[int, int]]:
    """First and last index (exclusive) of each bag among all indices."""
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a "
                f"mini-batch of fixed length sequences. However, found offsets of type "
                f"{type(offsets)}"
            )
        count, size = input.shape
        return [(i * size, (i + 1) * size) for i in range(count)]
    if input.dim() != 1:
        raise ValueError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}"
        )
    if offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if offsets.dim() != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    starts = offsets.tolist()
    if starts and starts[0] != 0:
        raise ValueError(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start "
            f"from position 0. However, got {starts[0]}"
        )
    ends = starts[1:] if include_last_offset else [*starts[1:], input.size(0)]
    return list(zip(starts[: len(ends)], ends, strict=True))


def _bag(rows: Tensor, counted: Tensor | None, start: int, end: int, mode: str) -> Tensor:
    part = rows[start:end]
    if end == start:
        return part.sum(0)
    if counted is None:
        if mode == "max":
            return part.amax(0)
        return part.sum(0) if mode == "sum" else part.mean(0)
    mask = counted[start:end].unsqueeze(-1)
    if mode == "max":
        maxima = ops.where(mask, part, part.new_full((), float("-inf"))).amax(0)
        return ops.where(mask.any(), maxima, zeros_like(maxima))
    total = ops.where(mask, part, zeros_like(part)).sum(0)
    if mode == "sum":
        return total
    return total / mask.sum().clamp(min=1)
