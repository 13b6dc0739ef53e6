"""Functions of `wend` itself whose calls are those of PyTorch's operators.

A reduction is a number (0: none, 1: mean, 2: sum), and arguments stand in the operator's order.
`wend.nn.functional` has the same functions with words and defaults.
"""

from __future__ import annotations

from collections.abc import Sequence

from wend._engine.base.errors import ArgumentError, ValueRefused
from wend._engine.base.tracebacks import short_errors
from wend._engine.ops.placing import full_beside
from wend._frontend.random import Generator
from wend._frontend.toolkit import Tensor, arange, no_grad, ones_like, ops, zeros_like
from wend.nn import functional as F

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_max_pool1d",
    "alpha_dropout",
    "alpha_dropout_",
    "avg_pool1d",
    "batch_norm",
    "binary_cross_entropy_with_logits",
    "celu_",
    "conv_tbc",
    "cosine_embedding_loss",
    "ctc_loss",
    "dropout_",
    "embedding_bag",
    "feature_alpha_dropout",
    "feature_alpha_dropout_",
    "feature_dropout",
    "feature_dropout_",
    "hinge_embedding_loss",
    "instance_norm",
    "kl_div",
    "margin_ranking_loss",
    "norm_except_dim",
    "pdist",
    "poisson_nll_loss",
    "rrelu",
    "rrelu_",
    "selu_",
    "threshold_",
    "triplet_margin_loss",
]

_REDUCTIONS = ("none", "mean", "sum")

adaptive_avg_pool1d, avg_pool1d = F.adaptive_avg_pool1d, F.avg_pool1d
adaptive_max_pool1d = F.adaptive_max_pool1d_with_indices
celu_, selu_, threshold_, pdist = F.celu_, F.selu_, F.threshold_, F.pdist
conv_tbc = F.conv_tbc


def _word(op: str, reduction: int) -> str:
    """The reduction in words. Raises ValueError."""
    if reduction not in range(3):
        raise ArgumentError(f"{op}: {reduction} is no reduction: 0 is none, 1 is mean, 2 is sum")
    return _REDUCTIONS[reduction]


# -- dropout --------------------------------------------------------------------------------


def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.alpha_dropout`."""
    return F.alpha_dropout(input, p, train)


def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`alpha_dropout` in place."""
    return F.alpha_dropout(input, p, train, inplace=True)


def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`dropout` in place."""
    return F.dropout(input, p, train, inplace=True)


def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Dropout of whole channels: of all that lies behind the first two dims."""
    if not train:
        return input
    mask = F.dropout(full_beside(input, input.shape[:2], 1), p)
    return input * mask.reshape(*input.shape[:2], *[1] * (input.dim() - 2))


@short_errors
def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`feature_dropout` in place."""
    return input.copy_(feature_dropout(input, p, train))


def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.feature_alpha_dropout`."""
    return F.feature_alpha_dropout(input, p, train)


def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`feature_alpha_dropout` in place."""
    return F.feature_alpha_dropout(input, p, train, inplace=True)


@short_errors
def rrelu(
    input: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Generator | None = None,
) -> Tensor:
    """`nn.functional.rrelu`; a generator draws the slopes."""
    if not training or generator is None:
        return F.rrelu(input, lower, upper, training)
    slope = ops.empty_like(input).uniform_(lower, upper, generator=generator)
    return ops.where(input < 0, input * slope, input)  # type: ignore[no-any-return]


@short_errors
def rrelu_(
    input: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Generator | None = None,
) -> Tensor:
    """`rrelu` in place."""
    return input.copy_(rrelu(input, lower, upper, training, generator))


# -- normalisation --------------------------------------------------------------------------


def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """`nn.functional.batch_norm`."""
    return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """`nn.functional.instance_norm`."""
    return F.instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norm over all dims but `dim`, which keep an extent of 1; over all dims for -1."""
    if dim == -1:
        return ops.norm(v, pow)  # type: ignore[no-any-return]
    others = tuple(d for d in range(v.dim()) if d != dim)
    return ops.norm(v, pow, others, keepdim=True)  # type: ignore[no-any-return]


# -- look-ups -------------------------------------------------------------------------------


def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(y, bag of each index, size of each bag, row of each maximum) of `F.embedding_bag`.

    mode: 0 adds up rows, 1 takes the mean, 2 the maximum   padding_idx: rows that do not count
    size: of a bag, without padding   row: the size again where the mode is no maximum
    """
    if mode not in range(3):
        raise ValueRefused(f"embedding_bag: {mode} is no mode: 0 is sum, 1 is mean, 2 is max")
    if padding_idx is not None and not -weight.size(0) <= padding_idx < weight.size(0):
        raise ValueRefused(
            f"embedding_bag: padding_idx must be from {-weight.size(0)} to {weight.size(0) - 1}, "
            f"but got {padding_idx}"
        )
    result = F.embedding_bag(
        indices, weight, offsets, None, 2.0, scale_grad_by_freq, ("sum", "mean", "max")[mode],
        sparse, per_sample_weights, include_last_offset, padding_idx,
    )  # fmt: skip
    with no_grad():
        starts = offsets[:-1] if include_last_offset else offsets
        places = arange(indices.numel(), dtype=offsets.dtype, device=offsets.device)
        bags = (starts.unsqueeze(0) <= places.unsqueeze(1)).sum(1).to(offsets.dtype) - 1
        counts = ones_like(indices, dtype=offsets.dtype)
        if padding_idx is not None:
            counts = (indices != padding_idx % weight.size(0)).to(offsets.dtype)
        if include_last_offset:  # indices behind the last offset belong to no bag
            counts = counts * (places < offsets[-1]).to(offsets.dtype)
        sizes = zeros_like(starts).index_add(0, bags, counts)
        rows = _rows_of_maxima(weight, indices, result, bags, counts) if mode == 2 else sizes
    return result, bags, sizes, rows


def _rows_of_maxima(
    weight: Tensor, indices: Tensor, result: Tensor, bags: Tensor, counts: Tensor
) -> Tensor:
    """For each bag and column the row of the table that holds the first maximum, 0 if empty."""
    count = indices.numel()
    if not count or not result.size(0):
        return zeros_like(result, dtype=indices.dtype)
    looked_up = weight[indices]
    holds = (looked_up == result[bags]) & (counts != 0).unsqueeze(1)
    places = arange(count).unsqueeze(1)
    first = ops.where(holds, places, count)
    least = full_beside(first, tuple(result.shape), count)
    least = least.scatter_reduce(0, bags.long().unsqueeze(1).expand_as(first), first, "amin")
    rows = ops.cat([indices, zeros_like(indices[:1])], 0)
    return rows[least]


# -- losses ---------------------------------------------------------------------------------


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: int = 1,
) -> Tensor:
    """`nn.functional.binary_cross_entropy_with_logits`."""
    word = _word("binary_cross_entropy_with_logits", reduction)
    return F.binary_cross_entropy_with_logits(
        input, target, weight, reduction=word, pos_weight=pos_weight
    )


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """`nn.functional.cosine_embedding_loss`."""
    word = _word("cosine_embedding_loss", reduction)
    return F.cosine_embedding_loss(input1, input2, target, margin, reduction=word)


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> Tensor:
    """`nn.functional.ctc_loss`."""
    word = _word("ctc_loss", reduction)
    return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, word, zero_infinity)


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 1
) -> Tensor:
    """`nn.functional.hinge_embedding_loss`."""
    word = _word("hinge_embedding_loss", reduction)
    return F.hinge_embedding_loss(input, target, margin, reduction=word)


@short_errors
def kl_div(
    input: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False
) -> Tensor:
    """`nn.functional.kl_div`."""
    return F.kl_div(input, target, reduction=_word("kl_div", reduction), log_target=log_target)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """`nn.functional.margin_ranking_loss`."""
    word = _word("margin_ranking_loss", reduction)
    return F.margin_ranking_loss(input1, input2, target, margin, reduction=word)


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int
) -> Tensor:
    """`nn.functional.poisson_nll_loss`."""
    word = _word("poisson_nll_loss", reduction)
    return F.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=word)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 1,
) -> Tensor:
    """`nn.functional.triplet_margin_loss`."""
    word = _word("triplet_margin_loss", reduction)
    return F.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=word)
