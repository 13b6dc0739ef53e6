"""Connectionist temporal classification."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from wend._engine.base.dtypes import float32, float64
from wend._engine.base.errors import ArgumentError, DTypeNotImplemented, ValueRefused
from wend._engine.ops.composites.criteria.alignment import NEVER
from wend._frontend.toolkit import Tensor, arange, ops, tensor

__all__ = ["ctc_loss"]


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
        raise ArgumentError(f"{reduction} is not a valid value for reduction")
    single = log_probs.dim() == 2
    if single:
        log_probs = log_probs.unsqueeze(1)
    longest, batch, classes = log_probs.shape
    steps = _lengths("input_lengths", input_lengths, batch, longest)
    bound = targets.shape[1] if targets.dim() == 2 else targets.numel()
    sizes = _lengths("target_lengths", target_lengths, batch, bound)
    if not 0 <= blank < classes:
        raise ValueRefused(f"ctc_loss: blank must be one of the {classes} labels, and is {blank}")
    labels = _rows(targets, sizes)
    ends = target_lengths if isinstance(target_lengths, Tensor) else tensor(sizes)
    ends = ends.reshape(batch)
    counts = None if min(steps, default=0) == longest else tensor(steps, device=log_probs.device)
    if longest:
        loss = ops.alignment_loss(log_probs, labels, ends, counts, blank)
    else:
        loss = ops.where(ends == 0, log_probs.new_zeros(()), -NEVER)
    # Adds 0, whose gradient turns that of the rest into log_softmax's.
    masses = ops.exp(ops.clamp(log_probs, max=80)).sum(2)
    if counts is not None:
        masses = masses * (arange(longest).unsqueeze(1) < counts)
    mass = masses.sum(0)
    loss = loss + (mass - mass.detach())
    impossible = 0.0 if zero_infinity else float("inf")
    loss = loss.masked_fill(loss > -NEVER / 10, impossible)
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


def _rows(targets: Tensor, sizes: list[int]) -> Tensor:
    """Return the labels as rows of one width, (N, S), with any numbers behind a row's own.

    targets: such rows, or all labels in a row
    """
    width = max(sizes, default=0)
    if targets.dim() == 2:
        return targets if targets.size(1) == width else targets[:, :width]
    if not width:
        return targets.new_zeros((len(sizes), 0))
    starts = tensor([0, *accumulate(sizes[:-1])]).unsqueeze(1)
    return targets[ops.clamp(starts + arange(width), max=targets.numel() - 1)]
