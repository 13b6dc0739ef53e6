"""Connectionist temporal classification."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from wend._engine.base.dtypes import float32, float64, int64
from wend._engine.base.errors import DTypeNotImplemented, ValueRefused
from wend._engine.core._hot import current_trace
from wend._engine.core.provenance import one_site
from wend._frontend.toolkit import Tensor, arange, full, ops, tensor

__all__ = ["ctc_loss"]

# Stands for log(0): a finite number keeps the gradients of impossible paths at zero.
_NEVER = -1e30


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """-log of the probability of all alignments of the targets (Graves et al., 2006), reduced.

    log_probs: (T, N, C) or (T, C)   targets: (N, S), or all targets in a row
    The mean divides each loss by the length of the target. The gradient is, as PyTorch's, that of
    scores of which log_probs are the log_softmax, also where they are none.
    Raises DTypeNotImplemented, ValueRefused for lengths and a blank that do not fit.
    """
    if log_probs.dtype not in (float32, float64):
        raise DTypeNotImplemented(f"ctc_loss: not implemented for {log_probs.dtype}")
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    single = log_probs.dim() == 2
    if single:
        log_probs = log_probs.unsqueeze(1)
    longest, batch, classes = log_probs.shape
    steps = _lengths("input_lengths", input_lengths, batch, longest)
    bound = targets.shape[1] if targets.dim() == 2 else targets.numel()
    sizes = _lengths("target_lengths", target_lengths, batch, bound)
    if not 0 <= blank < classes:
        raise ValueRefused(f"ctc_loss: blank must be one of the {classes} labels, and is {blank}")
    labels = _padded(targets, sizes, blank)
    ends, counts = tensor(sizes), None if min(steps, default=0) == longest else tensor(steps)
    with one_site(current_trace()):  # the recursion is many ops of a single line
        loss = _negative_log(log_probs, labels, ends, counts, blank)
    # Adds 0, whose gradient turns that of the rest into log_softmax's.
    masses = ops.exp(ops.clamp(log_probs, max=80)).sum(2)
    if counts is not None:
        masses = masses * (arange(longest).unsqueeze(1) < counts)
    mass = masses.sum(0)
    loss = loss + (mass - mass.detach())
    impossible = 0.0 if zero_infinity else float("inf")
    loss = loss.masked_fill(loss > -_NEVER / 10, impossible)
    if reduction == "mean":
        return (loss / ops.clamp(ends, min=1)).mean()
    if reduction == "sum":
        return loss.sum()
    return loss.squeeze(0) if single else loss


def _lengths(name: str, lengths: Any, batch: int, bound: int) -> list[int]:
    """A length per example, from 0 to bound. Raises ValueRefused."""
    if isinstance(lengths, Tensor):
        lengths = lengths.tolist()
    example_lengths = list(lengths) if isinstance(lengths, (list, tuple)) else [lengths]
    if len(example_lengths) != batch:
        raise ValueRefused(
            f"ctc_loss: {name} has {len(example_lengths)} lengths for {batch} examples"
        )
    for length in example_lengths:
        if not isinstance(length, int):
            raise ValueRefused(f"ctc_loss: {name} must be ints, and one is {length}")
        if not 0 <= length <= bound:
            raise ValueRefused(f"ctc_loss: {name} must lie from 0 to {bound}, and one is {length}")
    return example_lengths


def _padded(targets: Tensor, sizes: list[int], blank: int) -> Tensor:
    """Return the labels as rows of one width, (N, S): behind a row's own labels there are blanks.

    targets: rows of labels with any numbers behind a row's own, or all labels in a row
    """
    width = max(sizes, default=0)
    if targets.dim() == 2:
        rows = targets[:, :width]
    elif width:
        starts = tensor([0, *accumulate(sizes[:-1])]).unsqueeze(1)
        # Places behind the last label stand for blanks.
        rows = targets[ops.clamp(starts + arange(width), max=targets.numel() - 1)]
    else:
        rows = targets.new_zeros((len(sizes), 0))
    inside = arange(width) < tensor(sizes, dtype=int64).unsqueeze(1)
    return ops.where(inside, rows.to(int64), blank)


def _negative_log(
    log_probs: Tensor, labels: Tensor, ends: Tensor, counts: Tensor | None, blank: int
) -> Tensor:
    """Return -log p(labels) of each example, by the forward recursion over states; (N,).

    log_probs: (T, N, C)   labels: (N, S)   ends: how many labels an example has
    counts: how many of the T steps; None if all
    A state is a label or a blank before, between or behind labels. A state behind the last of an
    example leads to none before.
    """
    longest, batch, _ = log_probs.shape
    width = labels.shape[1]
    blanks = labels.new_full((batch, width), blank)
    states = ops.cat(
        [ops.stack([blanks, labels], 2).flatten(1), labels.new_full((batch, 1), blank)], 1
    )
    n_states = 2 * width + 1
    dtype = log_probs.dtype
    never = full((), _NEVER, dtype=dtype)
    nothing = ops.where(ends == 0, 0.0, -never)  # the loss without a step
    if longest == 0:
        return nothing
    scores = log_probs.gather(2, states.expand(longest, batch, n_states))
    alpha = ops.where(arange(n_states) < 2, scores[0], never)
    if width:
        jump = ops.pad((states[:, 2:] != blank) & (states[:, 2:] != states[:, :-2]), (2, 0))
    for t in range(1, longest):
        ways = alpha
        if width:  # from the state itself, the one before, and over a blank
            before = ops.pad(alpha, (2, 0), value=_NEVER)
            over = ops.where(jump, before[:, :-2], never)
            ways = ops.logaddexp(ops.logaddexp(alpha, before[:, 1:-1]), over)
        following = ways + scores[t]
        alpha = (
            following if counts is None else ops.where((counts > t).unsqueeze(1), following, alpha)
        )
    last = (2 * ends).unsqueeze(1)
    final = alpha.gather(1, last).squeeze(1)
    if width:
        before = alpha.gather(1, ops.clamp(last - 1, min=0)).squeeze(1)
        final = ops.logaddexp(final, ops.where(ends == 0, never, before))
    return -final if counts is None else ops.where(counts == 0, nothing, -final)
