"""The bits of numbers of 8 bits, and the numbers of all bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from wend._engine.base.dtypes import AbsentDType

__all__ = ["bits_of", "numbers_of"]


_GREATEST = np.float32(448)  # of float8_e4m3fn, which has no infinity


def bits_of(numbers: Any, dtype: AbsentDType) -> np.ndarray[Any, Any]:
    """The nearest numbers of a type, ties to even, as bytes: PyTorch's bits, by way of float32.

    Finite numbers beyond the range of `float8_e4m3fn` become its greatest.
    """
    with np.errstate(all="ignore"):
        exact = np.asarray(numbers).astype(np.float32)
        if dtype.name == "float8_e4m3fn":
            exact = np.where(np.isnan(exact), exact, np.clip(exact, -_GREATEST, _GREATEST))
        bits = exact.astype(dtype.numpy).view(np.uint8)
        if dtype.name == "float8_e5m2":  # all ones, of the many bytes that are no number
            bits = np.where(np.isnan(exact), bits | np.uint8(0x7F), bits)
    return bits


def numbers_of(dtype: AbsentDType) -> np.ndarray[Any, Any]:
    """The number that each of the 256 bytes stands for, in float32."""
    numbers = np.arange(256, dtype=np.uint8).view(dtype.numpy).astype(np.float32)
    if dtype.name.endswith("fnuz"):  # whose only NaN has no sign
        numbers[np.isnan(numbers)] = np.nan
    return numbers
