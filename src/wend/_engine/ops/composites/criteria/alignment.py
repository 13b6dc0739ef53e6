"""Sums over all alignments of a sequence of scores with a sequence of labels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wend._engine.base.dtypes import int64
from wend._engine.base.errors import ShapeError
from wend._engine.core.kinds import Size, Tensor
from wend._engine.core.primitive import Sample, composite, ops
from wend._engine.core.symbolic import hints

#: Stands for log(0): a finite number keeps the gradients of impossible paths at zero.
NEVER = -1e30


def _samples(rng: np.random.Generator) -> Iterator[Sample]:
    for shape, width in (((5, 2, 4), 2), ((3, 2, 3), 1), ((3, 2, 3), 0), ((4, 3, 3), 1)):
        scores = rng.normal(size=shape)
        labels = np.full((shape[1], width), 2)
        ends = rng.integers(0, width + 1, shape[1])
        yield Sample(scores, labels, ends)
        yield Sample(scores, labels, ends, rng.integers(2 * width, shape[0] + 1, shape[1]), 1)


@composite(samples=_samples, supports=frozenset({"float"}))
def alignment_loss(
    log_probs: Tensor,
    targets: Tensor,
    ends: Tensor,
    counts: Tensor | None = None,
    blank: Size = 0,
) -> Tensor:
    """y = -log of the sum over all alignments, by the forward recursion over states.

    log_probs: (T, N, C)   targets: (N, S)   ends: how many labels an example has
    counts: how many of the T steps; None if all   ->   y: (N,)
    A state is a label or a blank before, between or behind labels. Alignments that are impossible
    have scores about -1e30.
    """
    name = "alignment_loss"
    if len(log_probs.shape) != 3 or len(targets.shape) != 2:
        raise ShapeError(
            f"{name}: log_probs must have 3 dims and targets 2, and they have shapes "
            f"{hints(log_probs.shape)} and {hints(targets.shape)}"
        )
    longest, batch, _ = log_probs.shape
    width, dtype = targets.shape[1], log_probs.dtype
    ends = ops.cast(ends, int64)
    never = ops.full((), NEVER, dtype=dtype)
    nothing = ops.where(ops.eq(ends, 0), ops.full((), 0, dtype=dtype), ops.neg(never))
    inside = ops.lt(ops.arange(0, width, 1, width, dtype=int64), ops.unsqueeze(ends, 1))
    labels = ops.where(inside, ops.cast(targets, int64), blank)
    blanks = ops.full((batch, width), blank, dtype=int64)
    states = ops.reshape(ops.stack([blanks, labels], 2), (batch, 2 * width))
    states = ops.cat([states, ops.full((batch, 1), blank, dtype=int64)], 1)
    n_states = 2 * width + 1
    scores = ops.gather(log_probs, 2, ops.expand(states, (longest, batch, n_states)))
    # From a state to itself, from the state before, and over a blank.
    here, before = ops.slice(states, 1, 2, None), ops.slice(states, 1, 0, -2)
    differs = ops.logical_and(ops.ne(here, blank), ops.ne(here, before))
    nowhere = ops.full((batch, 2), False)
    jump = ops.slice(ops.cat([nowhere, differs], 1), 1, 0, n_states)
    over = ops.where(jump, scores, never)
    first = ops.eq(ops.arange(0, longest, 1, longest, dtype=int64), 0)
    begins = ops.logical_and(
        ops.unsqueeze(ops.unsqueeze(first, 1), 1),
        ops.lt(ops.arange(0, n_states, 1, n_states, dtype=int64), 2),
    )
    ways = ops.stack([scores, scores, over], 0)
    sums = ops.log_band_scan(ways, ops.where(begins, scores, never))
    if counts is None:
        sums = ops.select(sums, 0, longest - 1)
    else:
        at = ops.clamp(ops.sub(ops.cast(counts, int64), 1), 0)
        at = ops.expand(ops.unsqueeze(ops.unsqueeze(at, 1), 0), (1, batch, n_states))
        sums = ops.squeeze(ops.gather(sums, 0, at), 0)
    last = ops.unsqueeze(ops.mul(ends, 2), 1)
    final = ops.squeeze(ops.gather(sums, 1, last), 1)
    other = ops.squeeze(ops.gather(sums, 1, ops.clamp(ops.sub(last, 1), 0)), 1)
    final = ops.logaddexp(final, ops.where(ops.eq(ends, 0), never, other))
    loss = ops.neg(final)
    return loss if counts is None else ops.where(ops.eq(counts, 0), nothing, loss)
