"""A tensor's note that it is a part of a larger tensor, whose other parts other ranks have."""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import numpy as np

from wend._engine.base.devices import CPU
from wend._engine.base.dtypes import from_numpy
from wend._engine.core import _hot, _types
from wend._engine.core._hot import Tensor

__all__ = [
    "Shard",
    "array_of",
    "full_tensor",
    "mark",
    "mark_gradient",
    "part_of",
    "rows_of",
    "shard_of",
    "tensor_of",
]


def rows_of(rows: int, ranks: int, rank: int) -> tuple[int, int]:
    """The rows (begin, end) of a rank: equal numbers, with fewer or none for the last ranks."""
    most = -(-rows // ranks)
    begin = min(rank * most, rows)
    return begin, min(begin + most, rows)


class Shard(NamedTuple):
    """Rows of a tensor that a group of ranks has, in the order of the ranks.

    shape: of the whole   begin: the first row   ranks: see `_sharding.ranks.Ranks`
    """

    shape: tuple[int, ...]
    begin: int
    ranks: Any


def shard_of(tensor: Tensor) -> Shard | None:
    """The note of a tensor; None for a tensor that is a whole by itself."""
    shard: Shard | None = getattr(tensor, "_shard", None)
    return shard


def mark(tensor: Any, shard: Shard) -> Any:
    """Note that a tensor is a part; `full_tensor()` and `to_local()` are then its methods."""
    tensor._shard = shard
    tensor.full_tensor = lambda: full_tensor(tensor)
    tensor.to_local = lambda: tensor.detach()
    return tensor


def mark_gradient(parameter: Tensor) -> None:
    """Note that the gradient of a sharded parameter is a part; the note keeps no memory."""
    gradient, shard = parameter._grad, shard_of(parameter)
    if gradient is None or shard is None or shard_of(gradient) is shard:
        return
    gradient._shard = shard
    seen: Any = weakref.ref(gradient)
    gradient.full_tensor = lambda: full_tensor(seen())
    gradient.to_local = lambda: seen().detach()


def array_of(tensor: Tensor) -> np.ndarray:
    """The elements of a tensor, computed; not to be written to."""
    array = np.ascontiguousarray(_hot.ensure(_hot.refreshed(tensor)))
    return array.reshape(tuple(tensor.shape))  # NumPy gives arrays without dims a dim


def tensor_of(array: np.ndarray) -> Tensor:
    """A tensor that owns an array, which nobody else may write to from now on."""
    held = _hot.held(_types.intern_type(array.shape, from_numpy(array.dtype), CPU), array)
    tensor: Tensor = _hot.wrap(held)
    return tensor


def full_tensor(tensor: Tensor) -> Tensor:
    """The whole that a tensor is a part of, in all ranks; all ranks of the group call.

    A tensor that is no part is returned as it is, detached.
    """
    shard = shard_of(tensor)
    if shard is None:
        return tensor.detach()
    mine = array_of(tensor.detach()).reshape(-1)
    row = int(np.prod(shard.shape[1:], dtype=np.int64))
    size = shard.ranks.size
    counts = [
        (end - begin) * row
        for begin, end in (rows_of(shard.shape[0], size, rank) for rank in range(size))
    ]
    whole = shard.ranks.gather(mine, counts)
    return tensor_of(whole.reshape(shard.shape))


def part_of(whole: Tensor, shard: Shard, shape: tuple[int, ...]) -> Tensor:
    """The rows of a whole that a rank has. shape: of the part"""
    return whole.detach()[shard.begin : shard.begin + shape[0]]
