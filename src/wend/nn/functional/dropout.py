"""Dropout: elements or whole channels made zero at random, in training."""

from __future__ import annotations

import math
import warnings

from wend._engine.base.errors import ShapeError, ValueRefused
from wend._engine.base.tracebacks import short_errors
from wend._engine.ops.placing import full_beside
from wend._frontend.toolkit import Tensor, empty_like, ops

__all__ = [
    "alpha_dropout",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "feature_alpha_dropout",
]

_dropout = ops.dropout


def _checked(p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueRefused(f"dropout: probability has to be between 0 and 1, but got {p}")


@short_errors
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """y = x mask / (1 - p), each element of the mask 0 with probability p; y = x in evaluation."""
    _checked(p)
    if not training or p == 0.0:
        return input
    result = _dropout(input, p, True)
    return input.copy_(result) if inplace else result


def _channels(input: Tensor, p: float, batch_dims: int, inplace: bool) -> Tensor:
    """Drop whole channels: only the first `batch_dims + 1` dims have separate masks."""
    shape = tuple(input.shape)
    rank = len(shape)
    kept = batch_dims + 1
    ones = full_beside(input, shape[:kept] + (1,) * (rank - kept), 1.0)
    result = input * _dropout(ones, p, True)
    return input.copy_(result) if inplace else result


def _feature_dropout(
    name: str, input: Tensor, p: float, training: bool, inplace: bool, spatial: int
) -> Tensor:
    _checked(p)
    rank = input.dim()
    batched = rank != spatial + 1
    if rank not in (spatial + 1, spatial + 2):
        warnings.warn(
            f"{name}: Received a {rank}-D input to {name}, which is deprecated and will result "
            "in an error in a future release. To retain the behavior and silence this warning, "
            f"please use dropout instead. Note that {name} exists to provide channel-wise "
            f"dropout on inputs with {spatial} spatial dimensions, a channel dimension, and an "
            "optional batch dimension.",
            stacklevel=3,
        )
    if not training or p == 0.0:
        return input
    return _channels(input, p, 1 if batched and rank > 1 else 0, inplace)


@short_errors
def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Drop whole channels of (N, C, L) or (C, L)."""
    if input.dim() not in (2, 3):
        raise ShapeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input. Note that "
            "dropout1d exists to provide channel-wise dropout on inputs with 1 spatial dimension, "
            "a channel dimension, and an optional batch dimension (i.e. 2D or 3D inputs)."
        )
    return _feature_dropout("dropout1d", input, p, training, inplace, 1)


@short_errors
def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Drop whole channels of (N, C, H, W); of (N, C, L) too, as PyTorch does."""
    _checked(p)
    rank = input.dim()
    if rank == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D "
            "dropout behavior is desired - input is interpreted as shape (N, C, L), where C is "
            "the channel dim. This behavior will change in a future release to interpret the "
            "input as one without a batch dimension, i.e. shape (C, H, W). To maintain the 1D "
            "channel-wise dropout behavior, please switch to using dropout1d instead.",
            stacklevel=2,
        )
        if not training or p == 0.0:
            return input
        return _channels(input, p, 1, inplace)
    return _feature_dropout("dropout2d", input, p, training, inplace, 2)


@short_errors
def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Drop whole channels of (N, C, D, H, W) or (C, D, H, W)."""
    return _feature_dropout("dropout3d", input, p, training, inplace, 3)


_ALPHA_PRIME = -1.7580993408473766  # the limit of selu at minus infinity: -scale alpha


def _alpha_dropped(input: Tensor, mask: Tensor, p: float) -> Tensor:
    """Set the dropped elements to selu's limit, then restore mean 0 and variance 1."""
    if p == 1.0:
        return input * 0.0
    scale = 1.0 / math.sqrt((_ALPHA_PRIME * _ALPHA_PRIME * p + 1) * (1 - p))
    shift = (1 - mask) * (_ALPHA_PRIME * scale) - scale * _ALPHA_PRIME * p
    return input * (mask * scale) + shift


@short_errors
def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout that keeps mean 0 and variance 1 (Klambauer et al., 2017)."""
    _checked(p)
    if not training or p == 0.0:
        return input
    mask = empty_like(input).bernoulli_(1 - p)
    result = _alpha_dropped(input, mask, p)
    return input.copy_(result) if inplace else result


@short_errors
def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """`alpha_dropout` of whole channels."""
    _checked(p)
    if not training or p == 0.0:
        return input
    shape = tuple(input.shape)
    shape = shape[:2] + (1,) * (len(shape) - 2)
    mask = full_beside(input, shape, 0.0).bernoulli_(1 - p)
    result = _alpha_dropped(input, mask, p)
    return input.copy_(result) if inplace else result
