"""Types of the named tuples that functions of linear algebra return, for type checkers.

The tuples themselves are made by `entries.results`, and print as PyTorch's do.
"""

from __future__ import annotations

from typing import NamedTuple

from wend._engine.core._hot import Tensor


class CholeskyInfo(NamedTuple):
    """The result of `cholesky_ex`."""

    L: Tensor
    info: Tensor


class LuFactors(NamedTuple):
    """The result of `lu_factor`."""

    LU: Tensor
    pivots: Tensor


class LuFactorsInfo(NamedTuple):
    """The result of `lu_factor_ex`."""

    LU: Tensor
    pivots: Tensor
    info: Tensor


class LuParts(NamedTuple):
    """The result of `lu` and `lu_unpack`."""

    P: Tensor
    L: Tensor
    U: Tensor


class LdlFactors(NamedTuple):
    """The result of `ldl_factor`."""

    LD: Tensor
    pivots: Tensor


class LdlFactorsInfo(NamedTuple):
    """The result of `ldl_factor_ex`."""

    LD: Tensor
    pivots: Tensor
    info: Tensor


class QrParts(NamedTuple):
    """The result of `qr`."""

    Q: Tensor
    R: Tensor


class Eigensystem(NamedTuple):
    """The result of `eig` and `eigh`."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class SvdParts(NamedTuple):
    """The result of `linalg.svd`."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class FormerSvdParts(NamedTuple):
    """The result of `torch.svd`."""

    U: Tensor
    S: Tensor
    V: Tensor


class SignAndLog(NamedTuple):
    """The result of `slogdet`."""

    sign: Tensor
    logabsdet: Tensor


class InverseInfo(NamedTuple):
    """The result of `inv_ex`."""

    inverse: Tensor
    info: Tensor


class SolveInfo(NamedTuple):
    """The result of `solve_ex`."""

    result: Tensor
    info: Tensor


class TriangularSolution(NamedTuple):
    """The result of `triangular_solve`."""

    solution: Tensor
    cloned_coefficient: Tensor


class LeastSquares(NamedTuple):
    """The result of `linalg.lstsq`."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor
