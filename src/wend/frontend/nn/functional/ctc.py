"""Connectionist temporal classification."""

from __future__ import annotations

from typing import Any

from wend.frontend.nn._core import Tensor, ops, tensor

__all__ = ["ctc_loss"]

# Stands for log(0): a finite number keeps the gradients of impossible paths at zero.
_NEVER = -1e30


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """-log of the probability of all alignments of the targets (Graves et al., 2006), reduced.

    log_probs: (T, N, C) or (T, C)   targets: (N, S), or all targets in one row
    The mean divides each loss by its target's length.
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    single = log_probs.dim() == 2
    if single:
        log_probs = log_probs.unsqueeze(1)
    steps, sizes = _lengths(input_lengths), _lengths(target_lengths)
    rows = _target_rows(targets, sizes)
    losses = []
    for n, (row, count) in enumerate(zip(rows, steps, strict=True)):
        losses.append(_negative_log(log_probs[:count, n], row, blank))
    loss = ops.stack(losses)
    impossible = 0.0 if zero_infinity else float("inf")
    loss = loss.masked_fill(loss > -_NEVER / 10, impossible)
    if reduction == "mean":
        divisors = tensor([float(max(size, 1)) for size in sizes], dtype=loss.dtype)
        return (loss / divisors).mean()
    if reduction == "sum":
        return loss.sum()
    return loss.squeeze(0) if single else loss


def _lengths(lengths: Any) -> list[int]:
    if isinstance(lengths, Tensor):
        lengths = lengths.tolist()
    return list(lengths) if isinstance(lengths, (list, tuple)) else [lengths]


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
