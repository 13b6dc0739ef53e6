"""Distances and similarities."""

from __future__ import annotations

from wend.frontend.nn._core import Tensor, ops

__all__ = ["cosine_similarity", "normalize", "pairwise_distance", "pdist"]


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last dim."""
    return ops.norm(x1 - x2 + eps, p, -1, keepdim)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """sum(x1 x2) / (max(|x1|, eps) max(|x2|, eps)) along a dim."""
    first = x1 / ops.norm(x1, 2, dim, True).clamp(min=eps)
    second = x2 / ops.norm(x2, 2, dim, True).clamp(min=eps)
    return (first * second).sum(dim)


def pdist(input: Tensor, p: float = 2) -> Tensor:
    """The p-norms between all pairs of rows, (0, 1), (0, 2), ... (N - 2, N - 1)."""
    count = input.size(0)
    first = [i for i in range(count) for _ in range(i + 1, count)]
    second = [j for i in range(count) for j in range(i + 1, count)]
    return ops.norm(input[first] - input[second], p, -1)


def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """x / max(p-norm of x along a dim, eps)."""
    result = input / ops.norm(input, p, dim, True).clamp(min=eps)
    return result if out is None else out.copy_(result)
