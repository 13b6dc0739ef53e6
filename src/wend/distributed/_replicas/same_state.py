"""Parameters and buffers made the same in all ranks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from wend._engine.base.errors import GraphError
from wend._engine.core import _hot, _types
from wend.distributed._engine import Channel, gather_bytes

__all__ = ["broadcast_all", "check_same"]


def check_same(channel: Channel, rows: Iterable[tuple[str, Any]]) -> None:
    """Raise GraphError (a RuntimeError) unless all ranks have the same tensors in this order.

    rows: names and tensors
    """
    mine = [[name, str(t.dtype), list(t.shape)] for name, t in rows]

    def call(line: Any) -> list[Any]:
        return [json.loads(text) for text in gather_bytes(line, json.dumps(mine).encode())]

    # Sizes may differ, which all ranks have to see: the call itself says nothing about sizes.
    work = channel.run(("DistributedDataParallel", "parameters"), call)
    rows_by_rank: list[list[Any]] = work.found
    first = rows_by_rank[0]
    for rank, rows_there in enumerate(rows_by_rank):
        if len(rows_there) != len(first):
            raise GraphError(
                "DistributedDataParallel: all ranks need the same model: rank 0 has "
                f"{len(first)} parameters, and rank {rank} has {len(rows_there)}"
            )
        for here, there in zip(first, rows_there, strict=True):
            if here != there:
                raise GraphError(
                    "DistributedDataParallel: all ranks need the same model: rank 0 has "
                    f"{_told(here)}, and rank {rank} has {_told(there)} in its place"
                )


def _told(row: list[Any]) -> str:
    name, dtype, shape = row
    return f"{name} of {dtype}{shape}"


def broadcast_all(channel: Channel, tensors: Sequence[Any], root: int) -> None:
    """Give all ranks the root's content of these tensors: a call for each dtype."""
    by_dtype: dict[Any, list[Any]] = {}
    for t in tensors:
        by_dtype.setdefault(t.dtype, []).append(t)
    for dtype, some in by_dtype.items():
        sizes = [int(t.numel()) for t in some]
        flat = np.empty(sum(sizes), dtype.numpy)
        is_root = channel.line.rank == root  # ranks have other numbers after a loss
        if is_root:
            parts = [np.asarray(_hot.ensure(_hot.value_of(t.detach()))).reshape(-1) for t in some]
            if parts:
                np.concatenate(parts, out=flat)

        def call(line: Any, flat: Any = flat) -> None:
            line.broadcast(flat, root)

        channel.run(("broadcast of a module", str(dtype), f"[{flat.size}]"), call)
        if not is_root:
            hand_out(some, sizes, flat)


def hand_out(tensors: Sequence[Any], sizes: Sequence[int], flat: np.ndarray) -> None:
    """Write the parts of a flat array into tensors, without gradient."""
    from wend._frontend.autograd.grad_modes import no_grad

    with no_grad():
        end = 0
        for t, size in zip(tensors, sizes, strict=True):
            old = _hot.value_of(t).type
            type_ = _types.intern_type(tuple(old.shape), old.dtype, old.device)
            part = flat[end : end + size].reshape(tuple(old.shape))
            t.copy_(_hot.wrap(_hot.held(type_, part)))
            end += size
