"""Gradients clipped by norm or by value, in place.

Nothing waits for a value, but for norms of gradients whose rows lie in several ranks.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from wend._frontend.toolkit import Tensor, no_grad, ops, tensor

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
]


def _listed(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [parameters] if isinstance(parameters, Tensor) else list(parameters)


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all tensors as a vector.

    Gradients of `fully_shard`'s parameters count as wholes; all ranks then call alike.
    Raises RuntimeError for inf or nan if error_if_nonfinite (which waits for the value).
    """
    listed = _listed(tensors)
    norm_type = float(norm_type)
    if not listed:
        return tensor(0.0)
    if any(getattr(t, "_shard", None) is not None for t in listed):
        from wend.distributed._sharding.across import whole_norms

        norms = whole_norms(listed, norm_type)
    else:
        norms = [ops.norm(t, norm_type) for t in listed]
    total = norms[0] if len(norms) == 1 else ops.norm(ops.stack(norms), norm_type)
    if error_if_nonfinite and not bool(ops.isfinite(total)):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, "
            "so it cannot be clipped. To disable this error and scale the gradients by the "
            "non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    total_norm: Tensor,
    foreach: bool | None = None,
) -> None:
    """Scale gradients of a known total norm down to max_norm, if the norm is larger."""
    factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    with no_grad():
        for parameter in _listed(parameters):
            if parameter.grad is not None:
                parameter.grad.mul_(factor)


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients down to a total norm of at most max_norm; returns the norm before.

    After `fully_shard` the norm is that of the whole gradients; all ranks call.
    """
    listed = _listed(parameters)
    with no_grad():
        grads = [p.grad for p in listed if p.grad is not None]
        total = get_total_norm(grads, norm_type, error_if_nonfinite)
        clip_grads_with_norm_(listed, max_norm, total)
    return total


def clip_grad_norm(
    parameters: Iterable[Tensor] | Tensor,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The former name of `clip_grad_norm_`."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of "
        "`torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite)


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Clamp all gradients to [-clip_value, clip_value]."""
    bound = float(clip_value)
    with no_grad():
        for parameter in _listed(parameters):
            if parameter.grad is not None:
                parameter.grad.clamp_(-bound, bound)
