"""Products with sparse matrices. A sparse and a dense factor take the op `sparse_product`."""

from __future__ import annotations

from typing import Any

from wend._engine.base.errors import GraphError, ShapeError
from wend._engine.base.tracebacks import short_errors
from wend._engine.core._hot import Tensor
from wend._engine.core.kinds import Scalar
from wend._engine.core.primitive import ops
from wend._frontend.creation import held
from wend._frontend.interop import places as arrays
from wend.sparse.elementwise import added
from wend.sparse.layouts import Coordinates
from wend.sparse.tensor import SparseTensor, coo, merged, wrap

__all__ = ["hspmm", "mm", "reduced", "saddmm", "sampled_addmm", "smm", "spsolve", "sspaddmm"]


def _check(name: str, x: Any, y: Any, ranks: tuple[int, int]) -> None:
    for operand, rank in zip((x, y), ranks):
        if not isinstance(operand, Tensor):
            raise GraphError(f"{name}: a tensor is needed, not a {type(operand).__name__}")
        if operand.dim() != rank:
            raise ShapeError(f"{name}: {rank} dims are needed, and an operand has {operand.dim()}")
        if isinstance(operand, SparseTensor) and operand.dense_dim():
            raise ShapeError(f"{name}: a sparse operand has dense dims, which no product takes")
    if x.shape[-1] != y.shape[0 if ranks[1] == 1 else -2]:
        raise ShapeError(
            f"{name}: shapes {tuple(x.shape)} and {tuple(y.shape)} cannot be multiplied"
        )


def _by_dense(x: SparseTensor, y: Tensor) -> Tensor:
    """sparse (n, m) times dense (m, k)."""
    places = x.places
    product: Tensor = ops.sparse_product(
        places.row(0), places.row(1), x.elements, y, int(x.shape[0])
    )
    return product


def _of_dense(x: Tensor, y: SparseTensor) -> Tensor:
    """dense (n, m) times sparse (m, k): the transposed product of transposed factors."""
    places = y.places
    product: Tensor = ops.sparse_product(
        places.row(1), places.row(0), y.elements, x.t(), int(y.shape[1])
    )
    return product.t()


def _both_sparse(x: SparseTensor, y: SparseTensor) -> SparseTensor:
    """A sum over all pairs of elements that share the inner index."""
    i, j = arrays.matches(x.places.array[1], y.places.array[0])
    left = ops.index_select(x.elements, 0, held(i))
    right = ops.index_select(y.elements, 0, held(j))
    array = arrays.stacked([x.places.array[0][i], y.places.array[1][j]], i.size)
    return merged(coo(array, ops.mul(left, right), (int(x.shape[0]), int(y.shape[1]))))


def mm(input: Any, mat2: Tensor) -> Tensor:
    """input @ mat2, of matrices: dense unless both are sparse."""
    _check("mm", input, mat2, (2, 2))
    if not isinstance(mat2, SparseTensor):
        return _by_dense(input, mat2)
    if not isinstance(input, SparseTensor):
        return _of_dense(input, mat2)
    product = _both_sparse(input, mat2)
    return product if input.is_sparse else product.to_sparse(layout=input.layout)


def reduced(input: Tensor, mat2: Tensor, how: str) -> Tensor:
    """The mean or an extreme of the products that `mm` adds up; 0 for rows without elements."""
    _check("sparse.mm", input, mat2, (2, 2))
    if how not in ("mean", "amax", "amin"):
        raise GraphError(f"sparse.mm: reduce must be sum, mean, amax or amin, not {how!r}")
    if not isinstance(input, SparseTensor) or isinstance(mat2, SparseTensor):
        raise GraphError("sparse.mm: with reduce, the first factor is sparse, and the second dense")
    places = input.places
    products = ops.mul(input.elements.unsqueeze(1), ops.embedding(mat2, places.row(1)))
    zeros = ops.full((int(input.shape[0]), int(mat2.shape[1])), 0, dtype=products.dtype)
    reduction: Tensor = zeros.index_reduce(0, places.row(0), products, how, include_self=False)
    return reduction


def mv(input: Tensor, vec: Tensor) -> Tensor:
    """input @ vec, of a matrix and a vector."""
    _check("mv", input, vec, (2, 1))
    if isinstance(vec, SparseTensor):
        vec = vec.to_dense()
    return mm(input, vec.unsqueeze(1)).squeeze(1)


def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Products of the matrices of two batches; the first batch is sparse."""
    _check("bmm", input, mat2, (3, 3))
    if not isinstance(input, SparseTensor) or isinstance(mat2, SparseTensor):
        raise GraphError("bmm: the first operand must be sparse, and the second dense")
    batch, n, m = (int(extent) for extent in input.shape)
    if int(mat2.shape[0]) != batch:
        raise ShapeError(f"bmm: batches of {batch} and {int(mat2.shape[0])} do not fit")
    number, rows, columns = input.places.array
    product = ops.sparse_product(
        held(number * n + rows),
        held(number * m + columns),
        input.elements,
        mat2.reshape(batch * m, int(mat2.shape[2])),
        batch * n,
    )
    return product.reshape(batch, n, int(mat2.shape[2]))


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """input @ other: of matrices, of a matrix and a vector, of batches."""
    ranks = (input.dim(), other.dim())
    if ranks == (2, 2):
        return mm(input, other)
    if ranks == (2, 1):
        return mv(input, other)
    if ranks == (1, 2):
        return mm(input.unsqueeze(0), other).squeeze(0)
    if ranks == (3, 3):
        return bmm(input, other)
    if ranks == (2, 3) and not isinstance(other, SparseTensor):  # a matrix for each example
        batch, m, k = (int(extent) for extent in other.shape)
        wide = mm(input, other.permute(1, 0, 2).reshape(m, batch * k))
        return wide.reshape(int(input.shape[0]), batch, k).permute(1, 0, 2)
    if ranks[0] > 2 and ranks[1] == 2 and not isinstance(input, SparseTensor):
        return mm(input.flatten(0, -2), other).unflatten(0, tuple(input.shape)[:-1])
    raise ShapeError(f"matmul: operands of {ranks[0]} and {ranks[1]} dims, some of them sparse")


def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1
) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2)."""
    product = mm(mat1, mat2)
    if isinstance(product, SparseTensor):
        scaled = product.with_values(product._values_ * alpha)
        if isinstance(input, SparseTensor):
            total = added(merged(input.with_values(input._values_ * beta)), merged(scaled))
            return total if input.is_sparse else total.to_sparse(layout=input.layout)
        product = product.to_dense()
    if isinstance(input, SparseTensor):
        input = input.to_dense()
    scaled = product if alpha == 1 else product * alpha
    if beta == 0:
        return scaled
    return ops.add(input if beta == 1 else input * beta, scaled)


def addmv(
    input: Tensor, mat: Tensor, vec: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1
) -> Tensor:
    """beta * input + alpha * (mat @ vec)."""
    product = mv(mat, vec) * alpha
    return product if beta == 0 else input * beta + product


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias."""
    product = matmul(input, weight.t())
    return product if bias is None else product + bias


def _written(name: str, result: SparseTensor, out: SparseTensor | None) -> SparseTensor:
    """A result, written to `out=` where the call gives a tensor for the result."""
    return result if out is None else out.become(name, result)


def _rows(x: SparseTensor, dense: Tensor) -> tuple[Any, Tensor]:
    """(the rows of x that have elements, these rows of the product with a dense matrix)."""
    array, _, _ = arrays.merged(x.places.array[:1], x.places.size[:1])
    return array, ops.index_select(_by_dense(x, dense), 0, held(array[0]))


@short_errors
def hspmm(mat1: SparseTensor, mat2: Tensor, *, out: SparseTensor | None = None) -> SparseTensor:
    """mat1 @ mat2 of a sparse and a dense matrix, with the rows that have elements."""
    _check("hspmm", mat1, mat2, (2, 2))
    array, values = _rows(mat1, mat2)
    return _written("hspmm", coo(array, values, (int(mat1.shape[0]),), True), out)


@short_errors
def smm(input: SparseTensor, mat2: Tensor) -> SparseTensor:
    """input @ mat2 of a sparse and a dense matrix, as a sparse matrix."""
    _check("smm", input, mat2, (2, 2))
    array, values = _rows(input, mat2)
    size = (int(input.shape[0]), int(mat2.shape[1]))
    spots = arrays.block_places(array[0], array[0] * 0, (1, size[1]))
    return coo(spots, values.reshape(-1), size, True)


@short_errors
def sspaddmm(
    input: SparseTensor,
    mat1: SparseTensor,
    mat2: Tensor,
    *,
    beta: Scalar = 1,
    alpha: Scalar = 1,
    out: SparseTensor | None = None,
) -> SparseTensor:
    """beta * input + alpha * (mat1 @ mat2), of a sparse matrix and a product as by `smm`."""
    product = smm(mat1, mat2)
    places = Coordinates(product.places.size, product.places.array)  # behind the input's elements
    scaled = wrap(places, product._values_ * alpha)
    total = added(input if beta == 1 else input.with_values(input._values_ * beta), scaled)
    return _written("sspaddmm", total, out)


saddmm = sspaddmm


def sampled_addmm(
    input: SparseTensor,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: Scalar = 1.0,
    alpha: Scalar = 1.0,
    out: SparseTensor | None = None,
) -> SparseTensor:
    """beta * input + alpha * (mat1 @ mat2) at the places of `input`; only these are computed."""
    _check("sampled_addmm", mat1, mat2, (2, 2))
    places = input.places
    left = ops.embedding(mat1, places.row(0))
    right = ops.embedding(mat2.t(), places.row(1))
    product = (left * right).sum(-1).reshape(input._values_.shape) * alpha
    total = input.with_values(product if beta == 0 else product + input._values_ * beta)
    return _written("sampled_addmm", total, out)


def spsolve(input: SparseTensor, other: Tensor, *, left: bool = True) -> Tensor:
    """x with input @ x == other, by a dense factorisation."""
    matrix = input.to_dense() if left else input.to_dense().t()
    solution: Tensor = (
        ops.solve(matrix, other) if hasattr(ops, "solve") else matrix.inverse() @ other
    )
    return solution
