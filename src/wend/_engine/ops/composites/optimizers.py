"""An update of a parameter by an optimizer as a step: (parameter, gradient, state) -> new.

Learning rates, decay and step counts are run-time scalars, so that a schedule is no new structure.
Changes of the algebra are structure (nesterov, amsgrad, maximize, the kinds of state, whether there
is weight decay at all: None for none).  The arithmetic follows PyTorch's single-tensor updates, in
their order, but that averages fade to 0 at last, not to subnormal numbers.  Optimizers record each
step as the op, without a gradient. With differentiable=True they call the body on tensors: all of
its ops are recorded then, and settings may be tensors with a history.  Averages do not fade there,
as the gradient would be 0 where an average is.

    param, exp_avg, exp_avg_sq = ops.adam_step(
        param, grad, exp_avg, exp_avg_sq, None, step, lr, beta1, beta2, eps, weight_decay)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wend._engine.base.dtypes import finfo, float32, float64
from wend._engine.core.kinds import Scalar, Tensor
from wend._engine.core.primitive import Sample, composite, ops
from wend._engine.ops.composites.real_pairs import on_real_pairs
from wend._engine.ops.numeric import INEXACT

_FACTS: dict[str, Any] = {"result": tuple, "supports": INEXACT}


def _arrays(rng: np.random.Generator, signed: int, positive: int) -> list[Any]:
    """Operands of a sample: the last `positive` operands are sums of squares."""
    arrays = [rng.normal(size=(2, 3)) for _ in range(signed)]
    return arrays + [np.abs(rng.normal(size=(2, 3))) for _ in range(positive)]


def _gradient(param: Tensor, grad: Tensor, weight_decay: Scalar | None, maximize: bool) -> Tensor:
    """The gradient to descend, with the gradient of an L2 penalty."""
    if maximize:
        grad = ops.neg(grad)
    if weight_decay is not None:
        grad = ops.add(grad, ops.mul(param, weight_decay))
    return grad


def _decayed(param: Tensor, lr: Scalar, weight_decay: Scalar | None) -> Tensor:
    """The parameter after decoupled weight decay."""
    return param if weight_decay is None else ops.mul(param, 1 - lr * weight_decay)


def _faded(average: Tensor, differentiable: bool) -> Tensor:
    """A decaying average, 0 where too small to be a normal number.

    Where gradients stay 0 the average would become subnormal and remain so: each step would take
    several times as long, for an amount that is nothing beside any parameter.
    """
    return average if differentiable else _no_less(ops.abs(average), average)


def _no_less(size: Tensor, average: Tensor) -> Tensor:
    """A decaying average, 0 where `size` is not that of a normal number."""
    least = finfo(float64 if average.dtype is float64 else float32).smallest_normal
    return ops.where(ops.lt(size, least), 0.0, average)


def faded_average(old: Tensor, new: Tensor, weight: Scalar, differentiable: bool = False) -> Tensor:
    """old + weight * (new - old), 0 where too small to be a normal number."""
    return _faded(ops.add(old, ops.mul(ops.sub(new, old), weight)), differentiable)


def _mean_square(old: Tensor, grad: Tensor, beta: Scalar, differentiable: bool) -> Tensor:
    mean = ops.add(ops.mul(old, beta), ops.mul(ops.mul(grad, grad), 1 - beta))
    return mean if differentiable else _no_less(mean, mean)  # none is below 0


# --- SGD -------------------------------------------------------------------------------------


def _sgd_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(*_arrays(rng, 2, 0), None, 0.1)
    yield Sample(*_arrays(rng, 2, 0), None, 0.1, 0.9, first=True)
    yield Sample(*_arrays(rng, 3, 0), 0.1, 0.9, 0.1, 1e-2, nesterov=True, maximize=True)


@composite(
    samples=_sgd_samples,
    **_FACTS,
)
@on_real_pairs
def sgd_step(
    param: Tensor,
    grad: Tensor,
    buffer: Tensor | None = None,
    lr: Scalar = 0.001,
    momentum: Scalar | None = None,
    dampening: Scalar = 0.0,
    weight_decay: Scalar | None = None,
    *,
    nesterov: bool = False,
    maximize: bool = False,
    first: bool = False,
    differentiable: bool = False,
) -> tuple[Tensor, ...]:
    """(param',), or (param', buffer') with momentum.

    buffer' = momentum * buffer + (1 - dampening) * g, and g itself in the first step (no buffer
    yet); param' = param - lr * buffer', with nesterov param - lr * (g + momentum * buffer').
    """
    grad = _gradient(param, grad, weight_decay, maximize)
    if momentum is None:
        return (ops.sub(param, ops.mul(grad, lr)),)
    if first or buffer is None:  # PyTorch's first buffer has no history
        buffer = ops.clone(ops.stop_gradient(grad) if differentiable else grad)
    else:
        buffer = ops.add(ops.mul(buffer, momentum), ops.mul(grad, 1 - dampening))
        buffer = _faded(buffer, differentiable)
    step = ops.add(grad, ops.mul(buffer, momentum)) if nesterov else buffer
    return ops.sub(param, ops.mul(step, lr)), buffer


# --- Adam and its relatives --------------------------------------------------------------------


def _adam_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(*_arrays(rng, 3, 1), None, 3, 1e-2)
    yield Sample(*_arrays(rng, 3, 2), 1, 1e-2, 0.8, 0.99, 1e-6, 1e-2, maximize=True)
    yield Sample(*_arrays(rng, 3, 1), None, 2, 1e-2, weight_decay=1e-2, decoupled=True)


@composite(
    samples=_adam_samples,
    **_FACTS,
)
@on_real_pairs
def adam_step(
    param: Tensor,
    grad: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    max_exp_avg_sq: Tensor | None = None,
    step: Scalar = 1,
    lr: Scalar = 0.001,
    beta1: Scalar = 0.9,
    beta2: Scalar = 0.999,
    eps: Scalar = 1e-8,
    weight_decay: Scalar | None = None,
    *,
    maximize: bool = False,
    decoupled: bool = False,
    differentiable: bool = False,
) -> tuple[Tensor, Tensor]:
    """(param', exp_avg', exp_avg_sq'), then max_exp_avg_sq' if given (amsgrad).

    param' = param - lr / (1 - beta1**step) * m / (sqrt(v / (1 - beta2**step)) + eps); step counts
    from 1. decoupled: weight decay as in AdamW.
    Kingma, Ba: Adam (2015); Loshchilov, Hutter: Decoupled weight decay regularization (2019).
    """
    if decoupled:
        param = _decayed(param, lr, weight_decay)
        weight_decay = None
    grad = _gradient(param, grad, weight_decay, maximize)
    exp_avg = faded_average(exp_avg, grad, 1 - beta1, differentiable)
    exp_avg_sq = _mean_square(exp_avg_sq, grad, beta2, differentiable)
    square = exp_avg_sq
    state: tuple[Any, ...] = ()
    if max_exp_avg_sq is not None:
        square = ops.maximum(max_exp_avg_sq, exp_avg_sq)
        state = (square,)
    correction = (1 - beta2**step) ** 0.5
    denominator = ops.add(ops.div(ops.sqrt(square), correction), eps)
    size = lr / (1 - beta1**step)
    param = ops.sub(param, ops.mul(ops.div(exp_avg, denominator), size))
    return param, exp_avg, exp_avg_sq, *state


def _adamax_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(*_arrays(rng, 3, 1), 3, 1e-2)
    yield Sample(*_arrays(rng, 3, 1), 1, 1e-2, 0.8, 0.99, 1e-6, 1e-2, maximize=True)


@composite(
    samples=_adamax_samples,
    **_FACTS,
)
@on_real_pairs
def adamax_step(
    param: Tensor,
    grad: Tensor,
    exp_avg: Tensor,
    exp_inf: Tensor,
    step: Scalar = 1,
    lr: Scalar = 0.002,
    beta1: Scalar = 0.9,
    beta2: Scalar = 0.999,
    eps: Scalar = 1e-8,
    weight_decay: Scalar | None = None,
    *,
    maximize: bool = False,
    differentiable: bool = False,
) -> tuple[Tensor, ...]:
    """(param', exp_avg', exp_inf'): exp_inf' = max(beta2 * exp_inf, |g| + eps).

    param' = param - lr / (1 - beta1**step) * exp_avg' / exp_inf'. Kingma, Ba: Adam (2015).
    """
    grad = _gradient(param, grad, weight_decay, maximize)
    exp_avg = faded_average(exp_avg, grad, 1 - beta1, differentiable)
    exp_inf = ops.maximum(ops.mul(exp_inf, beta2), ops.add(ops.abs(grad), eps))
    size = lr / (1 - beta1**step)
    return ops.sub(param, ops.mul(ops.div(exp_avg, exp_inf), size)), exp_avg, exp_inf


def _nadam_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(*_arrays(rng, 3, 1), 3, 0.9, 0.89, 0.7, 1e-2)
    decay = {"weight_decay": 1e-2, "maximize": True}
    yield Sample(*_arrays(rng, 3, 1), 1, 0.9, 0.89, 0.9, 1e-2, **decay)
    yield Sample(*_arrays(rng, 3, 1), 1, 0.9, 0.89, 0.9, 1e-2, **decay, decoupled=True)


@composite(
    samples=_nadam_samples,
    **_FACTS,
)
@on_real_pairs
def nadam_step(
    param: Tensor,
    grad: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    step: Scalar,
    mu: Scalar,
    mu_next: Scalar,
    mu_product: Scalar,
    lr: Scalar = 0.002,
    beta1: Scalar = 0.9,
    beta2: Scalar = 0.999,
    eps: Scalar = 1e-8,
    weight_decay: Scalar | None = None,
    *,
    maximize: bool = False,
    decoupled: bool = False,
    differentiable: bool = False,
) -> tuple[Tensor, ...]:
    """(param', exp_avg', exp_avg_sq') of Adam with Nesterov momentum.

    mu, mu_next: momentum of this step and the next     mu_product: of all steps so far
    Dozat: Incorporating Nesterov momentum into Adam (2016).
    """
    if decoupled:
        param = _decayed(param, lr, weight_decay)
        weight_decay = None
    grad = _gradient(param, grad, weight_decay, maximize)
    exp_avg = faded_average(exp_avg, grad, 1 - beta1, differentiable)
    exp_avg_sq = _mean_square(exp_avg_sq, grad, beta2, differentiable)
    denominator = ops.add(ops.sqrt(ops.div(exp_avg_sq, 1 - beta2**step)), eps)
    now = lr * (1 - mu) / (1 - mu_product)
    later = lr * mu_next / (1 - mu_product * mu_next)
    param = ops.sub(param, ops.mul(ops.div(grad, denominator), now))
    param = ops.sub(param, ops.mul(ops.div(exp_avg, denominator), later))
    return param, exp_avg, exp_avg_sq


def _radam_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(*_arrays(rng, 3, 1), 3, None, 1e-2)
    yield Sample(*_arrays(rng, 3, 1), 9, 0.4, 1e-2, weight_decay=1e-2, maximize=True)
    yield Sample(*_arrays(rng, 3, 1), 9, 0.4, 1e-2, weight_decay=1e-2, decoupled=True)


@composite(
    samples=_radam_samples,
    **_FACTS,
)
@on_real_pairs
def radam_step(
    param: Tensor,
    grad: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    step: Scalar,
    rectification: Scalar | None = None,
    lr: Scalar = 0.001,
    beta1: Scalar = 0.9,
    beta2: Scalar = 0.999,
    eps: Scalar = 1e-8,
    weight_decay: Scalar | None = None,
    *,
    maximize: bool = False,
    decoupled: bool = False,
    differentiable: bool = False,
) -> tuple[Tensor, ...]:
    """(param', exp_avg', exp_avg_sq') of rectified Adam.

    rectification: the factor of the adaptive step once the variance is tractable, None before
    Liu et al.: On the variance of the adaptive learning rate and beyond (2020).
    """
    if decoupled:
        param = _decayed(param, lr, weight_decay)
        weight_decay = None
    grad = _gradient(param, grad, weight_decay, maximize)
    exp_avg = faded_average(exp_avg, grad, 1 - beta1, differentiable)
    exp_avg_sq = _mean_square(exp_avg_sq, grad, beta2, differentiable)
    change = ops.mul(exp_avg, lr / (1 - beta1**step))
    if rectification is not None:
        factor = rectification * (1 - beta2**step) ** 0.5
        change = ops.mul(ops.div(change, ops.add(ops.sqrt(exp_avg_sq), eps)), factor)
    return ops.sub(param, change), exp_avg, exp_avg_sq


# --- without momentum ----------------------------------------------------------------------------


def _rmsprop_samples(rng: np.random.Generator) -> Iterator[Sample]:
    param, grad, mean, square = _arrays(rng, 3, 1)
    square = square + 4.0
    yield Sample(param, grad, square, lr=1e-2)
    yield Sample(param, grad, square, None, mean, lr=1e-2, maximize=True)
    yield Sample(param, grad, square, mean, lr=1e-2, momentum=0.9, weight_decay=1e-2)
    yield Sample(param, grad, square, mean, mean, lr=1e-2, momentum=0.9)


@composite(
    samples=_rmsprop_samples,
    **_FACTS,
)
@on_real_pairs
def rmsprop_step(
    param: Tensor,
    grad: Tensor,
    square_avg: Tensor,
    momentum_buffer: Tensor | None = None,
    grad_avg: Tensor | None = None,
    lr: Scalar = 0.01,
    alpha: Scalar = 0.99,
    eps: Scalar = 1e-8,
    weight_decay: Scalar | None = None,
    momentum: Scalar = 0.0,
    *,
    maximize: bool = False,
    differentiable: bool = False,
) -> tuple[Tensor, ...]:
    """(param', square_avg'), then momentum_buffer' and grad_avg' of those that are given.

    param' = param - lr * g / (sqrt(mean of g**2 - grad_avg'**2) + eps); grad_avg: centered.
    Hinton: Neural networks for machine learning, lecture 6 (2012).
    """
    grad = _gradient(param, grad, weight_decay, maximize)
    square_avg = _mean_square(square_avg, grad, alpha, differentiable)
    state, variance = [square_avg], square_avg
    if grad_avg is not None:
        grad_avg = faded_average(grad_avg, grad, 1 - alpha, differentiable)
        variance = ops.sub(square_avg, ops.mul(grad_avg, grad_avg))
    change = ops.div(grad, ops.add(ops.sqrt(variance), eps))
    if momentum_buffer is not None:
        change = ops.add(ops.mul(momentum_buffer, momentum), change)
        change = _faded(change, differentiable)
        state.append(change)
    if grad_avg is not None:
        state.append(grad_avg)
    return ops.sub(param, ops.mul(change, lr)), *state


def _adagrad_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(*_arrays(rng, 2, 1), 3, 1e-2)
    yield Sample(*_arrays(rng, 2, 1), 3, 1e-2, 0.1, 1e-6, 1e-2, maximize=True)


@composite(
    samples=_adagrad_samples,
    **_FACTS,
)
@on_real_pairs
def adagrad_step(
    param: Tensor,
    grad: Tensor,
    state_sum: Tensor,
    step: Scalar = 1,
    lr: Scalar = 0.01,
    lr_decay: Scalar = 0.0,
    eps: Scalar = 1e-10,
    weight_decay: Scalar | None = None,
    *,
    maximize: bool = False,
) -> tuple[Tensor, Tensor]:
    """(param', state_sum'): param' = param - lr' * g / (sqrt(sum of g**2) + eps).

    lr' = lr / (1 + (step - 1) * lr_decay). Duchi, Hazan, Singer: Adaptive subgradient methods
    (2011).
    """
    grad = _gradient(param, grad, weight_decay, maximize)
    state_sum = ops.add(state_sum, ops.mul(grad, grad))
    rate = lr / (1 + (step - 1) * lr_decay)
    change = ops.div(grad, ops.add(ops.sqrt(state_sum), eps))
    return ops.sub(param, ops.mul(change, rate)), state_sum


def _adadelta_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(*_arrays(rng, 2, 2), 1.0)
    yield Sample(*_arrays(rng, 2, 2), 0.5, 0.8, 1e-5, 1e-2, maximize=True)


@composite(
    samples=_adadelta_samples,
    **_FACTS,
)
@on_real_pairs
def adadelta_step(
    param: Tensor,
    grad: Tensor,
    square_avg: Tensor,
    acc_delta: Tensor,
    lr: Scalar = 1.0,
    rho: Scalar = 0.9,
    eps: Scalar = 1e-6,
    weight_decay: Scalar | None = None,
    *,
    maximize: bool = False,
    differentiable: bool = False,
) -> tuple[Tensor, ...]:
    """(param', square_avg', acc_delta'): the step is g * sqrt(acc_delta + eps) / rms(g).

    Zeiler: ADADELTA: an adaptive learning rate method (2012).
    """
    grad = _gradient(param, grad, weight_decay, maximize)
    square_avg = _mean_square(square_avg, grad, rho, differentiable)
    spread = ops.sqrt(ops.add(square_avg, eps))
    change = ops.mul(ops.div(ops.sqrt(ops.add(acc_delta, eps)), spread), grad)
    acc_delta = _mean_square(acc_delta, change, rho, differentiable)
    return ops.sub(param, ops.mul(change, lr)), square_avg, acc_delta
