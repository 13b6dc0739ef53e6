"""Optimizer updates that few programs use; all common updates are in `optimizers`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wend.core.primitive import Sample, composite, ops


def _directed(param: Any, grad: Any, weight_decay: Any, maximize: bool) -> Any:
    """The gradient to go against: the sign turned for maximization, weight decay added."""
    if maximize:
        grad = -grad
    return grad if weight_decay is None else grad + weight_decay * param


def _samples(states: int, *settings: Any) -> Any:
    def samples(rng: Any) -> Iterator[Sample]:
        tensors = [rng.normal(size=(2, 3)) for _ in range(2 + states)]
        yield Sample(*tensors, *settings)
        yield Sample(*tensors, *settings, maximize=True)

    return samples


@composite(
    "param, grad, average, eta: scalar, shrink: scalar, mu: scalar?, "
    "weight_decay: scalar? = None, *, maximize: bool = False",
    result=tuple,
    differentiable=False,
    samples=_samples(1, 0.1, 0.99, 0.5, 0.01),
)
def asgd_step(
    param: Any,
    grad: Any,
    average: Any,
    eta: Any,
    shrink: Any,
    mu: Any,
    weight_decay: Any,
    maximize: bool,
) -> Any:
    """(param', average') (Polyak and Juditsky, 1992); shrink: 1 - lambd eta.

    mu: the weight of the new parameter in the average; None while there is no average yet
    """
    grad = _directed(param, grad, weight_decay, maximize)
    param = param * shrink - eta * grad
    return param, ops.clone(param) if mu is None else average + mu * (param - average)


@composite(
    "param, grad, prev, step_size, less: scalar, more: scalar, least: scalar, most: scalar, *, "
    "maximize: bool = False",
    result=tuple,
    differentiable=False,
    samples=_samples(2, 0.5, 1.2, 1e-6, 50.0),
)
def rprop_step(
    param: Any,
    grad: Any,
    prev: Any,
    step_size: Any,
    less: Any,
    more: Any,
    least: Any,
    most: Any,
    maximize: bool,
) -> Any:
    """(param', prev', step_size'): the sign of the gradient alone (Riedmiller and Braun, 1993)."""
    if maximize:
        grad = -grad
    agreement = grad * prev
    turned = agreement < 0
    step_size = ops.where(turned, step_size * less, step_size)
    step_size = ops.where(agreement > 0, step_size * more, step_size)
    step_size = ops.clamp(step_size, least, most)
    grad = ops.where(turned, 0.0, grad)
    return param - ops.sign(grad) * step_size, grad, step_size
