"""All contact of data loading with tensors: no module beside it uses further parts of Wend.

Samples travel between processes as NumPy arrays, never as pending values: a worker's trace ends
where arrays leave the worker, so that no fork can disturb the trace of the parent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np

from wend._engine.base.devices import CPU
from wend._engine.base.dtypes import NAMES, float64, from_numpy, int64
from wend._engine.core import _hot, _types
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._frontend import creation, random
from wend._frontend.interop.exchange import array_of
from wend._frontend.random import Generator


def is_tensor(value: object) -> TypeGuard[Tensor]:
    """Tell whether the value is a Tensor (or of a subclass)."""
    return isinstance(value, Tensor)


def to_array(tensor: Tensor) -> np.ndarray:
    """Return a tensor's values, computed if pending; to be copied from at once."""
    return array_of(tensor)


def rows(tensor: Tensor, indices: Sequence[int]) -> Tensor:
    """Return the entries of a tensor's first dim at the indices, as a new tensor.

    indices: each in range.
    """
    return from_array(to_array(tensor)[list(indices)])


def from_array(array: np.ndarray) -> Tensor:
    """Return a Tensor that takes over an array that nobody else knows.

    Raises TypeError for element types that tensors lack.
    """
    native = np.require(array, array.dtype.newbyteorder("="), ["C", "A", "W"])
    type_ = _types.intern_type(native.shape, from_numpy(native.dtype), CPU)
    return _hot.wrap(_hot.held(type_, native))


def alias(array: np.ndarray) -> Tensor:
    """Return a Tensor over an array that its owner goes on using; over a copy if read-only."""
    return creation.from_numpy(array if array.flags.writeable else array.copy())


def tensor(values: Sequence[Any], dtype: str | None = None) -> Tensor:
    """Return a Tensor of numbers, of the dtype of that name if a name is given."""
    return creation.tensor(values, dtype=NAMES[dtype] if dtype else None)


def stack(tensors: Sequence[Tensor]) -> Tensor:
    """Return the tensors stacked along a new first dim, with history."""
    return ops.stack(list(tensors))


def nested(tensors: Sequence[Tensor]) -> Tensor:
    """Return the tensors, of equal rank, as a nested tensor, with history."""
    from wend.nested.creation import as_nested_tensor  # few programs need nested tensors

    return as_nested_tensor(list(tensors))


def generator(seed: int) -> Generator:
    """Return a new Generator with this seed."""
    return random.Generator().manual_seed(seed)


def new_seed(source: Generator | None = None) -> int:
    """Draw a seed in [0, 2**62) from a Generator, or from the default generator."""
    drawn: Tensor = random.randint(0, 2**62, (), dtype=int64, generator=source)
    return int(drawn.item())


def permutation(count: int, source: Generator | None = None) -> list[int]:
    """Draw a random order of range(count)."""
    order: Tensor = random.randperm(count, generator=source)
    numbers: list[int] = order.tolist()
    return numbers


def integers(high: int, count: int, source: Generator | None = None) -> list[int]:
    """Draw ``count`` numbers from range(high), with repeats."""
    drawn: Tensor = random.randint(0, high, (count,), dtype=int64, generator=source)
    numbers: list[int] = drawn.tolist()
    return numbers


def uniforms(count: int, source: Generator | None = None) -> np.ndarray:
    """Draw ``count`` float64 numbers from [0, 1)."""
    return to_array(random.rand(count, dtype=float64, generator=source))


def seed_default(seed: int) -> None:
    """Seed the default generator of this process."""
    random.manual_seed(seed)
