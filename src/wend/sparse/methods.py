"""Methods of all tensors that make sparse tensors, and those that ask a dense tensor for parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wend._engine.base.errors import GraphError
from wend._engine.core._hot import Tensor
from wend._frontend.formats import layout as Layout
from wend._frontend.formats import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from wend.sparse.creation import convert, sparse_mask
from wend.sparse.products import smm, sspaddmm
from wend.sparse.tensor import SparseTensor, to_coordinates

__all__ = ["call"]


def to_sparse(
    self: Tensor,
    sparse_dim: int | None = None,
    *,
    layout: Layout | None = None,
    blocksize: Sequence[int] | None = None,
    dense_dim: int | None = None,
) -> Tensor:
    """The elements that are not 0, as a sparse tensor.

    sparse_dim: how many dims have indices; further dims are dims of values
    layout: torch.sparse_coo by default
    """
    if dense_dim:
        if layout not in (None, sparse_coo):
            raise GraphError("to_sparse: compressed layouts have no dense dims in Wend")
        sparse_dim = self.dim() - dense_dim
    return convert(self, layout, blocksize, sparse_dim)


def to_sparse_coo(self: Tensor) -> SparseTensor:
    """The tensor as coordinates and values."""
    return to_coordinates(self)


def to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """The matrix row by row."""
    return to_sparse(self, layout=sparse_csr, dense_dim=dense_dim)


def to_sparse_csc(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """The matrix column by column."""
    return to_sparse(self, layout=sparse_csc, dense_dim=dense_dim)


def to_sparse_bsr(self: Tensor, blocksize: Sequence[int], dense_dim: int | None = None) -> Tensor:
    """The matrix in blocks, row by row."""
    return to_sparse(self, layout=sparse_bsr, blocksize=blocksize, dense_dim=dense_dim)


def to_sparse_bsc(self: Tensor, blocksize: Sequence[int], dense_dim: int | None = None) -> Tensor:
    """The matrix in blocks, column by column."""
    return to_sparse(self, layout=sparse_bsc, blocksize=blocksize, dense_dim=dense_dim)


def sparse_dim(self: Tensor) -> int:
    """Number of dims that have indices: none."""
    return 0


def dense_dim(self: Tensor) -> int:
    """Number of dims of the values: all."""
    return int(self.dim())


METHODS: dict[str, Any] = {
    function.__name__: function
    for function in (
        to_sparse, to_sparse_coo, to_sparse_csr, to_sparse_csc, to_sparse_bsr, to_sparse_bsc,
        sparse_dim, dense_dim, smm, sspaddmm, sparse_mask,
    )
}  # fmt: skip


def call(name: str, *args: object, **kwargs: object) -> Any:
    """The method of that name, of a dense tensor. Raises GraphError for parts of sparse tensors."""
    if name not in METHODS:
        raise GraphError(f"{name} expected sparse tensor layout but got Strided")
    return METHODS[name](*args, **kwargs)
