"""Losses that compare an input with a target of like shape, element by element or row by row.

`reduction` is "mean", "sum" or "none"; `size_average` and `reduce` are deprecated forms.
Halves are computed in float32 and rounded at the end.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wend._engine.base.dtypes import FLOAT, bool_
from wend._engine.base.errors import ArgumentError, DTypeError, ValueRefused
from wend._engine.core.primitive import Sample, composite, ops
from wend._engine.core.symbolic import hints
from wend._engine.ops.composites.reduce import widened
from wend._engine.ops.elementwise.family import FLOATING, V, is_number, promoted
from wend._engine.ops.gradient_nodes import NodeBuilder
from wend._engine.ops.numeric import require

Samples = Iterator[Sample]
#: `batchmean` is refused by the losses that have none.
REDUCTIONS = ("mean", "sum", "none", "batchmean")
LEGACY = "size_average: attr = None, reduce: attr = None, reduction: str = 'mean'"


# -- reductions ------------------------------------------------------------------------------------


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction that the two deprecated arguments stand for, if they are given."""
    if size_average is None and reduce is None:
        return reduction
    size_average = True if size_average is None else size_average
    reduce = True if reduce is None else reduce
    chosen = ("mean" if size_average else "sum") if reduce else "none"
    warnings.warn(
        "size_average and reduce args will be deprecated, "
        f"please use reduction='{chosen}' instead.",
        stacklevel=2,
    )
    return chosen


def reduced(name: str, loss: V, reduction: str) -> V:
    """The mean, the sum, or the losses themselves. Raises ArgumentError for another reduction."""
    if reduction == "mean":
        return ops.mean(loss)
    if reduction == "sum":
        return ops.sum(loss)
    if reduction == "none":
        return loss
    raise ArgumentError(f"{name}: {reduction!r} is not a valid value for reduction")


def loss(
    signature: str,
    samples: Callable[..., Samples],
    grad_name: str = "",
    nodes: Any = None,
    takes_complex: bool = False,
    indices: str = "",
) -> Callable[[Callable[..., V]], Any]:
    """A composite that nn.functional publishes; the body sees halves as float32.

    The body's first parameters are the tensors and options of the signature without the three of
    `LEGACY`; the body's last is the reduction.

    nodes: of the losses (see Primitive.grad_nodes), before those of the reduction; a name alone
    stands for a node of the input, which reduces by itself
    indices: the operand whose elements are classes, as errors name it
    """
    names = [part.split(":")[0].strip() for part in signature.split(", ")]

    def declare(body: Callable[..., V]) -> Callable[..., Any]:
        name = body.__name__

        def guarded(*arguments: Any) -> V:
            call = dict(zip(names, arguments, strict=True))
            if "reduce" in call:
                legacy = (call.pop("size_average"), call.pop("reduce"), call["reduction"])
                call["reduction"] = reduction_of(*legacy)
            if call.get("reduction", "mean") not in REDUCTIONS:
                raise ArgumentError(
                    f"{name}: {call['reduction']!r} is not a valid value for reduction"
                )
            tensors = [v for v in call.values() if hasattr(v, "shape")]
            out = promoted(*([t for t in tensors if t.dtype.category >= FLOAT] or tensors))
            values = [widened(v) if hasattr(v, "shape") else v for v in call.values()]
            y = body(*values)
            kept = y.dtype is out or min(y.dtype.category, out.category) < FLOAT
            real = out.is_complex and not y.dtype.is_complex  # as |z| is
            return y if kept or real else ops.cast(y, out)

        def grad_nodes(n: NodeBuilder, *arguments: Any) -> object:
            call = dict(zip(names, arguments, strict=True))
            if "reduce" in call:
                legacy = (call.pop("size_average"), call.pop("reduce"), call["reduction"])
                call["reduction"] = reduction_of(*legacy)
            return nodes(n, **call)

        guarded.__name__, guarded.__doc__, guarded.__module__ = name, body.__doc__, body.__module__
        return composite(
            signature,
            functional=(name,),
            grad_name=grad_name,
            samples=samples,
            supports=frozenset({"float", "complex"} if takes_complex else {"float"}),
            grad_nodes=None if nodes is None else grad_nodes,
            indices=indices,
        )(guarded)

    return declare


def reduced_node(n: Any, losses: Any, reduction: str) -> Any:
    """The nodes of a reduction: `losses`, and those of the mean or the sum."""
    if reduction == "none":
        return losses
    if reduction == "batchmean":
        return n.Div(n.Sum(losses), None)
    return (n.Mean if reduction == "mean" else n.Sum)(losses)


def pairs(low: float = -2.0, high: float = 2.0, signs: bool = False) -> Callable[..., Samples]:
    """Samples of inputs and targets (of -1 and 1, if signs) drawn from [low, high)."""

    def samples(rng: np.random.Generator) -> Samples:
        for shape in ((3, 4), (), (0, 2), (2, 1, 3)):
            x, target = rng.uniform(low, high, size=(2, *shape))
            target = np.where(target > 0, 1.0, -1.0) if signs else np.asarray(target)
            for reduction in ("mean", "sum", "none") if shape == (3, 4) else ("sum",):
                yield Sample(np.asarray(x), target, reduction=reduction)

    return samples


def weighted(low: float = -2.0, high: float = 2.0) -> Callable[..., Samples]:
    """Samples of `pairs`, and some with weights."""

    def samples(rng: np.random.Generator) -> Samples:
        yield from pairs(low, high)(rng)
        for reduction in ("mean", "sum", "none"):
            x, target = rng.uniform(low, high, size=(2, 3, 4))
            weight = rng.uniform(0.5, 2.0, size=(3, 4))
            yield Sample(x, target, weight=weight, reduction=reduction)

    return samples


def same_sizes(a: V, b: V) -> bool:
    """Whether two tensors are of equal shape."""
    pairs = zip(a.shape, b.shape, strict=False)
    return len(a.shape) == len(b.shape) and all(m == n for m, n in pairs)


def require_floats(name: str, *tensors: V) -> None:
    """Raise DTypeNotImplemented if all are bools and ints."""
    require(name, FLOATING, promoted(*tensors))


def _warn_of_broadcast(input: V, target: V) -> None:
    """Warn, as PyTorch does, that a target will be broadcast: mostly a mistake."""
    if same_sizes(input, target):
        return
    warnings.warn(
        f"Using a target size ({hints(target.shape)}) that is different to the input size "
        f"({hints(input.shape)}). This will likely lead to incorrect results due to broadcasting. "
        "Please ensure they have the same size.",
        stacklevel=2,
    )


def _require_same_sizes(name: str, input: V, target: V) -> None:
    if not same_sizes(input, target):
        raise ArgumentError(
            f"{name}: target size {hints(target.shape)} must be the same as input size "
            f"{hints(input.shape)}"
        )


# -- distances -------------------------------------------------------------------------------------


def _weigh(name: str, values: V, weight: V, reduction: str, input: V) -> V:
    """Multiply by weights of the input's shape and reduce. Raises ArgumentError."""
    if weight is None:
        return reduced(name, values, reduction)
    if not same_sizes(weight, input):
        raise ArgumentError(
            f"{name}: weights and input must have the same size, not {hints(weight.shape)} and "
            f"{hints(input.shape)}"
        )
    return reduced(name, values * weight, reduction)


@loss(f"input, target, {LEGACY}, weight: tensor? = None", weighted(), "MseLossBackward0")
def mse_loss(input: V, target: V, reduction: str, weight: V) -> V:
    """y = (input - target)^2. With weights the mean is weighted."""
    require_floats("mse_loss", input, target)
    _warn_of_broadcast(input, target)
    if target.dtype is bool_:  # of masks there is no difference
        target = ops.cast(target, input.dtype)
    total = ops.square(input - target)
    if weight is not None and reduction == "mean":
        return _weigh("mse_loss", total, weight, "sum", input) / ops.sum(weight)
    return _weigh("mse_loss", total, weight, reduction, input)


@loss(
    f"input, target, {LEGACY}, weight: tensor? = None",
    weighted(),
    nodes=lambda n, input, target, reduction, **_: reduced_node(
        n, n.Abs(n.Sub(input, target)), reduction
    ),
    takes_complex=True,
)
def l1_loss(input: V, target: V, reduction: str, weight: V) -> V:
    """y = |input - target|. With weights the mean is weighted."""
    _warn_of_broadcast(input, target)
    total = ops.abs(input - target)
    if weight is not None and reduction == "mean":
        return _weigh("l1_loss", total, weight, "sum", input) / ops.sum(weight)
    return _weigh("l1_loss", total, weight, reduction, input)


@loss(f"input, target, {LEGACY}, beta: attr = 1.0", pairs(), "SmoothL1LossBackward0")
def smooth_l1_loss(input: V, target: V, reduction: str, beta: float) -> V:
    """y = d^2 / (2 beta) where |d| < beta, else |d| - beta / 2; d = input - target.

    Raises ValueRefused for a negative beta (Girshick, Fast R-CNN, 2015).
    """
    if not beta >= 0:
        raise ValueRefused(f"smooth_l1_loss: beta must not be negative, not {beta}")
    require_floats("smooth_l1_loss", input, target)
    _warn_of_broadcast(input, target)
    d = input - target
    distance = ops.abs(d)
    if beta == 0:
        return reduced("smooth_l1_loss", distance, reduction)
    far = distance >= beta
    near = ops.where(far, 0, d)  # finite where not taken
    y = ops.where(far, distance - 0.5 * beta, 0.5 * near * near / beta)
    return reduced("smooth_l1_loss", y, reduction)


@loss(
    "input, target, reduction: str = 'mean', delta: attr = 1.0, weight: tensor? = None",
    weighted(),
    "HuberLossBackward0",
)
def huber_loss(input: V, target: V, reduction: str, delta: float, weight: V) -> V:
    """y = d^2 / 2 where |d| <= delta, else delta (|d| - delta / 2); d = input - target.

    Raises ValueRefused unless delta is positive (Huber, 1964).
    """
    if not delta > 0:
        raise ValueRefused(f"huber_loss: delta must be positive, not {delta}")
    require_floats("huber_loss", input, target)
    _warn_of_broadcast(input, target)
    d = input - target
    distance = ops.abs(d)
    far = distance >= delta
    near = ops.where(far, 0, d)  # finite where not taken
    y = ops.where(far, delta * (distance - 0.5 * delta), 0.5 * near * near)
    return _weigh("huber_loss", y, weight, reduction, input)


# -- likelihoods -----------------------------------------------------------------------------------


def _kl_samples(rng: np.random.Generator) -> Samples:
    for reduction in ("mean", "batchmean", "sum", "none"):
        x, target = -rng.uniform(0.1, 3, size=(3, 4)), rng.uniform(0.1, 1, size=(3, 4))
        yield Sample(x, target, reduction=reduction)
        yield Sample(x, np.log(target), reduction=reduction, log_target=True)
    yield Sample(x, np.where(target > 0.5, target, 0.0), reduction="sum")


@loss(
    f"input, target, {LEGACY}, log_target: bool = False",
    _kl_samples,
    nodes=lambda n, input, target, reduction, log_target: reduced_node(
        n,
        n.Mul(target, n.Sub(target, input))
        if log_target
        else n.Sub(n.Xlogy(target, target), n.Mul(target, input)),
        reduction,
    ),
)
def kl_div(input: V, target: V, reduction: str, log_target: bool) -> V:
    """y = target * (log(target) - input), the input a log-probability.

    log_target: the target is a log-probability too. reduction: also "batchmean", the sum over the
    first extent.
    Raises DTypeError for bools and ints.
    """
    for x in (input, target):
        if x.dtype.category < FLOAT:
            raise DTypeError(f"kl_div: takes float tensors, not {x.dtype}; convert with .float()")
    if log_target:
        y = ops.exp(target) * (target - input)
    else:
        y = ops.xlogy(target, target) - target * input
    if reduction == "batchmean":
        total = ops.sum(y)
        return ops.div(total, input.shape[0]) if len(input.shape) else total
    if reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size; "
            "'batchmean' divides only by the batch size, as the definition of KL divergence does.",
            stacklevel=2,
        )
    return reduced("kl_div", y, reduction)


@loss(
    f"input, target, weight: tensor? = None, {LEGACY}",
    weighted(0.05, 0.95),
    "BinaryCrossEntropyBackward0",
    nodes=lambda n, input, target, **_: n.BinaryCrossEntropy(input, target),
)
def binary_cross_entropy(input: V, target: V, weight: V, reduction: str) -> V:
    """y = -(target log(input) + (1 - target) log(1 - input)), input a probability.

    weight: broadcast to the shape. Raises ArgumentError if the sizes differ, DTypeError if the
    dtypes do, ExecutionError (when computed) for elements below 0 or above 1.
    """
    name = "binary_cross_entropy"
    _require_same_sizes(name, input, target)
    require_floats(name, input)
    if target.dtype is not input.dtype:
        raise DTypeError(
            f"{name}: the target must be of the input's dtype {input.dtype}, not {target.dtype}"
        )
    y = ops.binary_cross_entropy_term(input, target)
    return reduced("binary_cross_entropy", y if weight is None else y * weight, reduction)


def _logit_samples(rng: np.random.Generator) -> Samples:
    yield from weighted()(rng)
    x, target = rng.normal(size=(3, 4)) * 50, rng.uniform(0, 1, size=(3, 4))
    yield Sample(x, target, pos_weight=rng.uniform(0.5, 3, size=(4,)))


@loss(
    f"input, target, weight: tensor? = None, {LEGACY}, pos_weight: tensor? = None",
    _logit_samples,
    "BinaryCrossEntropyWithLogitsBackward0",
    nodes=lambda n, input, target, **_: n.BinaryCrossEntropyWithLogits(input, target),
)
def binary_cross_entropy_with_logits(
    input: V, target: V, weight: V, reduction: str, pos_weight: V
) -> V:
    """y = binary_cross_entropy(sigmoid(input), target), without overflow.

    pos_weight: factor of the positive examples, broadcast. Raises ArgumentError if sizes differ.
    """
    name = "binary_cross_entropy_with_logits"
    _require_same_sizes(name, input, target)
    require_floats(name, input)
    if target.dtype.category < FLOAT:
        raise DTypeError(
            f"{name}: the target must be a float tensor, not {target.dtype}; convert with .float()"
        )
    softplus = ops.logaddexp(-input, 0.0)
    if pos_weight is not None:
        softplus = softplus * (1 + (pos_weight - 1) * target)
    y = (1 - target) * input + softplus
    return reduced(name, y if weight is None else y * weight, reduction)


@loss(
    f"input, target, {LEGACY}",
    pairs(signs=True),
    "SoftMarginLossBackward0",
    nodes=lambda n, input, **_: n.SoftMarginLoss(input),
)
def soft_margin_loss(input: V, target: V, reduction: str) -> V:
    """y = log(1 + exp(-target * input)), target -1 or 1."""
    return reduced("soft_margin_loss", ops.logaddexp(-target * input, 0.0), reduction)


def _multilabel_nodes(n: NodeBuilder, input: object, target: object, reduction: str) -> object:
    right, wrong = n.LogSigmoid(input), n.LogSigmoid(n.Neg(input))
    losses = n.Neg(n.Add(n.Mul(target, right), n.Mul(None, wrong)))
    return reduced_node(n, n.Div(n.Sum1(losses), None), reduction)


def _multilabel_samples(rng: np.random.Generator) -> Samples:
    for reduction in ("mean", "sum", "none"):
        x, target = rng.normal(size=(3, 4)), rng.integers(0, 2, size=(3, 4)).astype(float)
        yield Sample(x, target, rng.uniform(0.5, 2, size=(4,)), reduction=reduction)
    yield Sample(x[0], target[0])


@loss(
    f"input, target, weight: tensor? = None, {LEGACY}",
    _multilabel_samples,
    nodes=lambda n, input, target, reduction, **_: _multilabel_nodes(n, input, target, reduction),
)
def multilabel_soft_margin_loss(input: V, target: V, weight: V, reduction: str) -> V:
    """y = the mean over the last dim of the binary cross entropy of sigmoid(input)."""
    y = target * ops.logaddexp(-input, 0.0) + (1 - target) * ops.logaddexp(input, 0.0)
    y = y if weight is None else y * weight
    return reduced("multilabel_soft_margin_loss", ops.mean(y, -1), reduction)


def _count_samples(rng: np.random.Generator) -> Samples:
    for reduction in ("mean", "sum", "none"):
        x, target = rng.uniform(0.2, 2, size=(3, 4)), rng.uniform(0.2, 4, size=(3, 4))
        yield Sample(x, target, reduction=reduction)
        yield Sample(x, target, log_input=False, full=True, reduction=reduction)


@loss(
    "input, target, log_input: bool = True, full: bool = False, size_average: attr = None, "
    "eps: scalar = 1e-08, reduce: attr = None, reduction: str = 'mean'",
    _count_samples,
    nodes=lambda n, input, target, reduction, log_input, **_: reduced_node(
        n,
        n.Sub(n.Exp(input), n.Mul(target, input))
        if log_input
        else n.Sub(input, n.Mul(target, n.Log(n.Add1(input)))),
        reduction,
    ),
)
def poisson_nll_loss(input: V, target: V, log_input: bool, full: bool, eps: V, reduction: str) -> V:
    """y = exp(input) - target * input, or with log_input=False input - target * log(input + eps).

    full: add Stirling's approximation of log(target!) where target > 1.
    """
    if log_input:
        y = ops.exp(input) - target * input
    else:
        y = input - target * ops.log(input + eps)
    if full:
        t = target
        stirling = t * ops.log(t) - t + 0.5 * ops.log(2 * math.pi * t)
        y = y + ops.where(target <= 1, 0, stirling)
    return reduced("poisson_nll_loss", y, reduction)


def _gaussian_samples(rng: np.random.Generator) -> Samples:
    x, target = rng.normal(size=(2, 3, 4))
    for shape in ((3, 4), (3, 1), (3,)):
        yield Sample(x, target, rng.uniform(0.2, 2, size=shape), full=shape == (3,))
    yield Sample(x, target, 0.5, eps=1e-3, reduction="sum")
    yield Sample(x, target, np.zeros((3, 4)), reduction="none")


@loss(
    "input, target, var: operand, full: bool = False, eps: scalar = 1e-06, reduction: str = 'mean'",
    _gaussian_samples,
    nodes=lambda n, input, target, var, reduction, **_: reduced_node(
        n,
        n.Mul(n.Add(n.Log(n.Clamp1(var)), n.Div(n.Pow(n.Sub(input, target)), n.Clamp1(var))), None),
        reduction,
    ),
)
def gaussian_nll_loss(input: V, target: V, var: V, full: bool, eps: V, reduction: str) -> V:
    """y = (log(var) + (input - target)^2 / var) / 2, var at least eps.

    var: a number, or of the input's shape, which may lack the last dim or have a dim of size 1.
    full: add log(2 pi) / 2. Raises ArgumentError for any other shape.
    """
    fault = "gaussian_nll_loss: var has negative entry/entries"
    if is_number(var):
        var = ops.fill_like(input, var)
    elif not same_sizes(var, input):
        var = _one_variance_a_row(input, var)
    var = ops.within(var, 0.0, math.inf, True, fault)
    # The bound is no part of the function: var's gradient passes.
    var = ops.graft(ops.clamp(ops.stop_gradient(var), min=eps), var)
    y = 0.5 * (ops.log(var) + ops.square(input - target) / var)
    if full:
        y = y + 0.5 * math.log(2 * math.pi)
    return reduced("gaussian_nll_loss", y, reduction)


def _one_variance_a_row(input: V, var: V) -> V:
    if len(var.shape) == len(input.shape) - 1:
        var = ops.unsqueeze(var, -1)
    if len(var.shape) == len(input.shape):
        unlike = [m for n, m in zip(input.shape, var.shape, strict=True) if n != m]
        if all(m == 1 for m in unlike) and len(unlike) <= 1:
            return var
    raise ArgumentError(
        f"gaussian_nll_loss: var of size {hints(var.shape)} is of incorrect size for an input of "
        f"{hints(input.shape)}"
    )
