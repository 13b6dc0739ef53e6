"""Products of many matrices, powers of a matrix, and distances by products."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from wend._engine.base.errors import ArgumentError, ShapeError
from wend._engine.core.kinds import Attr, Tensor
from wend._engine.core.primitive import Sample, composite, ops
from wend._engine.core.symbolic import hints
from wend._engine.ops.composites.products.contract import multiplies, product, same_dtype, takes
from wend._engine.ops.composites.products.product_nodes import laid_matmul
from wend._engine.ops.composites.reduce import extreme_size, norm_of, root
from wend._engine.ops.gradient_nodes import NodeBuilder, NodeOperand
from wend._engine.ops.numeric import FLOATING, NUMERIC, is_half


def _chain_order(sizes: list[Any]) -> list[list[int]]:
    """split[i][j]: where to split the product of matrices i..j, for the fewest multiplications.

    sizes: matrix i is sizes[i] x sizes[i+1]. Comparing costs records how the sizes compare.
    """
    n = len(sizes) - 1
    cost: list[list[Any]] = [[0] * n for _ in range(n)]
    split = [[0] * n for _ in range(n)]
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            best = None
            for k in range(i, j):
                price = cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1]
                if best is None or price < best:
                    best, split[i][j] = price, k
            cost[i][j] = best
    return split


def _chain(matrices: list[Any], split: list[list[int]], i: int, j: int) -> Any:
    if i == j:
        return matrices[i]
    k = split[i][j]
    left = _chain(matrices, split, i, k)
    return ops.contract(left, _chain(matrices, split, k + 1, j), (1,), (0,))


def _multi_dot(op: str, tensors: Sequence[Tensor]) -> Tensor:
    matrices = list(tensors)
    if len(matrices) < 2:
        raise ShapeError(f"{op}: expected at least 2 tensors, got {len(matrices)}")
    row, column = len(matrices[0].shape) == 1, len(matrices[-1].shape) == 1
    if row:
        matrices[0] = ops.unsqueeze(matrices[0], 0)
    if column:
        matrices[-1] = ops.unsqueeze(matrices[-1], 1)
    takes(op, *((f"tensor {i}", m, 2) for i, m in enumerate(matrices)))
    same_dtype(op, *matrices)
    for i, (a, b) in enumerate(pairwise(matrices)):
        multiplies(op, a, b, f"tensors {i} and {i + 1} with")
    sizes = [m.shape[0] for m in matrices] + [matrices[-1].shape[1]]
    y = _chain(matrices, _chain_order(sizes), 0, len(matrices) - 1)
    if column:
        y = ops.squeeze(y, 1)
    return ops.squeeze(y, 0) if row else y


def _chain_samples(rng: np.random.Generator) -> Iterator[Sample]:
    def chain(*shapes: tuple[int, ...]) -> Sample:
        return Sample([rng.normal(size=s) for s in shapes])

    yield chain((2, 3), (3, 4))
    yield chain((2, 3), (3, 4), (4, 5), (5, 2))
    yield chain((2, 9), (9, 1), (1, 5))


def _multi_dot_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield from _chain_samples(rng)
    yield Sample([rng.normal(size=s) for s in ((3,), (3, 4), (4,))])


@composite(samples=_multi_dot_samples, supports=NUMERIC)
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """y = the product of two or more matrices, in the order that multiplies least.

    The first and the last may be vectors. Raises ShapeError where neighbours do not fit.
    """
    return _multi_dot("multi_dot", tensors)


@composite(functions=("chain_matmul",), samples=_chain_samples, supports=NUMERIC)
def chain_matmul(matrices: Sequence[Tensor]) -> Tensor:
    """y = the product of matrices, in the order that multiplies least; a single matrix gives
    itself."""
    if len(matrices) == 1:
        return ops.clone(matrices[0])
    return _multi_dot("chain_matmul", matrices)


def _power_nodes(n: NodeBuilder, x: NodeOperand, exponent: int) -> object:
    if exponent < 2:
        return n.Clone(x) if exponent == 1 else None
    square: Any = n.laid(x)
    result, power = None, exponent
    if exponent == 3:
        twice = n.made(laid_matmul(n, square, square), x.shape)
        return laid_matmul(n, twice, square)
    while power:
        if power != exponent:
            square = n.made(laid_matmul(n, square, square), x.shape)
        if power & 1:
            result = square if result is None else n.made(laid_matmul(n, result, square), x.shape)
        power >>= 1
    return result and result.edge


def _power_samples(rng: np.random.Generator) -> Iterator[Sample]:
    for n in (0, 1, 2, 3, 7):
        yield Sample(rng.normal(size=(2, 3, 3)), n)


@composite(
    functions=("matrix_power",),
    methods=("matrix_power",),
    samples=_power_samples,
    supports=NUMERIC,
    grad_nodes=_power_nodes,
)
def matrix_power(input: Tensor, n: int) -> Any:
    """y = x @ x @ ... @ x (n times); the identity for 0, powers of the inverse below 0.

    input: (..., m, m). Raises ShapeError unless the matrices are square.
    """
    rank = len(input.shape)
    if rank < 2 or input.shape[-1] != input.shape[-2]:
        raise ShapeError(
            f"matrix_power: must be batches of square matrices, but they have shape "
            f"{hints(input.shape)}"
        )
    if n == 0:
        m = input.shape[-1]
        return ops.clone(ops.expand(ops.eye(m, m, dtype=input.dtype), input.shape))
    base = ops.inv(input) if n < 0 else input
    n = abs(n)
    y = None
    while n:
        if n & 1:
            y = base if y is None else product("matrix_power", y, base)
        n >>= 1
        if n:
            base = product("matrix_power", base, base)
    return ops.clone(y) if y is input else y


_CDIST_MODES = {
    None: None,
    "use_mm_for_euclid_dist_if_necessary": None,
    "use_mm_for_euclid_dist": True,
    "donot_use_mm_for_euclid_dist": False,
    0: None,
    1: True,
    2: False,
}


def _cdist_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x, y = rng.normal(size=(4, 3)), rng.normal(size=(2, 5, 3))
    for p in (2.0, 1.0, float("inf"), 3.0, 0.0):
        yield Sample(x, y, p)
    yield Sample(x, y, 2.0, compute_mode="use_mm_for_euclid_dist")
    yield Sample(x, x)
    yield Sample(x[:, :0], y[0, :, :0])


@composite(
    functions=("cdist",),
    samples=_cdist_samples,
    supports=FLOATING,
)
def cdist(x1: Tensor, x2: Tensor, p: Attr = 2.0, compute_mode: Attr = None) -> Tensor:
    """y[..., i, j] = p-norm of x1[..., i, :] - x2[..., j, :]; the gradient at 0 is 0.

    x1: (..., n, d)   x2: (..., m, d)   ->   (..., n, m)
    compute_mode: whether 2-norms may come from a matrix product (by default with more than 25
    rows), which is faster and loses digits where points are close.
    Raises ShapeError if the last extents differ or p < 0, ArgumentError for an unknown mode.
    """
    if compute_mode not in _CDIST_MODES:
        raise ArgumentError(f"cdist: {compute_mode!r} is not a valid value for compute_mode")
    if len(x1.shape) < 2 or len(x2.shape) < 2 or x1.shape[-1] != x2.shape[-1]:
        raise ShapeError(
            f"cdist: takes (..., n, d) and (..., m, d), but x1 has shape {hints(x1.shape)} and x2 "
            f"{hints(x2.shape)}"
        )
    if not p >= 0:
        raise ShapeError(f"cdist: only supports non-negative p values, not {p}")
    same_dtype("cdist", x1, x2)
    by_product = _CDIST_MODES[compute_mode] if p == 2 else False
    if by_product is None:
        by_product = x1.shape[-2] > 25 or x2.shape[-2] > 25
    if x1.shape[-1] == 0 or not by_product or is_half(x1.dtype):
        difference = ops.sub(ops.unsqueeze(x1, -2), ops.unsqueeze(x2, -3))
        if x1.shape[-1] == 0:  # the p-norm of nothing, at every p
            return ops.sum(difference, -1)
        if p == math.inf:
            return extreme_size(difference, ops.amax, (len(difference.shape) - 1,), False, False)
        return norm_of("cdist", difference, p, -1, False, None)
    rows = ops.sum(ops.mul(x1, x1), -1, True)
    columns = ops.transpose(ops.sum(ops.mul(x2, x2), -1, True), -1, -2)
    cross = product("cdist", x1, ops.transpose(x2, -1, -2))
    square = ops.sub(ops.add(rows, columns), ops.mul(cross, 2))
    return root(ops.where(ops.lt(square, 0), 0, square))
