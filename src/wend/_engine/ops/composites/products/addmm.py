"""beta * input + alpha * product: addmm and similar functions.

alpha and beta default to None, which means 1 and costs nothing; all values are run-time scalars.
As in PyTorch, where beta is 0 the added tensor is ignored, NaN and all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wend._engine.base.dtypes import bool_
from wend._engine.base.errors import DTypeError, ShapeError
from wend._engine.core.kinds import Operand, Scalar, Tensor
from wend._engine.core.primitive import Primitive, Sample, composite, ops
from wend._engine.core.symbolic import broadcast_shapes, category_of, hints
from wend._engine.ops.composites.products.contract import (
    batches_multiply,
    product,
    same_dtype,
    takes,
)
from wend._engine.ops.numeric import NUMERIC
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue


def scaled_sum(
    op: str, input: Tensor, product: Tensor, beta: Operand | None, alpha: Scalar | None
) -> Tensor:
    """beta * input + alpha * product; input broadcasts to the product."""
    same_dtype(op, product, input)
    shape = broadcast_shapes(op, product.shape, input.shape)
    if len(shape) != len(product.shape) or any(
        a != b for a, b in zip(shape, product.shape, strict=True)
    ):
        raise ShapeError(
            f"{op}: input of shape {hints(input.shape)} does not broadcast to the product's "
            f"shape {hints(product.shape)}"
        )
    if alpha is not None:
        product = ops.mul(product, ops.full((), alpha, dtype=input.dtype))
    if beta is not None:
        # For ints a factor is cut to an int first, as in PyTorch.
        beta = ops.full((), beta, dtype=input.dtype)
        input = ops.where(ops.eq(beta, 0), 0, ops.mul(input, beta))
    return ops.add(input, product)


def _scaled_samples(*shapes: tuple[int, ...]) -> Callable[..., Any]:
    def samples(rng: np.random.Generator) -> Iterator[Sample]:
        for numbers in ({}, {"beta": 0.5, "alpha": 2.0}, {"beta": 0.0}):
            yield Sample(*(rng.normal(size=s) for s in shapes), **numbers)
        yield Sample(rng.normal(size=(1,)), *(rng.normal(size=s) for s in shapes[1:]), beta=2.0)

    return samples


def _onnx_addmm(
    self: Primitive,
    g: OnnxBuilder,
    x: OnnxValue,
    left: OnnxValue,
    right: OnnxValue,
    beta: Scalar | None,
    alpha: Scalar | None,
) -> Any:
    numbers = {"beta": beta, "alpha": alpha}
    attributes: dict[str, Any] = {
        name: float(n) for name, n in numbers.items() if isinstance(n, (int, float))
    }
    plain = all(n is None or name in attributes for name, n in numbers.items()) and beta != 0
    if not plain or not g.runs("Gemm", left.dtype):
        return NotImplemented
    return g.node("Gemm", left, right, x, **attributes)


@composite(
    onnx=_onnx_addmm,
    functions=("addmm",),
    methods=("addmm",),
    inplace=True,
    supports=NUMERIC,
    samples=_scaled_samples((2, 4), (2, 3), (3, 4)),
)
def addmm(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: Scalar | None = None,
    alpha: Scalar | None = None,
) -> Tensor:
    """y = beta * input + alpha * (mat1 @ mat2).

    input: broadcasts to (n, p)   mat1: (n, m)   mat2: (m, p)   ->   (n, p)
    """
    takes("addmm", ("mat1", mat1, 2), ("mat2", mat2, 2))
    return scaled_sum("addmm", input, product("addmm", mat1, mat2), beta, alpha)


@composite(
    functions=("addmv",),
    methods=("addmv",),
    inplace=True,
    supports=NUMERIC,
    samples=_scaled_samples((2,), (2, 3), (3,)),
)
def addmv(
    input: Tensor,
    mat: Tensor,
    vec: Tensor,
    *,
    beta: Scalar | None = None,
    alpha: Scalar | None = None,
) -> Tensor:
    """y = beta * input + alpha * (mat @ vec).

    input: broadcasts to (n,)   mat: (n, m)   vec: (m,)   ->   (n,)
    """
    takes("addmv", ("mat", mat, 2), ("vec", vec, 1))
    return scaled_sum("addmv", input, product("addmv", mat, vec), beta, alpha)


@composite(
    functions=("addbmm",),
    methods=("addbmm",),
    inplace=True,
    supports=NUMERIC,
    samples=_scaled_samples((2, 4), (5, 2, 3), (5, 3, 4)),
)
def addbmm(
    input: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    *,
    beta: Scalar | None = None,
    alpha: Scalar | None = None,
) -> Tensor:
    """y = beta * input + alpha * sum over b of batch1[b] @ batch2[b].

    input: broadcasts to (n, p)   batch1: (b, n, m)   batch2: (b, m, p)   ->   (n, p)
    """
    batches_multiply("addbmm", batch1, batch2)
    total = ops.contract(batch1, batch2, (0, 2), (0, 1))
    return scaled_sum("addbmm", input, total, beta, alpha)


@composite(
    functions=("baddbmm",),
    methods=("baddbmm",),
    inplace=True,
    supports=NUMERIC,
    samples=_scaled_samples((5, 2, 4), (5, 2, 3), (5, 3, 4)),
)
def baddbmm(
    input: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    *,
    beta: Scalar | None = None,
    alpha: Scalar | None = None,
) -> Tensor:
    """y[b] = beta * input[b] + alpha * (batch1[b] @ batch2[b]).

    input: broadcasts to (b, n, p)   batch1: (b, n, m)   batch2: (b, m, p)   ->   (b, n, p)
    """
    batches_multiply("baddbmm", batch1, batch2)
    products = ops.contract(batch1, batch2, (2,), (1,), (0,), (0,))
    return scaled_sum("baddbmm", input, products, beta, alpha)


@composite(
    functions=("addr",),
    methods=("addr",),
    inplace=True,
    supports=NUMERIC | {"bool"},
    samples=_scaled_samples((2, 3), (2,), (3,)),
)
def addr(
    input: Tensor,
    vec1: Tensor,
    vec2: Tensor,
    *,
    beta: Scalar | None = None,
    alpha: Scalar | None = None,
) -> Tensor:
    """y[i, j] = beta * input[i, j] + alpha * vec1[i] * vec2[j]; of bool, `or` and `and`.

    input: broadcasts to (n, m)   vec1: (n,)   vec2: (m,)   ->   (n, m)
    """
    takes("addr", ("vec1", vec1, 1), ("vec2", vec2, 1))
    for name, number in (("beta", beta), ("alpha", alpha)):
        if number is not None and category_of(number) > max(input.dtype.category, 1):
            raise DTypeError(
                f"addr: for {input.dtype} input, argument {name} must not be a floating point "
                "or complex number"
            )
    outer_product = ops.mul(ops.unsqueeze(vec1, 1), ops.unsqueeze(vec2, 0))
    if input.dtype is bool_ and outer_product.dtype is bool_:
        kept = input if beta is None else ops.logical_and(input, ops.full((), beta, dtype=bool_))
        if alpha is not None:
            outer_product = ops.logical_and(outer_product, ops.full((), alpha, dtype=bool_))
        return ops.logical_or(kept, outer_product)
    return scaled_sum("addr", input, outer_product, beta, alpha)
