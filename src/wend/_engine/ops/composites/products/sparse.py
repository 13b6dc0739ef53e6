"""The product of a sparse matrix and a dense matrix."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wend._engine.core.kinds import Size, Tensor
from wend._engine.core.primitive import Primitive, Sample, composite, ops
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue


def _samples(rng: np.random.Generator) -> Iterator[Sample]:
    rows, columns = np.array([0, 2, 2, 3]), np.array([1, 0, 2, 1])
    yield Sample(rows, columns, rng.normal(size=(4,)), rng.normal(size=(3, 2)), 4)
    yield Sample(rows, columns[::-1], rng.normal(size=(4,)), rng.normal(size=(3, 1)), 5)
    none = np.zeros((0,), np.int64)
    yield Sample(none, none, np.zeros((0,)), rng.normal(size=(3, 2)), 2)


def _onnx(
    self: Primitive,
    g: OnnxBuilder,
    rows: OnnxValue,
    columns: OnnxValue,
    values: OnnxValue,
    dense: OnnxValue,
    size: Size,
) -> OnnxValue:
    picked = g.node("Gather", dense, columns, axis=0)
    count, width = rows.shape[0], dense.shape[1]
    scaled = g.node("Mul", g.reshape(values, (count, 1)), picked)
    at = g.expand(g.reshape(rows, (count, 1)), (count, width))
    zeros = g.node("Expand", g.constant(0, values.dtype), g.sizes((size, width)))
    return g.scatter(zeros, at, scaled, 0, "add")


@composite(samples=_samples, onnx=_onnx)
def sparse_product(
    rows: Tensor, columns: Tensor, values: Tensor, dense: Tensor, size: Size
) -> Tensor:
    """y[rows[k]] += values[k] * dense[columns[k]], for all k; y has `size` rows.

    rows, columns, values: (elements,)   dense: (m, n)   ->   y: (size, n). Generated code needs no
    memory for the rows picked from `dense`, nor do the gradients, which are such products again.
    """
    picked = ops.mul(ops.unsqueeze(values, 1), ops.embedding(dense, columns))
    return ops.embedding_adjoint(picked, rows, size)
