"""Distances between all rows."""

from __future__ import annotations

from wend._engine.base.errors import ShapeError
from wend._frontend.toolkit import Tensor, ops

__all__ = ["pdist"]


def pdist(input: Tensor, p: float = 2) -> Tensor:
    """The p-norms between all pairs of rows, (0, 1), (0, 2), ... (N - 2, N - 1).

    Raises ShapeError for a p below 0.
    """
    if not p >= 0:
        raise ShapeError(f"pdist: only supports non-negative p values, not {p}")
    count = input.size(0)
    first = [i for i in range(count) for _ in range(i + 1, count)]
    second = [j for i in range(count) for j in range(i + 1, count)]
    return ops.norm(input[first] - input[second], p, -1)
