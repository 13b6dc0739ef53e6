"""Normalization."""

from __future__ import annotations

import math

from wend._engine.base.errors import ArgumentError, IndexOutOfRange, ShapeError, ValueRefused
from wend._engine.core.whole import Whole
from wend._frontend.toolkit import Tensor, no_grad, ops

__all__ = ["batch_norm", "group_norm", "instance_norm"]

_batch_norm_eval = ops.batch_norm_eval
_batch_norm_train = ops.batch_norm_train
_group_norm = ops.group_norm
_instance_norm_train = ops.instance_norm_train


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Mean 0 and variance 1 within each group of channels, then scaled (Wu and He, 2018).

    input: (N, C, ...)   weight, bias: (C,)
    """
    if input.dim() < 2:
        raise ShapeError(
            f"Expected at least 2 dimensions for input tensor but received {input.dim()}"
        )
    if input.numel() == num_groups:
        raise ArgumentError(
            "Expected more than 1 value per channel when training, "
            f"got input size {list(input.shape)}"
        )
    return _group_norm(input, num_groups, weight, bias, eps)


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Mean 0 and variance 1 within each channel, then scaled (Ioffe and Szegedy, 2015).

    input: (N, C, ...)   weight, bias, running_mean, running_var: (C,)
    In training the statistics are the batch's, and the running statistics move towards these.
    """
    if eps <= 0 and (training or eps < 0):
        bound = "positive during training" if training else "non-negative"
        raise ArgumentError(f"batch_norm eps must be {bound}, but got {eps}")
    sizes = input.shape
    if len(sizes) < 2 and math.prod(sizes) == 0:  # no channel, and nothing to be moved
        return input.clone()
    if not training:
        if running_mean is None or running_var is None:
            raise ValueRefused(
                "batch_norm: running_mean and running_var must be defined in evaluation mode"
            )
        return _batch_norm_eval(input, running_mean, running_var, weight, bias, eps)
    if len(sizes) < 2:
        raise IndexOutOfRange(
            f"batch_norm: expected an input of (N, C, ...), got a shape of {sizes}"
        )
    count = math.prod(sizes) // max(sizes[1], 1)
    if count == 1:
        raise ArgumentError(
            f"Expected more than 1 value per channel when training, got input size {sizes}"
        )
    result, mean, var = _batch_norm_train(input, weight, bias, eps)
    if count > 0:
        update_running(running_mean, running_var, mean, var, momentum, count)
    return result


def update_running(
    running_mean: Tensor | None,
    running_var: Tensor | None,
    mean: Tensor,
    var: Tensor,
    momentum: float,
    count: int,
) -> None:
    """Move running statistics towards the batch's mean and (biased) variance."""
    with Whole(), no_grad():
        if running_mean is not None:
            running_mean.mul_(1 - momentum).add_(mean.detach(), alpha=momentum)
        if running_var is not None:
            unbiased = count / max(count - 1, 1)
            running_var.mul_(1 - momentum).add_(var.detach(), alpha=momentum * unbiased)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """`batch_norm` of each example for itself (Ulyanov et al., 2016).

    input: (N, C, ...)   the running statistics move towards the mean over the batch
    """
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    sizes = input.shape
    spatial = math.prod(sizes[2:])
    if spatial == 1:
        raise ArgumentError(
            f"Expected more than 1 spatial element when training, got input size {input.size()}"
        )
    result, mean, var = _instance_norm_train(input, weight, bias, eps)
    if running_mean is not None or running_var is not None:
        update_running(running_mean, running_var, mean.mean(0), var.mean(0), momentum, spatial)
    return result
