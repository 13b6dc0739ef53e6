"""Norms, products and moments of vectors and matrices, under the names of torch.linalg."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from wend._engine.base.dtypes import FLOAT, DType, float64, get_default_dtype
from wend._engine.base.errors import (
    ArgumentError,
    DTypeError,
    ShapeError,
    ValueRefused,
)
from wend._engine.base.shapes import normalize_dim
from wend._engine.core.kinds import Attr, Ints, Scalar, Tensor
from wend._engine.core.primitive import Sample, composite, ops
from wend._engine.core.symbolic import hints
from wend._engine.ops.composites.reduce import norm_of
from wend._engine.ops.elementwise.family import promoted
from wend._engine.ops.gradient_nodes import NodeBuilder, NodeOperand
from wend._engine.ops.linalg.family import turned
from wend._engine.ops.numeric import INEXACT, NUMERIC
from wend._engine.ops.placing import full_beside
from wend._engine.ops.reduce import conj, restore
from wend._engine.ops.sugar import spelled, sugar

# -- products ------------------------------------------------------------------------------------


def _cross_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x, y = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    yield Sample(x, y)
    yield Sample(x, y[:1], dim=-1)
    yield Sample(x.T, y.T, dim=0)


@composite(
    name="cross_along",
    grad_name="LinalgCrossBackward0",
    samples=_cross_samples,
    supports=NUMERIC,
)
def cross_along(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """y = input x other for vectors of 3 along `dim`; all dims but `dim` broadcast.

    Raises ShapeError unless both have as many dims, and 3 entries along `dim`.
    """
    rank = len(input.shape)
    if rank != len(other.shape):
        raise ShapeError(
            f"linalg.cross: inputs must have the same number of dimensions, and have shapes "
            f"{hints(input.shape)} and {hints(other.shape)}"
        )
    axis = normalize_dim(dim, rank, "linalg.cross")
    if input.shape[axis] != 3 or other.shape[axis] != 3:
        raise ShapeError(
            f"linalg.cross: inputs dimension {dim} must have length 3; the shapes are "
            f"{hints(input.shape)} and {hints(other.shape)}"
        )
    a = [ops.narrow(input, axis, i, 1) for i in range(3)]
    b = [ops.narrow(other, axis, i, 1) for i in range(3)]
    pairs = ((1, 2), (2, 0), (0, 1))
    return ops.cat([a[i] * b[j] - a[j] * b[i] for i, j in pairs], axis)


@sugar(functions=("cross",), methods=("cross",))
@spelled(out=True)
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """input x other for vectors of 3 along `dim`, by default the first dim that has 3 entries."""
    if dim is None:
        dims = [d for d, n in enumerate(input.shape) if n == 3]
        if not dims:
            raise ShapeError(f"cross: no dimension of size 3 in input of shape {input.shape}")
        dim = dims[0]
    return ops.cross_along(input, other, dim=dim)


@composite(
    name="vecdot",
    grad_name="LinalgVecdotBackward0",
    samples=lambda rng: iter(
        [
            Sample(rng.normal(size=(2, 3)), rng.normal(size=(3,))),
            Sample(rng.normal(size=(2, 3)), rng.normal(size=(2, 3)), dim=0),
            Sample(rng.normal(size=(4, 0)), rng.normal(size=(1, 0))),
        ]
    ),
    supports=NUMERIC,
    grad_nodes=lambda n, x, y, *_: n.Sum1(n.Mul(x, y)),
)
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """The sum of x * y along `dim`, after broadcasting; x conjugated where complex."""
    if x.dtype is not y.dtype:
        raise DTypeError(f"linalg.vecdot: expected one dtype, got {x.dtype} and {y.dtype}")
    if x.dtype.is_complex:
        x = ops.conj(x)
    return ops.sum(x * y, dim, dtype=x.dtype)


# -- norms ---------------------------------------------------------------------------------------


def _matrix_norm_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = rng.normal(size=(2, 3, 4))
    for ord in ("fro", 1, -1, math.inf, -math.inf):
        yield Sample(x, ord)
    yield Sample(x, 1, (0, -1), keepdim=True)
    yield Sample(x[0], "fro", (1, 0))


def _matrix_norm_nodes(n: NodeBuilder, x: object, ord: Any, *_: object) -> object:
    if ord in (2, -2, "nuc"):
        values = n.LinalgSvd(x)
        return n.Sum1(values) if ord == "nuc" else (n.Amin if ord < 0 else n.Amax)(values)
    norms = n.LinalgVectorNorm(x)
    return norms if ord == "fro" else (n.Amin if ord < 0 else n.Amax)(norms)


@composite(
    name="matrix_norm",
    grad_name="LinalgMatrixNormBackward0",
    samples=_matrix_norm_samples,
    supports=INEXACT,
    grad_nodes=_matrix_norm_nodes,
)
def matrix_norm(
    input: Tensor,
    ord: Attr = "fro",
    dim: Ints = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """The norm of the matrices in the two dims: 'fro', 'nuc', or 1, -1, 2, -2, inf, -inf.

    1: the largest sum of |entries| of a column   inf: of a row   2: the largest singular value
    negative: the smallest   'nuc': the sum of the singular values
    Raises ShapeError unless there are two dims, ValueRefused for any other order.
    """
    rank = len(input.shape)
    if rank < 2 or len(dim) != 2:
        raise ShapeError(
            f"linalg.matrix_norm: expected a matrix and two dims, got {hints(input.shape)} and "
            f"{dim}"
        )
    rows, columns = (normalize_dim(d, rank, "linalg.matrix_norm") for d in dim)
    if rows == columns:
        raise ShapeError(f"linalg.matrix_norm: dims must be different. Got {dim}")
    if ord == "fro":
        return norm_of("linalg.matrix_norm", input, 2, (rows, columns), keepdim, dtype)
    if ord not in (1, -1, 2, -2, math.inf, -math.inf, "nuc") or isinstance(ord, bool):
        raise ValueRefused(f"linalg.matrix_norm: Order {ord} not supported.")
    if ord in (2, -2, "nuc"):
        return _norm_by_values(input, ord, (rows, columns), keepdim, dtype)
    inner, outer = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = norm_of("linalg.matrix_norm", input, 1, (inner,), True, dtype)
    norm = _extreme(ord, sums, outer, True)
    axes = tuple(sorted((rows, columns)))
    if keepdim:
        return norm
    return ops.squeeze(norm, axes)


def _extreme(ord: Any, x: Tensor, dim: int, keepdim: bool) -> Tensor:
    """The largest of norms along a dim, 0 of none; or the smallest, for an order below 0."""
    if ord < 0:
        return ops.amin(x, (dim,), keepdim)
    fold = ops.sum if x.shape[dim] == 0 else ops.amax
    return fold(x, (dim,), keepdim)


def _norm_by_values(
    A: Tensor, ord: Any, axes: tuple[int, int], keepdim: bool, dtype: DType | None
) -> Tensor:
    """The largest, least or sum of the singular values of the matrices in two dims."""
    if A.dtype.category < FLOAT:
        raise DTypeError(
            f"linalg.matrix_norm: Expected a floating point or complex tensor as input. Got "
            f"{A.dtype}"
        )
    x = A if dtype is None else ops.cast(A, dtype)
    front = tuple(d for d in range(len(A.shape)) if d not in axes)
    values = ops.linalg_svdvals(ops.permute(x, (*front, *axes)))
    at = len(front)
    norm = ops.sum(values, (at,)) if ord == "nuc" else _extreme(ord, values, at, False)
    return restore(norm, tuple(sorted(axes)), False) if keepdim else norm


@sugar(name="linalg_norm")
def linalg_norm(
    input: Tensor,
    ord: Any = None,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """torch.linalg.norm: of vectors, or of matrices where `ord` is for two dims.

    Without ord: the 2-norm of all elements (of `dim`). With ord: of a vector for a single dim, of a
    matrix for two dims.
    """
    if dim is not None and not isinstance(dim, int):
        dim = tuple(dim)
    if ord is None:
        return ops.vector_norm(input, 2, dim, keepdim, dtype=dtype)
    count = len(input.shape) if dim is None else 1 if isinstance(dim, int) else len(dim)
    if count == 2:
        dims = (-2, -1) if dim is None else dim
        return ops.matrix_norm(input, ord, dims, keepdim, dtype=dtype)
    if isinstance(ord, str):
        raise ShapeError(f"linalg.norm: the order {ord!r} is for matrices, not {count} dims")
    if dim is None and count != 1:
        raise ShapeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "
            f"{count}D."
        )
    return ops.vector_norm(input, ord, dim, keepdim, dtype=dtype)


def _renorm_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = rng.normal(size=(2, 3, 4))
    yield Sample(x, 2, 0, 1.0)
    yield Sample(x, 1, -1, 2.5)
    yield Sample(x, math.inf, 1, 0.5)
    yield Sample(x[:, :0], 2, 0, 1.0)


def _refuse_negative(op: Any, x: None, maxnorm: float) -> None:
    if not maxnorm >= 0:  # NaN as well
        raise ValueRefused(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")


@composite(
    functions=("renorm",),
    methods=("renorm",),
    inplace=True,
    samples=_renorm_samples,
    supports=INEXACT,
    checked_numbers=_refuse_negative,
)
def renorm(input: Tensor, p: Attr, dim: int, maxnorm: Scalar) -> Tensor:
    """y = input, each slice along `dim` of p-norm above maxnorm scaled down to maxnorm.

    Raises ShapeError for fewer than two dims, ArgumentError for p that is not above 0, or a
    maxnorm below 0.
    """
    rank = len(input.shape)
    if rank < 2:
        raise ShapeError(f"renorm: input needs at least 2 dimensions, got {rank} dimensions")
    if isinstance(p, bool) or not p > 0:
        raise ArgumentError(f"renorm: non-positive-norm not supported: p is {p}")
    axis = normalize_dim(dim, rank, "renorm")
    others = tuple(d for d in range(rank) if d != axis)
    size = norm_of("renorm", input, p, others, True, None)
    long = size > maxnorm
    size = norm_of("renorm", ops.where(long, input, 0), p, others, True, None)
    return ops.where(long, input * (maxnorm / (size + 1e-7)), input)


def _limited_samples(rng: np.random.Generator) -> Iterator[Sample]:
    table = rng.normal(size=(5, 3))
    yield Sample(table, np.array([[4, 0], [1, 4]]), 1.0, 2.0)
    yield Sample(table, np.array(2), 0.5, 1.0)
    yield Sample(table, np.zeros((0,), np.int64), 0.5, math.inf)


@composite(samples=_limited_samples, supports=INEXACT)
def limited_rows(weight: Tensor, indices: Tensor, max_norm: Scalar, norm_type: Attr) -> Tensor:
    """y = weight[indices], each row of a norm above max_norm scaled down to max_norm.

    weight: (n, m)   indices: any shape   ->   y: (*indices, m)
    """
    rows = ops.embedding(weight, indices)
    size = norm_of("embedding", rows, norm_type, -1, True, None)
    return rows * ops.where(size > max_norm, max_norm / (size + 1e-7), 1)


# -- moments -------------------------------------------------------------------------------------


def _cov_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = rng.normal(size=(3, 5))
    yield Sample(x)
    yield Sample(x, correction=0)
    yield Sample(x[0])
    yield Sample(x, fweights=np.array([1, 2, 1, 3, 1]), correction=1)
    yield Sample(x, aweights=rng.uniform(0.5, 2, size=(5,)))


def _cov_nodes(n: NodeBuilder, x: NodeOperand, weights: Any = ()) -> object:
    rows = x if x.rank == 2 else n.View(x)
    weighed = any(w is not None for w in weights)
    total = n.Sum1(n.Mul(rows, None)) if weighed else n.Sum1(rows)
    apart = n.Sub(rows, n.Unsqueeze(n.Div(total, None)))
    other = n.Mul(apart, None) if weighed else apart
    return n.Squeeze(n.Div(n.Mm(apart, n.T(other)), None))


def _corrcoef_nodes(n: NodeBuilder, x: NodeOperand) -> object:
    cov = _cov_nodes(n, x)
    if x.rank < 2:
        return n.Div(cov, cov)
    deviations = n.Sqrt(n.Diagonal(cov))
    return n.Clamp1(n.Div(n.Div(cov, n.View(deviations)), n.View(deviations)))


@composite(
    functions=("cov",),
    methods=("cov",),
    samples=_cov_samples,
    supports=NUMERIC,
    grad_nodes=lambda n, x, *how: _cov_nodes(n, x, how[1:]),
)
def cov(
    input: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """y[i, j] = the covariance of rows i and j over the observations, given by columns.

    correction: subtracted from the number of observations   fweights: how often each was made
    aweights: weight of each observation. Raises ShapeError for more than two dims, or other
    weights; when the value is computed, ValuesRefused for a negative weight.
    """
    rank = len(input.shape)
    if rank > 2:
        raise ShapeError(f"cov: expected input to have two or fewer dimensions, got {rank}")
    x = input if rank == 2 else ops.reshape(input, (1, -1))
    if x.dtype.category < FLOAT:
        x = ops.cast(x, get_default_dtype())
    weights = _weights(x, fweights, aweights)
    # The sum of weights is taken in their own type.
    total: Any = x.shape[1] if weights is None else ops.sum(weights)
    if weights is not None:
        wide = promoted(x, weights)
        x, weights = (t if t.dtype is wide else ops.cast(t, wide) for t in (x, weights))
    if weights is None:
        centred = x - ops.sum(x, 1, True) / total
        scaled = centred
    else:
        centred = x - ops.sum(x * weights, 1, True) / total
        scaled = centred * weights
    if aweights is not None and correction:
        used = aweights if fweights is None else aweights * fweights
        squares = ops.sum(used * aweights)
        freedom = total - correction * squares / total
    else:
        freedom = total - correction
    if rank < 2 or x.shape[0] == 1:
        scaled, centred = scaled[0], centred[0]
        return ops.sum(scaled * conj(centred)) / _at_least_zero(freedom, x.dtype.to_real())
    across = turned(centred)
    return ops.matmul(scaled, across) / _at_least_zero(freedom, x.dtype.to_real())


def _at_least_zero(freedom: Tensor, dtype: DType) -> Tensor:
    """Degrees of freedom, 0 (so that the result is infinite or NaN) where negative."""
    if not hasattr(freedom, "shape"):
        freedom = ops.full((), freedom, dtype=dtype)
    return ops.clamp(freedom, min=0)


def _not_negative(name: str, weights: Tensor) -> Tensor:
    """The weights; ValuesRefused once they are computed, if any of them is below 0."""
    values = ops.cast(weights, float64) if weights.dtype.category < FLOAT else weights
    fault = f"cov: {name} cannot be negative"
    return ops.cast(ops.within(values, 0.0, math.inf, True, fault), weights.dtype)


def _weights(x: Tensor, fweights: Tensor | None, aweights: Tensor | None) -> Tensor | None:
    product = None
    for name, weights in (("fweights", fweights), ("aweights", aweights)):
        if weights is None:
            continue
        if len(weights.shape) != 1 or weights.shape[0] != x.shape[1]:
            raise ShapeError(
                f"cov: expected {name} of one entry per observation ({hints(x.shape[1:])}), got "
                f"{hints(weights.shape)}"
            )
        if name == "fweights" and weights.dtype.category >= FLOAT:
            raise DTypeError("cov: expected fweights to have integral dtype")
        weights = _not_negative(name, weights)
        product = weights if product is None else product * weights
    return product


@composite(
    functions=("corrcoef",),
    methods=("corrcoef",),
    samples=lambda rng: iter([Sample(rng.normal(size=(3, 5))), Sample(rng.normal(size=(6,)))]),
    supports=NUMERIC,
    grad_nodes=_corrcoef_nodes,
)
def corrcoef(input: Tensor) -> Tensor:
    """y[i, j] = the correlation of rows i and j over the observations, given by columns."""
    if len(input.shape) > 2:
        raise ShapeError(
            f"corrcoef: expected input to have two or fewer dimensions, got {len(input.shape)}"
        )
    covariance = ops.cov(input)
    if len(covariance.shape) == 0:
        return covariance / covariance
    spread = ops.sqrt(ops.diagonal(covariance))
    scaled = covariance / ops.unsqueeze(spread, 1) / spread
    if scaled.dtype.is_complex:
        parts = (ops.clamp(ops.real(scaled), -1, 1), ops.clamp(ops.imag(scaled), -1, 1))
        return ops.complex(*parts)
    return ops.clamp(scaled, min=-1, max=1)


@sugar(name="linalg_vander")
def linalg_vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """y[..., i, j] = x[..., i] ** j for j in 0 ... N - 1. A 0-d x counts as 1-d."""
    if not len(x.shape):
        x = ops.unsqueeze(x, 0)
    columns = x.shape[-1] if N is None else N
    if columns < 1:
        raise ShapeError(f"linalg.vander: N must be greater than 0, and is {columns}")
    rows = ops.expand(ops.unsqueeze(x, -1), (*x.shape, columns - 1))
    ones = full_beside(x, (*x.shape, 1), 1)
    return ops.cat([ones, ops.cumprod(rows, -1)], -1)


@sugar(name="linalg_diagonal")
def linalg_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """A view of the diagonals of the matrices in the dims dim1 and dim2."""
    return ops.diagonal(A, offset, dim1, dim2)
