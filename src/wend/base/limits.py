"""Numeric limits of the element types: `finfo` and `iinfo`."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from wend.base.dtypes import BOOL, INT, DType, get_default_dtype
from wend.base.errors import ArgumentTypeError


def _checked(name: str, dtype: Any) -> DType:
    if not isinstance(dtype, DType):
        raise ArgumentTypeError(
            f"{name}: argument 'type' must be a dtype, not {type(dtype).__name__}"
        )
    return dtype


class finfo:
    """Limits of a float type (of the real part for a complex one; of the default type if none).

    bits, eps (distance from 1 to the next number), min, max, smallest_normal (= tiny),
    resolution (10**-digits), dtype (its name). Raises ArgumentTypeError for bool and ints.
    """

    __slots__ = ("bits", "dtype", "eps", "max", "min", "resolution", "smallest_normal", "tiny")

    def __init__(self, type: DType | None = None) -> None:
        given = get_default_dtype() if type is None else _checked("finfo", type)
        if given.category <= INT:
            raise ArgumentTypeError(f"finfo: {given} is not a floating-point type; use iinfo")
        real = given.to_real()
        info: Any = ml_dtypes.finfo(real.numpy)  # type: ignore[no-untyped-call]
        self.bits: int = real.itemsize * 8
        self.dtype: str = real.name
        self.eps: float = float(info.eps)
        self.max: float = float(info.max)
        self.min: float = float(info.min)
        self.resolution: float = float(f"1e-{info.precision}")
        self.smallest_normal: float = float(info.smallest_normal)
        self.tiny: float = self.smallest_normal

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, "
            f"dtype={self.dtype})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and other.dtype == self.dtype

    def __hash__(self) -> int:
        return hash((finfo, self.dtype))


class iinfo:
    """Limits of an integer type: bits, min, max, dtype (its name). Raises ArgumentTypeError else."""

    __slots__ = ("bits", "dtype", "max", "min")

    def __init__(self, type: DType) -> None:
        given = _checked("iinfo", type)
        if given.category == BOOL:
            raise ArgumentTypeError("iinfo: torch.bool is not an integer type")
        if given.category != INT:
            raise ArgumentTypeError(f"iinfo: {given} is not an integer type; use finfo")
        info = np.iinfo(given.numpy)
        self.bits: int = info.bits
        self.dtype: str = given.name
        self.max: int = int(info.max)
        self.min: int = int(info.min)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and other.dtype == self.dtype

    def __hash__(self) -> int:
        return hash((iinfo, self.dtype))
