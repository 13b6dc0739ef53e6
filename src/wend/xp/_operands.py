"""Operands of the standard's functions: numbers beside arrays, dims, the default types."""

from __future__ import annotations

from typing import Any

import wend
from wend._engine.base import dtypes
from wend._engine.base.dtypes import BOOL, COMPLEX, FLOAT, INT, DType
from wend._engine.base.errors import ArgumentTypeError

Array = Any  #: a wend.Tensor
functions: Any = wend  #: for functions that are made at run time, which types do not show

_CATEGORY = {bool: BOOL, int: INT, float: FLOAT, complex: COMPLEX}


def of_number(number: Any, dtype: DType) -> DType:
    """The type that a Python number takes beside an array of `dtype`."""
    category = _CATEGORY[type(number)]
    if category <= dtype.category:
        return dtype
    default = dtypes.get_default_dtype()
    if category == COMPLEX:
        return dtype.to_complex() if dtype.category == FLOAT else default.to_complex()
    return default if category == FLOAT else dtypes.int64


def together(op: str, *operands: Any) -> list[Array]:
    """The operands as arrays of their common type; numbers are weak.

    Raises ArgumentTypeError if none is an array.
    """
    arrays = [x for x in operands if isinstance(x, wend.Tensor)]
    if not arrays:
        raise ArgumentTypeError(f"{op}: at least one operand must be an array")
    common = arrays[0].dtype
    for x in arrays[1:]:
        common = dtypes.promote_types(common, x.dtype)
    for x in operands:
        if type(x) in _CATEGORY:
            common = of_number(x, common)
    return [
        wend.tensor(x, dtype=common) if type(x) in _CATEGORY else converted(x, common)
        for x in operands
    ]


def converted(x: Array, dtype: DType) -> Array:
    """The array in that type: itself, where possible."""
    return x if x.dtype is dtype else x.to(dtype)


def axes(axis: Any, rank: int) -> tuple[int, ...]:
    """The axes of a reduction, as a tuple; None for all."""
    if axis is None:
        return tuple(range(rank))
    return (axis,) if isinstance(axis, int) else tuple(axis)


def summed_type(x: Array, dtype: DType | None) -> DType:
    """The type of a sum or product: ints are summed in the widest type of their kind."""
    if dtype is not None:
        return dtype
    if x.dtype.category == BOOL:
        return dtypes.int64
    if x.dtype.category == INT:
        return dtypes.int64 if x.dtype.is_signed else dtypes.uint64
    return x.dtype  # type: ignore[no-any-return]
