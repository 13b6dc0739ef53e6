"""Products of matrices, determinants, sums by Einstein's notation."""

from __future__ import annotations

import wend
from wend._engine.core._hot import Tensor
from wend.onnx.importing.registry import OpNode, op


@op("MatMul")
def matmul(node: OpNode, a: Tensor, b: Tensor) -> Tensor:
    """The product of matrices, in batches."""
    return wend.matmul(a, b)


@op("Gemm")
def gemm(node: OpNode, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    """alpha A B + beta C, with A and B transposed where asked."""
    a = a.t() if node.get("transA") else a
    b = b.t() if node.get("transB") else b
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    product = wend.matmul(a, b)
    product = product if alpha == 1 else (product * alpha).to(a.dtype)
    if c is None:
        return product
    return product + (c if beta == 1 else (c * beta).to(c.dtype))


@op("Einsum")
def einsum(node: OpNode, *xs: Tensor) -> Tensor:
    """The sum that the equation describes."""
    return wend.einsum(node.get("equation").replace(" ", ""), *xs)


@op("Det")
def det(node: OpNode, x: Tensor) -> Tensor:
    """The determinants of square matrices, by elimination with the largest pivot of each column."""
    n = x.shape[-1]
    batch = tuple(x.shape[:-2])
    rows = x.reshape(-1, n, n)
    result = wend.ones(rows.shape[0], dtype=x.dtype)
    for k in range(n):
        order = rows[:, :, 0].abs().argmax(1)
        pick = (wend.arange(n - k) == order.reshape(-1, 1)).to(x.dtype)
        pivot_row = (pick.unsqueeze(-1) * rows).sum(1)
        pivot = pivot_row[:, 0]
        result = result * wend.where(order == 0, pivot, -pivot)
        # The first row takes the place of the pivot's, which leaves.
        first = rows[:, :1]
        rows = wend.where(pick.unsqueeze(-1) > 0, first, rows)[:, 1:]
        safe = wend.where(pivot == 0, wend.ones_like(pivot), pivot)
        scale = rows[:, :, :1] / safe.reshape(-1, 1, 1)
        rows = (rows - scale * pivot_row.unsqueeze(1))[:, :, 1:]
    return result.reshape(batch)
