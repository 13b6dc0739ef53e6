"""Weight norm, spectral norm and orthogonal weights as parametrizations."""

from __future__ import annotations

from typing import Any

from wend._frontend.toolkit import Tensor, no_grad, ops
from wend.nn.modules.module import Module
from wend.nn.utils._orthogonal import MAPS, Orthogonal
from wend.nn.utils._renormalized import (
    except_dim,
    normalized_vector,
    power_iterations,
    spectral_dim,
    weight_from,
)
from wend.nn.utils.parametrize import register_parametrization

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


class _WeightNorm(Module):
    """weight = g v / |v|; the norm is over all dims but `dim`."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_from(weight_g, weight_v, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Length and direction of a weight."""
        return except_dim(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Module:
    """Learn length and direction of a weight apart (Salimans and Kingma, 2016).

    The module also loads state dicts of `nn.utils.weight_norm`, the older form.
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    module._register_load_state_dict_pre_hook(_OlderKeys(name))
    return module


class _OlderKeys:
    """Renames length and direction in state dicts of the older form, as they are loaded.

    A class, so that modules can be pickled.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, state_dict: dict[str, Any], prefix: str, *_: object) -> None:
        for older, place in (("g", 0), ("v", 1)):
            key = f"{prefix}{self.name}_{older}"
            if key in state_dict:
                new = f"{prefix}parametrizations.{self.name}.original{place}"
                state_dict[new] = state_dict.pop(key)


class _SpectralNorm(Module):
    """weight / the largest singular value of weight, estimated by power iteration."""

    _u: Any
    _v: Any

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        rank = weight.ndim
        if not -rank <= dim < rank:
            raise IndexError(
                "Dimension out of range (expected to be in range of "
                f"[-{rank}, {rank - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, "
                f"but got n_power_iterations={n_power_iterations}"
            )
        self.dim = dim if dim >= 0 else dim + rank
        self.eps = eps
        if rank > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._matrix(weight).detach()
            height, width = matrix.shape
            self.register_buffer("_u", normalized_vector(matrix, height, eps))
            self.register_buffer("_v", normalized_vector(matrix, width, eps))
            self._u, self._v = power_iterations(matrix, self._u, self._v, 15, eps)

    def _matrix(self, weight: Tensor) -> Tensor:
        """The weight with `dim` as rows."""
        if self.dim != 0:
            order = [self.dim, *(d for d in range(weight.dim()) if d != self.dim)]
            weight = weight.permute(*order)
        return weight.flatten(1)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return weight / ops.norm(weight, 2).clamp(min=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            with no_grad():
                u, v = power_iterations(matrix, self._u, self._v, self.n_power_iterations, self.eps)
                self._u.copy_(u)
                self._v.copy_(v)
        sigma = self._u.clone().dot(matrix @ self._v.clone())
        return weight / sigma

    def right_inverse(self, value: Tensor) -> Tensor:
        """A weight of this value: any norm will do."""
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value (Miyato et al., 2018)."""
    weight: Tensor = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        dim = spectral_dim(module)
    parametrization = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return register_parametrization(module, name, parametrization)


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keep a weight orthogonal: its columns are orthonormal, or its rows if these are fewer.

    orthogonal_map: 'matrix_exp' (by default for square matrices), 'cayley', or 'householder'
    use_trivialization: assigning to the weight moves the base point of the map
    Raises ValueError for a missing weight, fewer than two dims, and an unknown map.
    """
    weight: Tensor = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions."
        )
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square else "householder"
    if orthogonal_map not in MAPS:
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
            f"Got: {orthogonal_map}"
        )
    parametrization = Orthogonal(weight, orthogonal_map, use_trivialization)
    return register_parametrization(module, name, parametrization, unsafe=True)
