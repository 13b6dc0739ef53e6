"""Numbers about whole tensors, of which each rank has rows: norms, and whether all is finite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import wend
from wend._engine.core._hot import Tensor
from wend.distributed._sharding.shards import shard_of, tensor_of

__all__ = ["any_rank_found", "whole_norms"]


def whole_norms(tensors: Sequence[Tensor], order: float) -> list[Tensor]:
    """The norm of each tensor, of sharded ones that of the whole; all ranks call alike.

    A call for each group of ranks tells the norms of all rows, which are added in float64.
    """
    norms: list[Any] = [None] * len(tensors)
    by_ranks: dict[int, list[int]] = {}
    for k, t in enumerate(tensors):
        shard = shard_of(t)
        if shard is None:
            norms[k] = wend.norm(t, order)
        else:
            by_ranks.setdefault(id(shard.ranks.channel), []).append(k)
    none = np.inf if order < 0 else 0.0
    for places in by_ranks.values():
        own = [wend.norm(tensors[k], order) for k in places if tensors[k].numel()]
        known = iter(np.atleast_1d(wend.stack(own).double().numpy()) if own else ())
        mine = np.array([next(known) if tensors[k].numel() else none for k in places])
        shard = shard_of(tensors[places[0]])
        assert shard is not None
        rows = shard.ranks.gather(mine, [mine.size] * shard.ranks.size).reshape(-1, mine.size)
        for k, value in zip(places, _joined(rows, order).tolist(), strict=True):
            norms[k] = wend.tensor(value, dtype=tensors[k].dtype)
    return norms


def _joined(rows: np.ndarray, order: float) -> np.ndarray:
    """The norms of wholes, from the norms of the parts in each row."""
    if order == 0:
        return np.asarray(rows.sum(0))
    with np.errstate(divide="ignore"):
        return np.asarray(np.linalg.norm(rows, order, axis=0))


def any_rank_found(parameters: Sequence[Any], found_inf: Tensor | None) -> Tensor | None:
    """Whether a rank has found something in the gradients of sharded parameters.

    found_inf: of this rank, None if it has no gradients
    Without sharded parameters nothing is sent.
    """
    seen: set[int] = set()
    for p in parameters:
        shard = shard_of(p)
        if shard is None or id(shard.ranks.channel) in seen:
            continue
        seen.add(id(shard.ranks.channel))
        mine = -1.0 if found_inf is None else float(found_inf)
        most = shard.ranks.add(mine, "max")
        found_inf = None if most < 0 else tensor_of(np.array(most > 0))
    return found_inf
