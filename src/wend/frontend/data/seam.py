"""Where data loading touches tensors: all that it needs of them, and nothing else of Wend.

Samples travel between processes as NumPy arrays, never as pending values: a worker's own trace
ends where its arrays leave it, so that no fork can disturb the trace of the parent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def api() -> Any:
    """Return the package itself: the public API, which this module is a part of."""
    import wend

    return wend


def is_tensor(value: object) -> bool:
    """Tell whether the value is a Tensor (or of a subclass)."""
    return isinstance(value, api().Tensor)


def to_array(tensor: Any) -> np.ndarray:
    """Return a tensor's values, computing them if they are pending; not to be written to."""
    plain = tensor.detach()
    try:
        array: np.ndarray = plain.numpy()
    except TypeError:  # bfloat16 has no array type in PyTorch's numpy(); its bits have
        array = np.asarray(plain)
    return array


def from_array(array: np.ndarray) -> Any:
    """Return a Tensor over the array's memory, of which nobody else may know."""
    if not array.flags.writeable:
        array = array.copy()
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if any(stride < 0 for stride in array.strides):
        array = array.copy()
    return api().from_numpy(array)


def alias(array: np.ndarray) -> Any:
    """Return a Tensor over an array that its owner goes on using; of a copy if it is read-only."""
    return api().from_numpy(array if array.flags.writeable else array.copy())


def tensor(values: Sequence[Any], dtype: str | None = None) -> Any:
    """Return wend.tensor(values), of the dtype of that name if one is given."""
    return api().tensor(values, dtype=getattr(api(), dtype) if dtype else None)


def stack(tensors: Sequence[Any]) -> Any:
    """Return the tensors stacked along a new first dim, with their history."""
    return api().stack(list(tensors))


def generator(seed: int) -> Any:
    """Return a new Generator with this seed."""
    return api().Generator().manual_seed(seed)


def new_seed(source: Any = None) -> int:
    """Draw a seed in [0, 2**62) from a Generator, or from the default one."""
    return int(api().randint(0, 2**62, (), dtype=api().int64, generator=source).item())


def permutation(count: int, source: Any = None) -> list[int]:
    """Draw a random order of range(count)."""
    order: list[int] = api().randperm(count, generator=source).tolist()
    return order


def integers(high: int, count: int, source: Any = None) -> list[int]:
    """Draw ``count`` numbers from range(high), with repeats."""
    drawn: list[int] = (
        api().randint(0, high, (count,), dtype=api().int64, generator=source).tolist()
    )
    return drawn


def uniforms(count: int, source: Any = None) -> np.ndarray:
    """Draw ``count`` float64 numbers from [0, 1)."""
    return to_array(api().rand(count, dtype=api().float64, generator=source))


def seed_default(seed: int) -> None:
    """Seed the default generator of this process."""
    api().manual_seed(seed)
