"""Creation functions of the array API."""

from __future__ import annotations

from typing import Any

import wend
from wend._engine.base import dtypes
from wend._engine.base.dtypes import DType
from wend._engine.base.errors import ValueRefused
from wend.xp._operands import Array, functions

__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]


def _shape(shape: Any) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: DType | None = None,
    device: Any = None,
) -> Array:
    """start, start + step, ... below stop; 0, 1, ... below start, if that is the only number."""
    if stop is None:
        start, stop = 0, start
    if (step > 0 and stop <= start) or (step < 0 and stop >= start):
        if dtype is None:
            whole = all(isinstance(n, int) for n in (start, stop, step))
            dtype = dtypes.int64 if whole else dtypes.get_default_dtype()
        return wend.empty(0, dtype=dtype, device=device)
    return wend.arange(start, stop, step, dtype=dtype, device=device)


def asarray(
    obj: Any, /, *, dtype: DType | None = None, device: Any = None, copy: bool | None = None
) -> Array:
    """An array of numbers, nested sequences, or another array.

    copy: True always copies; False raises ValueRefused where a copy would be needed; None copies
    if needed
    """
    if isinstance(obj, wend.Tensor):
        wanted = dtype or obj.dtype
        if wanted is not obj.dtype:
            if copy is False:
                raise ValueRefused(f"asarray: a copy is needed to convert to {wanted}")
            return obj.to(wanted)
        return obj.clone() if copy else obj
    if copy is False and isinstance(obj, (bool, int, float, complex, list, tuple)):
        raise ValueRefused("asarray: a copy is needed of Python numbers")
    make = wend.tensor if copy else wend.asarray
    return make(obj, dtype=dtype, device=device)


def empty(shape: Any, *, dtype: DType | None = None, device: Any = None) -> Array:
    """An array with arbitrary elements."""
    return wend.empty(_shape(shape), dtype=dtype, device=device)


def empty_like(x: Array, /, *, dtype: DType | None = None, device: Any = None) -> Array:
    """An array with arbitrary elements, of x's shape and type."""
    return wend.empty(tuple(x.shape), dtype=dtype or x.dtype, device=device)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: DType | None = None,
    device: Any = None,
) -> Array:
    """Ones on the k-th diagonal, zeros elsewhere."""
    columns = n_rows if n_cols is None else n_cols
    matrix = wend.zeros((n_rows, columns), dtype=dtype, device=device)
    if -n_rows < k < columns:
        matrix.diagonal(k).fill_(1)
    return matrix


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array that shares the memory of another library's array, or a copy."""
    array = wend.from_dlpack(x)
    return array.clone() if copy else array


def full(shape: Any, fill_value: Any, *, dtype: DType | None = None, device: Any = None) -> Array:
    """An array with every element `fill_value`."""
    return wend.full(_shape(shape), fill_value, dtype=dtype, device=device)


def full_like(
    x: Array, /, fill_value: Any, *, dtype: DType | None = None, device: Any = None
) -> Array:
    """An array of x's shape and type with every element `fill_value`."""
    return wend.full(tuple(x.shape), fill_value, dtype=dtype or x.dtype, device=device)


def linspace(
    start: Any,
    stop: Any,
    /,
    num: int,
    *,
    dtype: DType | None = None,
    device: Any = None,
    endpoint: bool = True,
) -> Array:
    """`num` numbers at equal distances from start to stop, stop left out without `endpoint`."""
    if endpoint:
        return wend.linspace(start, stop, num, dtype=dtype, device=device)
    return wend.linspace(start, stop, num + 1, dtype=dtype, device=device)[:num]


def meshgrid(*arrays: Array, indexing: str = "xy") -> list[Array]:
    """The coordinates of a grid, of 1-d arrays of coordinates."""
    return list(functions.meshgrid(*arrays, indexing=indexing)) if arrays else []


def ones(shape: Any, *, dtype: DType | None = None, device: Any = None) -> Array:
    """An array of ones."""
    return wend.ones(_shape(shape), dtype=dtype, device=device)


def ones_like(x: Array, /, *, dtype: DType | None = None, device: Any = None) -> Array:
    """Ones in x's shape and type."""
    return full_like(x, 1, dtype=dtype, device=device)


def tril(x: Array, /, *, k: int = 0) -> Array:
    """The lower triangle of matrices, up to the k-th diagonal; zeros elsewhere."""
    return wend.tril(x, k)


def triu(x: Array, /, *, k: int = 0) -> Array:
    """The upper triangle of matrices, from the k-th diagonal; zeros elsewhere."""
    return wend.triu(x, k)


def zeros(shape: Any, *, dtype: DType | None = None, device: Any = None) -> Array:
    """An array of zeros."""
    return wend.zeros(_shape(shape), dtype=dtype, device=device)


def zeros_like(x: Array, /, *, dtype: DType | None = None, device: Any = None) -> Array:
    """Zeros in x's shape and type."""
    return full_like(x, 0, dtype=dtype, device=device)
