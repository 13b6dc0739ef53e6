"""Functions of the array API that move elements, and products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import wend
from wend._engine.base import dtypes
from wend._engine.base.errors import ShapeError, ValueRefused
from wend.xp._operands import Array, converted, functions, together

__all__ = [
    "broadcast_arrays",
    "broadcast_to",
    "concat",
    "expand_dims",
    "flip",
    "matmul",
    "matrix_transpose",
    "moveaxis",
    "permute_dims",
    "repeat",
    "reshape",
    "roll",
    "squeeze",
    "stack",
    "take",
    "take_along_axis",
    "tensordot",
    "tile",
    "unstack",
    "vecdot",
]


def broadcast_arrays(*arrays: Array) -> list[Array]:
    """The arrays in their common shape."""
    return list(functions.broadcast_tensors(*arrays))


def broadcast_to(x: Array, /, shape: Sequence[int]) -> Array:
    """x repeated to a shape."""
    return wend.broadcast_to(x, tuple(shape))


def concat(arrays: Sequence[Array], /, *, axis: int | None = 0) -> Array:
    """Arrays joined along an axis; flattened first, if axis is None."""
    parts = together("concat", *arrays)
    if axis is None:
        return wend.cat([x.reshape(-1) for x in parts])
    return wend.cat(parts, axis)


def expand_dims(x: Array, /, axis: int) -> Array:
    """x with a dim of size 1 at that place. Raises DimError beyond the rank."""
    return wend.unsqueeze(x, axis)


def flip(x: Array, /, *, axis: Any = None) -> Array:
    """The elements in reverse order along axes; all, if axis is None."""
    places = tuple(range(x.ndim)) if axis is None else axis
    return wend.flip(x, (places,) if isinstance(places, int) else tuple(places))


def moveaxis(x: Array, source: Any, destination: Any, /) -> Array:
    """x with axes moved elsewhere."""
    return wend.moveaxis(x, source, destination)


def permute_dims(x: Array, /, axes: Sequence[int]) -> Array:
    """x with its axes in that order."""
    return wend.permute(x, tuple(axes))


def repeat(x: Array, repeats: Any, /, *, axis: int | None = None) -> Array:
    """Each element so many times in a row; x flattened, if axis is None."""
    if isinstance(repeats, wend.Tensor):
        repeats = converted(repeats, dtypes.int64)
    return functions.repeat_interleave(x, repeats, axis)


def reshape(x: Array, /, shape: Sequence[int], *, copy: bool | None = None) -> Array:
    """The elements in row-major order in another shape.

    copy: True always copies; False raises ValueRefused where a view is not possible
    """
    if copy:
        return wend.reshape(x.clone(), tuple(shape))
    if copy is False:
        try:
            return x.view(tuple(shape))
        except ShapeError as fault:
            raise ValueRefused(f"reshape: a copy is needed: {fault}") from fault
    return wend.reshape(x, tuple(shape))


def roll(x: Array, /, shift: Any, *, axis: Any = None) -> Array:
    """Elements moved along axes, those beyond the end back to the front."""
    return wend.roll(x, shift, axis) if axis is not None else wend.roll(x, shift)


def squeeze(x: Array, /, axis: Any) -> Array:
    """x without axes of size 1. Raises ValueRefused for another size."""
    places = (axis,) if isinstance(axis, int) else tuple(axis)
    for place in places:
        if x.shape[place] != 1:
            raise ValueRefused(f"squeeze: axis {place} has size {x.shape[place]}, not 1")
    return wend.squeeze(x, places)


def stack(arrays: Sequence[Array], /, *, axis: int = 0) -> Array:
    """Arrays of equal shape along a new axis."""
    return wend.stack(together("stack", *arrays), axis)


def take(x: Array, indices: Array, /, *, axis: int | None = None) -> Array:
    """The elements at those places along an axis (of a 1-d x, by default)."""
    if axis is None:
        if x.ndim != 1:
            raise ValueRefused("take: axis is needed for an array of other than one dim")
        axis = 0
    places = converted(indices, dtypes.int64)
    return wend.index_select(x, axis, wend.where(places < 0, places + x.shape[axis], places))


def take_along_axis(x: Array, indices: Array, /, *, axis: int = -1) -> Array:
    """The elements at the indices along an axis, each line by indices of its own."""
    places = converted(indices, dtypes.int64)
    return wend.take_along_dim(x, wend.where(places < 0, places + x.shape[axis], places), axis)


def tile(x: Array, repetitions: Sequence[int], /) -> Array:
    """x repeated as a whole along each axis."""
    return wend.tile(x, tuple(repetitions))


def unstack(x: Array, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices along an axis."""
    return tuple(functions.unbind(x, axis))


def matmul(x1: Array, x2: Array, /) -> Array:
    """The product of matrices; batches broadcast."""
    return wend.matmul(*together("matmul", x1, x2))


def matrix_transpose(x: Array, /) -> Array:
    """x with its last two axes swapped."""
    return x.mT


def tensordot(x1: Array, x2: Array, /, *, axes: Any = 2) -> Array:
    """The sum of products over paired axes."""
    return functions.tensordot(*together("tensordot", x1, x2), dims=axes)


def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """The sum of conj(x1) * x2 along an axis."""
    a, b = together("vecdot", x1, x2)
    if a.shape[axis] != b.shape[axis]:
        raise ShapeError(
            f"vecdot: axis {axis} has size {a.shape[axis]} in x1 and {b.shape[axis]} in x2"
        )
    return wend.linalg.vecdot(a, b, dim=axis)
