"""NumPy helpers that the reference rules of several families share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from wend._engine.base.dtypes import CATEGORY_NAMES, DType, bfloat16, float16, float32
from wend._engine.base.errors import DTypeNotImplemented

Array = Any  #: an ndarray
FLOATING: frozenset[str] = frozenset({"float"})
INEXACT = frozenset({"float", "complex"})
NUMERIC: frozenset[str] = frozenset({"int", "float", "complex"})
HALF_TYPES = (float16.numpy, bfloat16.numpy)
# Rows per running sum before a new sum is begun: as in NumPy's pairwise summation.
_BLOCK = 128
_sum = np.add.reduce


def is_half(dtype: DType) -> bool:
    """Whether results of this type are accumulated in float32."""
    return dtype is float16 or dtype is bfloat16


def accumulator(dtype: DType) -> DType:
    """The type in which sums of this type are accumulated."""
    return float32 if is_half(dtype) else dtype


def widen(x: Array) -> Array:
    """float16 and bfloat16 as float32, everything else unchanged."""
    return x.astype(np.float32) if x.dtype in HALF_TYPES else x


def wrapped(number: complex, target: np.dtype[Any]) -> Any:
    """A Python number as one of a type; ints wrap, as in C: -1 of a uint8 is 255."""
    if target.kind in "iu" and isinstance(number, int):
        if 0 <= number <= 127:  # in range of all of them
            return target.type(number)
        return np.uint64(int(number) % 2**64).astype(target)
    if isinstance(number, int) and not -(2**63) <= number < 2**63:
        number = float(number)
    return np.asarray(number).astype(target)[()]


def array(x: object, dtype: DType) -> Array:
    """x (an array or a NumPy scalar) as an array of that type."""
    return np.asarray(x).astype(dtype.numpy, copy=False)


def repeated(x: Array, shape: tuple[int, ...]) -> Array:
    """np.broadcast_to(x, shape), in a third of the time if x is dense."""
    lead = len(shape) - x.ndim
    strides = [0] * lead
    for have, want, stride in zip(x.shape, shape[lead:], x.strides, strict=True):
        if have != want and have != 1:
            return np.broadcast_to(x, shape)
        strides.append(stride if have == want else 0)
    if not x.flags.c_contiguous or x.dtype.kind not in "biufc" or 0 in shape:
        return np.broadcast_to(x, shape)
    y: Array = np.ndarray(shape, x.dtype, x, 0, strides)
    y.setflags(write=False)
    return y


def choose(condition: Array, x: Array, other: Array, out: Array = None) -> Array:
    """np.where(condition, x, other), for two arrays of equal type, without branches for a large
    array.

    np.where takes eight times as long where conditions change at random. out: `other`, if its
    memory may be written over.
    """
    if condition.size < 4096:
        return np.where(condition, x, other)
    dense = all(operand.flags.c_contiguous for operand in (condition, x, other))
    if not dense or condition.dtype != np.bool_ or other.dtype.itemsize > 8:
        return np.where(condition, x, other)
    word = f"i{other.dtype.itemsize}"
    if out is not other:
        out = np.empty(np.broadcast_shapes(condition.shape, x.shape, other.shape), other.dtype)
    bits, other_bits, chosen = (np.asarray(a).view(word) for a in (x, other, out))
    if bits.ndim == 0 and bits == 0:
        keep = np.subtract(condition.view(np.int8), np.int8(1)).astype(word)
        np.bitwise_and(other_bits, keep, out=chosen)
    else:
        take = np.negative(condition.view(np.int8)).astype(word)
        np.bitwise_xor(other_bits, (bits ^ other_bits) & take, out=chosen)
    return out


def require(op: str, supports: Iterable[str], *dtypes: DType) -> None:
    """Raise DTypeError unless the categories of all dtypes are among `supports`."""
    for dtype in dtypes:
        if CATEGORY_NAMES[dtype.category] not in supports:
            takes = ", ".join(sorted(supports))
            raise DTypeNotImplemented(f"{op}: not implemented for {dtype}: it takes {takes}")


def sum_accurately(x: Array, axes: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Sum over `axes` (counted from 0) with the error growth of pairwise summation.

    NumPy adds pairwise along contiguous memory only.  Other axes are added here in blocks of 128,
    then the block sums in blocks, and so on.
    """
    if not axes:
        return x.astype(dtype, copy=False)
    if dtype.kind not in "fcV":
        return np.asarray(_sum(x, axes, dtype))
    if len(axes) == x.ndim and x.flags.c_contiguous:
        return np.asarray(_sum(x.reshape(-1), 0, dtype))
    if x.ndim - 1 in axes:
        x = _sum(x, -1, dtype)
        if len(axes) > 1:
            axes = tuple(a for a in axes if a != x.ndim)
        else:
            return np.asarray(x)
    for axis in sorted(axes, reverse=True) if len(axes) > 1 else axes:
        x = _sum_blocks(x, axis, dtype)
    return np.asarray(x)


def _sum_blocks(x: Array, axis: int, dtype: np.dtype[Any]) -> Array:
    n = x.shape[axis]
    if n <= _BLOCK:
        return np.asarray(_sum(x, axis, dtype))
    blocks = n // _BLOCK
    head = x[(slice(None),) * axis + (slice(0, blocks * _BLOCK),)]
    # Splitting an axis is a view for any stride.
    head = head.reshape(x.shape[:axis] + (blocks, _BLOCK) + x.shape[axis + 1 :])
    total = _sum_blocks(np.add.reduce(head, axis=axis + 1, dtype=dtype), axis, dtype)
    tail = x[(slice(None),) * axis + (slice(blocks * _BLOCK, None),)]
    return total + np.add.reduce(tail, axis=axis, dtype=dtype)
