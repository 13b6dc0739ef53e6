"""Sparse gradients averaged over ranks: elements of all ranks put together."""

from __future__ import annotations

from typing import Any

import numpy as np

from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend._engine.transforms.hooks import made_of_parts
from wend.distributed._engine import Channel

__all__ = ["average"]


def average(channel: Channel, parameter: Tensor, gradient: Tensor, divisor: int) -> Tensor:
    """The sum over all ranks, divided, as a sparse tensor with places in order.

    gradient: of this rank: sparse, dense, or None for zeros
    """
    from wend._frontend.toolkit import tensor
    from wend.sparse.creation import sparse_coo_tensor

    places, values = parts_of(parameter, gradient)

    def call(line: Any) -> tuple[np.ndarray, np.ndarray, int]:
        shape = np.empty(2 * line.size, np.int64)
        line.all_gather(np.array(places.shape, np.int64), shape, [2] * line.size)
        dims, counts = int(shape[::2].max()), shape[1::2].tolist()
        mine = places if places.shape[0] == dims else np.empty((dims, 0), np.int64)
        all_places = np.empty(dims * sum(counts), np.int64)
        line.all_gather(
            np.ascontiguousarray(mine.T).reshape(-1), all_places, [dims * count for count in counts]
        )
        width = int(np.prod(parameter.shape[dims:], dtype=np.int64))
        data = np.empty(width * sum(counts), values.dtype)
        line.all_gather(values.reshape(-1), data, [width * count for count in counts])
        return all_places.reshape(-1, dims).T, data.reshape(-1, *parameter.shape[dims:]), dims

    what = ("gradients", str(values.dtype), "sparse", str(tuple(parameter.shape)))
    all_places, data, _ = channel.run(what, call).found
    np.divide(data, divisor, out=data, casting="unsafe")
    mean = sparse_coo_tensor(
        tensor(np.ascontiguousarray(all_places)), tensor(data), parameter.shape
    )
    return mean.coalesce()


def parts_of(parameter: Tensor, gradient: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """(places, values) of a gradient as arrays: (dims, elements) and (elements, ...)."""
    if gradient is None:
        return np.empty((0, 0), np.int64), np.empty(0, parameter.dtype.numpy)
    if made_of_parts(gradient):
        merged = gradient.coalesce()
        return _array(merged.indices()), _array(merged.values())
    rows = np.arange(gradient.shape[0], dtype=np.int64)
    return rows[None], _array(gradient)


def _array(t: Tensor) -> np.ndarray:
    array: np.ndarray = np.ascontiguousarray(_hot.ensure(_hot.value_of(t.detach())))
    return array
