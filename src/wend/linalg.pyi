# Made by `python -m wend._tools.stubs`; do not edit.
# mypy: disable-error-code="overload-overlap,overload-cannot-match,misc,override"

import builtins as _builtins
from collections.abc import Callable, Iterator, Sequence
from types import EllipsisType, ModuleType
from typing import Any, Literal, NamedTuple, ParamSpec, Protocol, SupportsIndex, TypeAlias, TypeVar
from typing import overload

from wend._engine.base.errors import LinAlgError as LinAlgError
from wend._frontend.linalg import cholesky as cholesky
from wend._frontend.linalg import cholesky_ex as cholesky_ex
from wend._frontend.linalg import cond as cond
from wend._frontend.linalg import det as det
from wend._frontend.linalg import eig as eig
from wend._frontend.linalg import eigh as eigh
from wend._frontend.linalg import eigvals as eigvals
from wend._frontend.linalg import eigvalsh as eigvalsh
from wend._frontend.linalg import householder_product as householder_product
from wend._frontend.linalg import inv as inv
from wend._frontend.linalg import inv_ex as inv_ex
from wend._frontend.linalg import ldl_factor as ldl_factor
from wend._frontend.linalg import ldl_factor_ex as ldl_factor_ex
from wend._frontend.linalg import ldl_solve as ldl_solve
from wend._frontend.linalg import lstsq as lstsq
from wend._frontend.linalg import lu as lu
from wend._frontend.linalg import lu_factor as lu_factor
from wend._frontend.linalg import lu_factor_ex as lu_factor_ex
from wend._frontend.linalg import lu_solve as lu_solve
from wend._frontend.linalg import matrix_exp as matrix_exp
from wend._frontend.linalg import matrix_power as matrix_power
from wend._frontend.linalg import matrix_rank as matrix_rank
from wend._frontend.linalg import norm as norm
from wend._frontend.linalg import pinv as pinv
from wend._frontend.linalg import qr as qr
from wend._frontend.linalg import slogdet as slogdet
from wend._frontend.linalg import solve as solve
from wend._frontend.linalg import solve_ex as solve_ex
from wend._frontend.linalg import solve_triangular as solve_triangular
from wend._frontend.linalg import svd as svd
from wend._frontend.linalg import svdvals as svdvals
from wend._frontend.linalg import tensorinv as tensorinv
from wend._frontend.linalg import tensorsolve as tensorsolve
from wend._engine.base.devices import device as _device
from wend._engine.base.dtypes import DType
from wend._engine.core._hot import Tensor as Tensor

_bool: TypeAlias = _builtins.bool
_int: TypeAlias = _builtins.int
_float: TypeAlias = _builtins.float
_complex: TypeAlias = _builtins.complex
_str: TypeAlias = _builtins.str
_bytes: TypeAlias = _builtins.bytes
_dtype: TypeAlias = DType
_Number: TypeAlias = _builtins.bool | _builtins.int | _builtins.float | _builtins.complex

import numpy as _numpy
from wend._frontend.autograd.nodes import Node as _Node
from wend._frontend.linalg.named_results import CholeskyInfo as _CholeskyInfo
from wend._frontend.linalg.named_results import LuFactors as _LuFactors
from wend._frontend.linalg.named_results import LuFactorsInfo as _LuFactorsInfo
from wend._frontend.linalg.named_results import LuParts as _LuParts
from wend._frontend.linalg.named_results import LdlFactors as _LdlFactors
from wend._frontend.linalg.named_results import LdlFactorsInfo as _LdlFactorsInfo
from wend._frontend.linalg.named_results import QrParts as _QrParts
from wend._frontend.linalg.named_results import Eigensystem as _Eigensystem
from wend._frontend.linalg.named_results import SvdParts as _SvdParts
from wend._frontend.linalg.named_results import FormerSvdParts as _FormerSvdParts
from wend._frontend.linalg.named_results import SignAndLog as _SignAndLog
from wend._frontend.linalg.named_results import InverseInfo as _InverseInfo
from wend._frontend.linalg.named_results import SolveInfo as _SolveInfo
from wend._frontend.linalg.named_results import TriangularSolution as _TriangularSolution
from wend._frontend.linalg.named_results import LeastSquares as _LeastSquares
from wend._frontend.formats import layout as _layout, memory_format as _memory_format
from wend._frontend.random import Generator as _Generator
from wend._frontend.removable import RemovableHandle as _RemovableHandle
from wend._frontend.storage import TypedStorage as _TypedStorage
from wend._frontend.storage import UntypedStorage as _UntypedStorage

_Array: TypeAlias = _numpy.ndarray[Any, Any]
_Index: TypeAlias = (
    None | SupportsIndex | slice | EllipsisType | Tensor | _builtins.list[Any] | range
)

def cross(input: Tensor, other: Tensor, *, dim: _int = -1, out: Tensor | None = None) -> Tensor:
    """y = input x other for vectors of 3 along `dim`; all dims but `dim` broadcast."""
def diagonal(A: Tensor, *, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> Tensor:
    """A view of the diagonals of the matrices in the dims dim1 and dim2."""
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """y = x @ w over the last two dims; the dims before broadcast; a 1-D operand is a vector."""
def matrix_norm(input: Tensor, ord: _int | _float | _str | None = 'fro', dim: Sequence[_int] | _int = ..., keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """The norm of the matrices in the two dims: 'fro', 'nuc', or 1, -1, 2, -2, inf, -inf."""
@overload
def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """y = the product of two or more matrices, in the order that multiplies least."""
@overload
def multi_dot(*tensors: Tensor, out: Tensor | None = None) -> Tensor:
    """y = the product of two or more matrices, in the order that multiplies least."""
def vander(x: Tensor, *, N: _int | None = None) -> Tensor:
    """y[..., i, j] = x[..., i] ** j for j in 0 ... N - 1. A 0-d x counts as 1-d."""
def vecdot(x: Tensor, y: Tensor, *, dim: _int = -1, out: Tensor | None = None) -> Tensor:
    """The sum of x * y along `dim`, after broadcasting; x conjugated where complex."""
def vector_norm(input: Tensor, ord: _int | _float | _str | None = 2, dim: Sequence[_int] | _int | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """y = (sum of |x|**ord over `dim`) ** (1/ord); max, min for +-inf; how many are not 0 for 0."""
