"""Losses that are given a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wend.frontend.toolkit import Tensor, ops

__all__ = ["triplet_margin_with_distance_loss"]


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
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    distance: Any = ops.pairwise_distance if distance_function is None else distance_function
    near = distance(anchor, positive)
    far = distance(anchor, negative)
    if swap:
        far = ops.minimum(far, distance(positive, negative))
    loss = (margin + near - far).clamp(min=0)
    if reduction == "none":
        return loss
    return loss.mean() if reduction == "mean" else loss.sum()
