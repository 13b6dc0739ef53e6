"""Connectionist temporal classification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wend._engine.base.dtypes import float32, float64
from wend._engine.base.errors import DTypeNotImplemented, ValueRefused
from wend._frontend.toolkit import Tensor, ops, tensor

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
    rows = _target_rows(targets, sizes)
    losses = []
    for n, (row, count) in enumerate(zip(rows, steps, strict=True)):
        scores = log_probs[:count, n]
        # Adds 0, whose gradient turns that of the rest into log_softmax's.
        mass = ops.exp(ops.clamp(scores, max=80)).sum()
        losses.append(_negative_log(scores, row, blank) + (mass - mass.detach()))
    loss = ops.stack(losses)
    impossible = 0.0 if zero_infinity else float("inf")
    loss = loss.masked_fill(loss > -_NEVER / 10, impossible)
    if reduction == "mean":
        divisors = tensor([float(max(size, 1)) for size in sizes], dtype=loss.dtype)
        return (loss / divisors).mean()
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


def _target_rows(targets: Tensor, sizes: list[int]) -> list[list[int]]:
    values = targets.tolist()
    if targets.dim() == 2:
        return [row[:size] for row, size in zip(values, sizes, strict=True)]
    rows, start = [], 0
    for size in sizes:
        rows.append(values[start : start + size])
        start += size
    return rows


def _negative_log(log_probs: Tensor, target: list[int], blank: int) -> Tensor:
    """-log p(target) by the forward recursion over states; log_probs: (T, C)."""
    states = [blank]
    for label in target:
        states += [label, blank]
    count = len(states)
    scores = log_probs[:, states]
    may_jump = [i >= 2 and states[i] != blank and states[i] != states[i - 2] for i in range(count)]
    dtype = log_probs.dtype
    jumps = tensor([0.0 if allowed else _NEVER for allowed in may_jump], dtype=dtype)
    starts = tensor([0.0 if i < 2 else _NEVER for i in range(count)], dtype=dtype)
    if log_probs.shape[0] == 0:
        final = starts - (0.0 if count == 1 else -_NEVER)
        return -final[0]
    alpha = scores[0] + starts
    for t in range(1, log_probs.shape[0]):
        ways = [alpha, ops.pad(alpha, (1, 0), value=_NEVER)[:count]]
        if count > 2:
            ways.append(ops.pad(alpha, (2, 0), value=_NEVER)[:count] + jumps)
        alpha = ops.logsumexp(ops.stack(ways), 0) + scores[t]
    return -ops.logsumexp(alpha[-2:], 0)
