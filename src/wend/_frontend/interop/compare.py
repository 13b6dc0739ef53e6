"""How far two arrays are apart: the numbers behind `assert_close`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from wend._engine.base.dtypes import FLOAT, from_numpy, promote_types

__all__ = ["Difference", "compare", "filled", "values_of"]

Array = np.ndarray[Any, Any]


class Difference(NamedTuple):
    """Where two arrays differ too much. Places are indices of the largest differences."""

    mismatched: int
    total: int
    absolute: Any
    absolute_place: tuple[int, ...]
    relative: Any
    relative_place: tuple[int, ...]


def compare(
    actual: Array, expected: Array, rtol: float, atol: float, equal_nan: bool
) -> Difference | None:
    """None where |actual - expected| <= atol + rtol * |expected| for all elements.

    actual, expected: of equal shape. Differing types are promoted first.
    """
    dtype = promote_types(from_numpy(actual.dtype), from_numpy(expected.dtype))
    with np.errstate(all="ignore"):
        # Integers are subtracted as int64, as bool cannot be subtracted at all.
        work = dtype.numpy if dtype.category >= FLOAT else np.dtype(np.int64)
        a, b = actual.astype(work), expected.astype(work)
        close = _close(a, b, rtol, atol, equal_nan)
        if close.all():
            return None
        absolute = np.abs(a - b)
        scale = np.abs(b)
        if dtype.category < FLOAT:
            relative = absolute.astype(np.float32) / scale.astype(np.float32)
        else:
            relative = absolute / scale
    # Close elements do not count, however far apart they may be relatively.
    absolute, relative = np.where(close, 0, absolute), np.where(close, 0, relative)
    largest, far = _largest(absolute), _largest(relative)
    return Difference(
        int((~close).sum()),
        int(close.size),
        absolute[largest].item(),
        largest,
        relative[far].item(),
        far,
    )


def _close(a: Array, b: Array, rtol: float, atol: float, equal_nan: bool) -> Array:
    if rtol == 0 and atol == 0 and a.dtype.kind in "iu":
        return np.asarray(a == b)
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    x, y = a.astype(wide), b.astype(wide)
    difference = np.abs(x - y)
    close = (a == b) | (np.isfinite(difference) & (difference <= atol + rtol * np.abs(y)))
    if equal_nan:
        close |= np.isnan(x) & np.isnan(y)
    return np.asarray(close)


def _largest(values: Array) -> tuple[int, ...]:
    """Index of the largest element; of the first nan if there is any."""
    wide = values.astype(np.float64)
    flat = np.argmax(wide) if not np.isnan(wide).any() else np.argmax(np.isnan(wide))
    return tuple(int(i) for i in np.unravel_index(flat, values.shape))


def values_of(data: object) -> Array | None:
    """The array of a NumPy array or number; None for anything else."""
    if isinstance(data, (np.ndarray, np.generic)):
        return np.asarray(data)
    return None


def filled(array: Array, zeros_become: object) -> Array:
    """The array with zeros replaced."""
    return np.where(array == 0, np.asarray(zeros_become, dtype=array.dtype), array)
