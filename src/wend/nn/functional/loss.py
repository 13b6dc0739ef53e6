"""Losses that are given a function, or compute the scores themselves."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from wend._engine.base.errors import ArgumentError, ShapeError, ValueRefused
from wend._frontend.toolkit import Tensor, ops

__all__ = ["linear_cross_entropy", "triplet_margin_with_distance_loss"]


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """`triplet_margin_loss` with a distance of the user's.

    swap: the negative is that of the nearer of anchor and positive.
    """
    if reduction not in ("mean", "sum", "none"):
        raise ArgumentError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ArgumentError(f"margin must be greater than 0, got {margin}")
    distance: Any = ops.pairwise_distance if distance_function is None else distance_function
    near = distance(anchor, positive)
    far = distance(anchor, negative)
    if swap:
        far = ops.minimum(far, distance(positive, negative))
    loss = (margin + near - far).clamp(min=0)
    if reduction == "none":
        return loss
    return loss.mean() if reduction == "mean" else loss.sum()


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """`cross_entropy` of the scores `linear(input, linear_weight, linear_bias)`.

    input: (F) or (N, F)   linear_weight: (C, *D, F)   linear_bias: (C, *D)
    options: how PyTorch cuts the batch into chunks; the result does not depend on that
    """
    if input.dim() not in (1, 2):
        raise ShapeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise ShapeError(
            f"expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}"
        )
    classes, *further, features = linear_weight.shape
    if input.shape[-1] != features:
        raise ShapeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.shape[-1]} and {features}, respectively"
        )
    if linear_bias is not None and tuple(linear_bias.shape) != (classes, *further):
        raise ShapeError(
            f"expected linear_bias shape {(classes, *further)}, got {tuple(linear_bias.shape)}"
        )
    if further and input.dim() == 1:
        raise ShapeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} "
            f"requires batched input, (N, {features}), got shape {tuple(input.shape)}"
        )
    shape = (*input.shape[:-1], classes, *further)
    if ignore_index is not None and tuple(target.shape) == shape:
        raise ValueRefused("ignore_index cannot be specified when target contains probabilities")
    if further:
        count = math.prod(further) * classes
        linear_weight = linear_weight.reshape(count, features)
        linear_bias = None if linear_bias is None else linear_bias.reshape(count)
    scores = ops.linear(input, linear_weight, linear_bias)
    if further:
        scores = scores.reshape(shape)
    return ops.cross_entropy(  # type: ignore[no-any-return]
        scores,
        target,
        weight=weight,
        reduction=reduction,
        ignore_index=-100 if ignore_index is None else ignore_index,
        label_smoothing=label_smoothing,
    )
