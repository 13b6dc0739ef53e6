"""Parameters as a vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from wend._frontend.toolkit import Tensor, ops

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements of all parameters, in order."""
    return ops.cat([parameter.reshape(-1) for parameter in parameters], 0)


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Give parameters the values of a vector, in order."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    place = 0
    for parameter in parameters:
        size = parameter.numel()
        parameter.data = vec[place : place + size].reshape(parameter.shape).detach()
        place += size
