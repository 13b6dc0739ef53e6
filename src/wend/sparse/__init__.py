# ruff: noqa: F403
"""torch.sparse: tensors of which only the elements that are not 0 are kept."""

from typing import TYPE_CHECKING

from wend._engine.base.tracebacks import short_errors
from wend._engine.core._hot import Tensor
from wend.sparse import legacy as legacy
from wend.sparse import methods as methods
from wend.sparse import table as table  # ops on sparse tensors
from wend.sparse.creation import spdiags
from wend.sparse.gradients import as_sparse_gradcheck, check_sparse_tensor_invariants
from wend.sparse.legacy import *
from wend.sparse.products import addmm as _addmm
from wend.sparse.products import mm as _mm
from wend.sparse.products import reduced, sampled_addmm, spsolve
from wend.sparse.reductions import log_softmax, softmax, sum
from wend.sparse.tensor import SparseTensor

if TYPE_CHECKING:  # modules that are names of the package too
    from wend.sparse import creation as creation
    from wend.sparse import elementwise as elementwise
    from wend.sparse import families as families
    from wend.sparse import gradients as gradients
    from wend.sparse import layouts as layouts
    from wend.sparse import products as products
    from wend.sparse import reductions as reductions
    from wend.sparse import shapes as shapes
    from wend.sparse import tensor as tensor

__all__ = [
    "addmm",
    "as_sparse_gradcheck",
    "check_sparse_tensor_invariants",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "spdiags",
    "spsolve",
    "sum",
]
__all__ += legacy.__all__


def mm(mat1: Tensor, mat2: Tensor, reduce: str = "sum") -> Tensor:
    """mat1 @ mat2: dense unless both are sparse. Gradients of sparse factors are sparse.

    reduce: instead of adding up the products of a row's elements, "mean", "amax" or "amin"
    """
    if reduce != "sum":
        return reduced(mat1, mat2, reduce)
    if not isinstance(mat1, SparseTensor) and not isinstance(mat2, SparseTensor):
        return mat1.mm(mat2)
    return _mm(mat1, mat2)


def addmm(
    mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0
) -> Tensor:
    """beta * mat + alpha * (mat1 @ mat2), of which mat1 or mat2 may be sparse."""
    if not any(isinstance(x, SparseTensor) for x in (mat, mat1, mat2)):
        return mat.addmm(mat1, mat2, beta=beta, alpha=alpha)
    return _addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


@short_errors
def spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """`mm`, under the names that `torch` itself has."""
    return mm(input, mat2)


dsmm = hsmm = spmm
