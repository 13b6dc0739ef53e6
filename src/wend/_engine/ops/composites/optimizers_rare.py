"""Optimizer updates that few programs use; all common updates are in `optimizers`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wend._engine.base.dtypes import bfloat16, float32
from wend._engine.core.kinds import Scalar, Tensor
from wend._engine.core.primitive import Sample, composite, ops
from wend._engine.ops.composites.optimizers import faded_average
from wend._engine.ops.composites.real_pairs import on_real_pairs


def _directed(param: Tensor, grad: Tensor, weight_decay: Scalar | None, maximize: bool) -> Tensor:
    """The gradient to go against: the sign turned for maximization, weight decay added."""
    if maximize:
        grad = -grad
    return grad if weight_decay is None else grad + weight_decay * param


def _samples(states: int, *settings: float) -> Callable[..., Any]:
    def samples(rng: np.random.Generator) -> Iterator[Sample]:
        tensors = [rng.normal(size=(2, 3)) for _ in range(2 + states)]
        yield Sample(*tensors, *settings)
        yield Sample(*tensors, *settings, maximize=True)

    return samples


@composite(
    result=tuple,
    samples=_samples(1, 0.1, 0.99, 0.5, 0.01),
)
@on_real_pairs
def asgd_step(
    param: Tensor,
    grad: Tensor,
    average: Tensor,
    eta: Scalar,
    shrink: Scalar,
    mu: Scalar | None,
    weight_decay: Scalar | None = None,
    *,
    maximize: bool = False,
) -> tuple[Tensor, ...]:
    """(param', average') (Polyak and Juditsky, 1992); shrink: 1 - lambd eta.

    mu: the weight of the new parameter in the average; None while there is no average yet
    """
    grad = _directed(param, grad, weight_decay, maximize)
    param = param * shrink - eta * grad
    return param, ops.clone(param) if mu is None else average + mu * (param - average)


@composite(
    result=tuple,
    samples=_samples(2, 0.5, 1.2, 1e-6, 50.0),
)
@on_real_pairs
def rprop_step(
    param: Tensor,
    grad: Tensor,
    prev: Tensor,
    step_size: Tensor,
    less: Scalar,
    more: Scalar,
    least: Scalar,
    most: Scalar,
    *,
    maximize: bool = False,
) -> tuple[Tensor, ...]:
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


# --- factored second moments -----------------------------------------------------------------


def _adafactor_samples(rng: np.random.Generator) -> Iterator[Sample]:
    param, grad = (rng.normal(size=(2, 3, 4)) for _ in range(2))
    row, column = rng.uniform(0.5, 2, (2, 3, 1)), rng.uniform(0.5, 2, (2, 1, 4))
    yield Sample(param, grad, row, column, 0.3, 0.01, 0.0, 1e-3, 1e-3, 1.0)
    yield Sample(param, grad, row, column, 0.3, 0.01, 0.02, 1e-3, 1e-3, 1.5, maximize=True)
    vector, variance = rng.normal(size=4), rng.uniform(0.5, 2, 4)
    yield Sample(vector, vector * 2, variance, None, 0.3, 0.01, 0.0, 1e-3, 1e-3, 1.0)


@composite(
    result=tuple,
    samples=_adafactor_samples,
)
def adafactor_step(
    param: Tensor,
    grad: Tensor,
    variance: Tensor,
    column: Tensor | None,
    weight: Scalar,
    size: Scalar,
    decay: Scalar,
    eps1: Scalar,
    eps2: Scalar,
    d: Scalar,
    *,
    maximize: bool = False,
) -> tuple[Tensor, Tensor]:
    """(param', variance'), then column' if given (Shazeer and Stern, 2018).

    variance: mean squares of the gradient, or with `column` those of its rows
    column: mean squares of the columns; rows times columns stand for the whole
    weight: of the new squares     size: largest step, relative to the parameter
    decay: factor of decoupled weight decay     d: a larger mean square of the update is scaled down
    """
    if maximize:
        grad = -grad
    longest = ops.maximum(_root_mean_square(param), eps2) * size
    square = grad * grad
    state: tuple[Any, ...]
    if column is None:
        variance = faded_average(variance, square, weight)
        state, estimate = (variance,), variance
    else:
        variance = faded_average(variance, ops.mean(square, (-1,), True), weight)
        column = faded_average(column, ops.mean(square, (-2,), True), weight)
        state = variance, column
        whole = ops.maximum(ops.mean(variance, (-2,), True), eps1)
        estimate = variance * column / whole
    update = grad * ops.rsqrt(ops.maximum(estimate, eps1 * eps1))
    excess = ops.maximum(_root_mean_square(update) / d, 1.0)
    return param * (1 - decay) - update * (longest / excess), *state


def _root_mean_square(x: Tensor) -> Tensor:
    return ops.sqrt(ops.mean(x * x, None, False))


# --- orthogonal updates ----------------------------------------------------------------------


def _muon_samples(rng: np.random.Generator) -> Iterator[Sample]:
    for shape, settings in (((3, 2), {}), ((2, 4), {"nesterov": False, "rounds": 2})):
        tensors = [rng.normal(size=shape) for _ in range(3)]
        yield Sample(*tensors, 0.95, 0.01, 1e-3, 1e-7, 3.4445, -4.775, 2.0315, **settings)


@composite(
    result=tuple,
    samples=_muon_samples,
)
def muon_step(
    param: Tensor,
    grad: Tensor,
    buffer: Tensor,
    momentum: Scalar,
    size: Scalar,
    decay: Scalar,
    eps: Scalar,
    a: Scalar,
    b: Scalar,
    c: Scalar,
    *,
    nesterov: bool = True,
    rounds: int = 5,
    tall: bool = False,
) -> tuple[Tensor, Tensor]:
    """(param', buffer') of a matrix (Jordan, 2024): the update is about orthogonal.

    size: of the update     decay: factor of decoupled weight decay     tall: more rows than columns
    a, b, c, rounds: x becomes a x + (b G + c G G) x where G = x x^T, so often
    """
    buffer = faded_average(buffer, grad, 1 - momentum)
    # Rounded numbers change in jumps: no gradient passes.
    x = ops.stop_gradient(grad + momentum * (buffer - grad) if nesterov else buffer)
    x = _rounded(x)
    if tall:
        x = ops.transpose(x, 0, 1)
    x = _rounded(x / ops.maximum(_rounded(ops.vector_norm(x)), eps))
    for _ in range(rounds):
        gram = _rounded(ops.matmul(x, ops.transpose(x, 0, 1)))
        inner = _rounded(b * gram + c * ops.matmul(gram, gram))
        x = _rounded(a * x + ops.matmul(inner, x))
    if tall:
        x = ops.transpose(x, 0, 1)
    return param * (1 - decay) - ops.cast(x, param.dtype) * size, buffer


def _rounded(x: Tensor) -> Tensor:
    """A float32 tensor of the nearest bfloat16 numbers: PyTorch keeps these in between."""
    return ops.cast(ops.cast(x, bfloat16), float32)
