"""Losses. `reduction` is 'mean', 'sum' or 'none' everywhere."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from wend.frontend.nn._core import Tensor, ops
from wend.frontend.nn.functional.distance import pairwise_distance

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "cross_entropy",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "margin_ranking_loss",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]


def legacy_reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The `reduction` that the two former flags mean, where one of them is given."""
    if size_average is None and reduce is None:
        return reduction
    averaged = size_average is None or size_average
    reduced = reduce is None or reduce
    meant = "none" if not reduced else "mean" if averaged else "sum"
    warnings.warn(
        "size_average and reduce args will be deprecated, "
        f"please use reduction='{meant}' instead.",
        stacklevel=3,
    )
    return meant


def _reduced(loss: Tensor, reduction: str) -> Tensor:
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction == "none":
        return loss
    raise ValueError(f"{reduction} is not a valid value for reduction")


def _warn_of_sizes(name: str, input: Tensor, target: Tensor) -> None:
    if target.shape != input.shape:
        warnings.warn(
            f"Using a target size ({target.size()}) that is different to the input size "
            f"({input.size()}). This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size.",
            stacklevel=3,
        )


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """(input - target)², reduced; with `weight`, the weighted mean or sum."""
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce, reduction)
    _warn_of_sizes("mse_loss", input, target)
    if weight is not None:
        return _weighted((input - target).square(), input, weight, reduction)
    return ops.mse_loss(input, target, reduction=reduction)


def _weighted(loss: Tensor, input: Tensor, weight: Tensor, reduction: str) -> Tensor:
    if weight.shape != input.shape:
        raise ValueError("Weights and input must have the same size.")
    weighted = loss * weight
    if reduction == "mean":
        return weighted.sum() / weight.sum()
    return _reduced(weighted, reduction)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """|input - target|, reduced; with `weight`, the weighted mean or sum."""
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce, reduction)
    _warn_of_sizes("l1_loss", input, target)
    if weight is not None:
        return _weighted((input - target).abs(), input, weight, reduction)
    return ops.l1_loss(input, target, reduction=reduction)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """d² / (2 beta) where d = |input - target| < beta, else d - beta / 2, reduced."""
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce, reduction)
    _warn_of_sizes("smooth_l1_loss", input, target)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    if beta == 0.0:
        return ops.l1_loss(input, target, reduction=reduction)
    return ops.smooth_l1_loss(input, target, reduction=reduction, beta=beta)


def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """d² / 2 where d = |input - target| < delta, else delta (d - delta / 2), reduced."""
    _warn_of_sizes("huber_loss", input, target)
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    if weight is not None:
        loss = ops.huber_loss(input, target, reduction="none", delta=delta)
        return _weighted(loss, input, weight, reduction)
    return ops.huber_loss(input, target, reduction=reduction, delta=delta)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-weight[target] input[target], reduced; the mean is weighted.

    input: (N, C, ...) or (C,), log-probabilities   target: (N, ...) or (), class indices
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce, reduction)
    return ops.nll_loss(
        input, target, weight=weight, ignore_index=ignore_index, reduction=reduction
    )


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """nll_loss(log_softmax(input, 1), target), or with target probabilities their cross entropy.

    input: (N, C, ...) or (C,)   target: (N, ...) or () class indices, or probabilities like input
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce, reduction)
    return ops.cross_entropy(
        input,
        target,
        weight=weight,
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-weight (target log(input) + (1 - target) log(1 - input)), logs at least -100, reduced."""
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce, reduction)
    if target.shape != input.shape:
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size "
            f"({input.size()}) is deprecated. Please ensure they have the same size."
        )
    return ops.binary_cross_entropy(input, target, weight=weight, reduction=reduction)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """binary_cross_entropy(sigmoid(input), target), in one stable formula.

    pos_weight: weight of the positive examples, broadcast.
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce, reduction)
    if target.shape != input.shape:
        raise ValueError(
            f"Target size ({target.size()}) must be the same as input size ({input.size()})"
        )
    return ops.binary_cross_entropy_with_logits(
        input, target, weight=weight, pos_weight=pos_weight, reduction=reduction
    )


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """target (log(target) - input), reduced; 'batchmean' divides the sum by the batch size.

    input: log-probabilities   target: probabilities (log-probabilities with log_target)
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce, reduction)
    if reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support "
            "size.'batchmean' divides only by the batch size, and aligns with the KL div math "
            "definition.'mean' will be changed to behave the same as 'batchmean' in the next "
            "major release.",
            stacklevel=2,
        )
    if reduction == "batchmean":
        loss = ops.kl_div(input, target, reduction="sum", log_target=log_target)
        return loss / input.size(0) if input.dim() else loss
    return ops.kl_div(input, target, reduction=reduction, log_target=log_target)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """exp(input) - target input (log_input), else input - target log(input + eps), reduced.

    full: adds Stirling's approximation of log(target!) where target > 1.
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce, reduction)
    if log_input:
        loss = input.exp() - target * input
    else:
        loss = input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * 3.141592653589793 * target).log()
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return _reduced(loss, reduction)


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """(log(var) + (input - target)² / var) / 2, var at least eps, reduced.

    full: adds log(2 pi) / 2.
    """
    if isinstance(var, (int, float)):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = ops.full(tuple(input.shape), float(var), dtype=input.dtype)
    elif bool((var < 0).any()):
        raise ValueError("var has negative entry/entries")
    if var.shape != input.shape:
        if tuple(input.shape[:-1]) == tuple(var.shape):
            var = var.unsqueeze(-1)
        elif tuple(input.shape[:-1]) != tuple(var.shape[:-1]) or var.size(-1) != 1:
            raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")
    # The bound on var does not take part in its gradient.
    bounded = var + (var.detach().clamp(min=eps) - var.detach())
    loss = 0.5 * (bounded.log() + (input - target).square() / bounded)
    if full:
        loss = loss + 0.9189385332046727
    return _reduced(loss, reduction)


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """input where target is 1, max(0, margin - input) where it is -1, reduced."""
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce, reduction)
    zero = ops.zeros_like(input)
    apart = ops.where(target != 1, (margin - input).clamp(min=0), zero)
    alike = ops.where(target != -1, input, zero)
    return _reduced(apart + alike, reduction)


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """log(1 + exp(-target input)), reduced; target: 1 or -1."""
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce, reduction)
    return _reduced((-target * input).exp().log1p(), reduction)


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, -target (input1 - input2) + margin), reduced; target: 1 or -1."""
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce, reduction)
    if input1.dim() != input2.dim() or input1.dim() != target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return _reduced((-target * (input1 - input2) + margin).clamp(min=0), reduction)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos(input1, input2) where target is 1, max(0, cos - margin) where it is -1, reduced.

    input1, input2: (N, D) or (D,)   target: (N,) or ()
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce, reduction)
    if target.dim() + 1 != input1.dim() or target.dim() + 1 != input2.dim():
        raise RuntimeError(
            f"{target.dim()}D target tensor expects {target.dim() + 1}D input tensors, but found "
            f"inputs with sizes {list(input1.size())} and {list(input2.size())}."
        )
    tiny = 1e-12  # keeps the square roots differentiable at 0
    product = (input1 * input2).sum(-1)
    squares = ((input1 * input1).sum(-1) + tiny) * ((input2 * input2).sum(-1) + tiny)
    cosine = product / squares.sqrt()
    zero = ops.zeros_like(cosine)
    alike = ops.where(target == 1, 1 - cosine, zero)
    apart = ops.where(target == -1, (cosine - margin).clamp(min=0), zero)
    return _reduced(alike + apart, reduction)


def _hinge(margin: Tensor, p: int) -> Tensor:
    positive = margin.clamp(min=0)
    return positive if p == 1 else positive.pow(p)


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Mean over i != y of max(0, margin - x[y] + x[i])^p weight[y], reduced over the batch.

    input: (N, C) or (C,)   target: (N,) or ()
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    index = target.unsqueeze(-1)
    chosen = input.gather(-1, index)
    terms = _hinge(margin - chosen + input, p)
    if weight is not None:
        terms = terms * weight[target].unsqueeze(-1)
    terms = terms.scatter(-1, index, 0.0)
    return _reduced(terms.sum(-1) / input.size(-1), reduction)


def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Sum over labels y and other classes i of max(0, 1 - (x[y] - x[i])) / C, reduced.

    input: (N, C) or (C,)   target: like input, class indices, the first -1 ends the labels
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce, reduction)
    valid = (target < 0).to(dtype=target.dtype).cumsum(-1) == 0
    labels = ops.where(valid, target, ops.zeros_like(target))
    kept = valid.to(dtype=input.dtype)
    is_label = ops.zeros_like(input).scatter_add(-1, labels, kept) > 0
    chosen = input.gather(-1, labels)
    terms = (1 - chosen.unsqueeze(-1) + input.unsqueeze(-2)).clamp(min=0)
    others = (~is_label).to(dtype=input.dtype)
    terms = terms * kept.unsqueeze(-1) * others.unsqueeze(-2)
    return _reduced(terms.sum((-1, -2)) / input.size(-1), reduction)


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Mean over classes of -(y log(sigmoid(x)) + (1 - y) log(sigmoid(-x))), reduced."""
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce, reduction)
    loss = -(target * ops.logsigmoid(input) + (1 - target) * ops.logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return _reduced(loss.mean(-1), reduction)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin), d the p-norm, reduced."""
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce, reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")

    def distance(x: Tensor, y: Tensor) -> Tensor:
        return pairwise_distance(x, y, p, eps)

    return triplet_margin_with_distance_loss(
        anchor,
        positive,
        negative,
        distance_function=distance,
        margin=margin,
        swap=swap,
        reduction=reduction,
    )


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """`triplet_margin_loss` with a distance of one's own.

    swap: the negative is that of the nearer of anchor and positive.
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    distance: Any = pairwise_distance if distance_function is None else distance_function
    near = distance(anchor, positive)
    far = distance(anchor, negative)
    if swap:
        far = ops.minimum(far, distance(positive, negative))
    return _reduced((margin + near - far).clamp(min=0), reduction)

