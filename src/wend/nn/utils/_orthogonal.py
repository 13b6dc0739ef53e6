"""Orthogonal matrices by free parameters: exponentials, Cayley's map, and reflections."""

from __future__ import annotations

from typing import Any

from wend._engine.base.dtypes import finfo
from wend._engine.ops.placing import full_beside
from wend._frontend.linalg import householder_product, matrix_exp, solve
from wend._frontend.random import randn
from wend._frontend.toolkit import NotImplementedInWend, Tensor, eye, no_grad, ops, zeros_like
from wend.nn.modules.module import Module

MAPS = ("matrix_exp", "cayley", "householder")


def orthogonalised(matrix: Tensor) -> Tensor:
    """Q of a QR decomposition with a positive diagonal of R: near what is nearly orthogonal."""
    packed, tau = ops.geqrf(matrix)
    signs = ops.sign(ops.diagonal(packed, 0, -2, -1))
    return householder_product(packed, tau) * ops.unsqueeze(signs, -2)  # type: ignore[no-any-return]


def is_orthogonal(matrix: Tensor) -> bool:
    """Whether the columns are orthonormal, up to rounding of as many sums."""
    n, k = matrix.shape[-2:]
    apart = ops.matmul(matrix.mT, matrix) - eye(k, dtype=matrix.dtype, device=matrix.device)
    bound = 10 * n * finfo(matrix.dtype).eps
    return bool(ops.all(ops.abs(apart) < bound))


class Orthogonal(Module):
    """A weight with orthonormal columns (or rows, if there are more columns than rows).

    matrix_exp: exp(A), A skew-symmetric   cayley: (I - A/2)^-1 (I + A/2)
    householder: a product of reflections. With `use_trivialization` the result is taken from the
    buffer `base`, the matrix last assigned (Lezcano-Casado, 2019).
    """

    base: Any

    def __init__(self, weight: Tensor, map_name: str, use_trivialization: bool = True) -> None:
        super().__init__()
        self.shape = weight.shape
        self.orthogonal_map = map_name
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        wide = X.shape[-2] < X.shape[-1]
        x = X.mT if wide else X
        q = self._reflected(x) if self.orthogonal_map == "householder" else self._turned(x)
        if hasattr(self, "base"):
            q = ops.matmul(self.base, q)
        return q.mT if wide else q

    def _turned(self, x: Tensor) -> Tensor:
        """The first k columns of the map of a skew-symmetric matrix."""
        n, k = x.shape[-2:]
        x = ops.tril(x)
        if n != k:
            beside = full_beside(x, (*x.shape[:-1], n - k), 0)
            x = ops.cat([x, beside], -1)
        skew = x - x.mT
        if self.orthogonal_map == "matrix_exp":
            q = matrix_exp(skew)
        else:
            one = eye(n, dtype=x.dtype, device=x.device)
            q = solve(one - 0.5 * skew, one + 0.5 * skew)
        return q[..., :k]  # type: ignore[no-any-return]

    def _reflected(self, x: Tensor) -> Tensor:
        """The product of reflections by the columns below the diagonal; the diagonal has signs."""
        vectors = ops.tril(x, -1)
        tau = 2.0 / (1.0 + ops.sum(vectors * vectors, -2))
        signs = ops.trunc(ops.diagonal(x, 0, -2, -1)).detach()
        return householder_product(vectors, tau) * ops.unsqueeze(signs, -2)  # type: ignore[no-any-return]

    def right_inverse(self, Q: Tensor) -> Tensor:
        """Parameters of a matrix; with `use_trivialization` the matrix becomes the base."""
        with no_grad():
            return self._parameters_of(Q)

    def _parameters_of(self, matrix: Tensor) -> Tensor:
        if matrix.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of "
                f"shape {matrix.shape}."
            )
        wide = matrix.shape[-2] < matrix.shape[-1]
        tall = matrix.mT if wide else matrix
        n, k = tall.shape[-2:]
        if not hasattr(self, "base"):
            if self.orthogonal_map != "householder":
                raise NotImplementedInWend(
                    "It is not possible to assign to the matrix exponential or the Cayley "
                    "parametrizations when use_trivialization=False."
                )
            packed, tau = ops.geqrf(tall)
            signs = ops.sign(ops.diagonal(packed, 0, -2, -1))
            signs = ops.where(ops.eq(tau, 0), -signs, signs)  # a reflection that was left out
            reflections = ops.diagonal_scatter(packed, signs, 0, -2, -1)
            return reflections.mT if wide else reflections
        if n != k:
            beside = randn(*tall.shape[:-2], n, n - k, dtype=tall.dtype, device=tall.device)
            self.base = orthogonalised(ops.cat([tall, beside], -1))
        else:
            self.base = ops.clone(tall) if is_orthogonal(tall) else orthogonalised(tall)
        # Reflections by nothing, with signs of -1, are the identity; so are the other maps of it.
        start = zeros_like(matrix)
        k = min(matrix.shape[-2:])
        signs = full_beside(matrix, (*matrix.shape[:-2], k), -1)
        return ops.diagonal_scatter(start, signs, 0, -2, -1)  # type: ignore[no-any-return]
