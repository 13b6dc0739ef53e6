"""From Python data (numbers, nested sequences, arrays) to a NumPy array of a single element type.

The element type is PyTorch's: bool, int64, the default float type or its complex sibling for Python
numbers, whichever is highest; NumPy's scalars and tensors bring types of their own and are
promoted. Nested sequences are taken apart level by level, so that the work per element stays in C.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from wend._engine.base import dtypes
from wend._engine.base.dtypes import (
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    DType,
    from_numpy,
    iinfo,
    promote_types,
    uint64,
)
from wend._engine.base.errors import (
    ArgumentError,
    ArgumentTypeError,
    DataRefused,
    ValueRefused,
    WendError,
)

__all__ = ["Op", "array_from_data", "cast_array", "identity", "infer_dtype", "spaced"]

Array = np.ndarray[Any, Any]
MAX_DIMS = 64
PYTHON_NUMBERS = {bool: BOOL, int: INT, float: FLOAT, complex: COMPLEX}
_INTS = (None, dtypes.int64)  # asked for, where a list of ints becomes int64
ATOMS = (str, bytes, dict, set, frozenset)


class Op:
    """The public function that complains, and its class of tensors."""

    def __init__(self, name: str, tensor_type: Any) -> None:
        self.name = name
        self.tensor_type = tensor_type


def array_from_data(data: object, dtype: DType | None, op: Op) -> Array:
    """A fresh array of the data's values; `dtype` None infers it.

    data: a number, a (nested) sequence, an ndarray or anything with `__array__`, but no tensor.
    Raises ArgumentTypeError for anything but numbers, ArgumentError (naming the position) for
    ragged nesting and for numbers that the type cannot hold.
    """
    try:
        if type(data) is list and dtype in _INTS and set(map(type, data)) == {int}:
            try:
                return np.array(data, np.int64)
            except OverflowError:  # the error below names the place
                pass
        kind = PYTHON_NUMBERS.get(type(data))
        if kind is not None:
            return _python_numbers(data, dtypes.dtype_of_scalar_category(kind), dtype, (), op)
        if isinstance(data, (np.ndarray, np.generic)):
            return _from_numpy(data, dtype, op)
        if hasattr(data, "__array__") and not isinstance(data, (list, tuple)):
            return _from_numpy(np.asarray(data), dtype, op)
        shape, leaves = _unnested(data, op)
        if isinstance(leaves, np.ndarray):
            return cast_array(leaves, dtype or from_numpy(leaves.dtype), op.name)
        if not leaves:
            return np.empty(shape, (dtype or dtypes.get_default_dtype()).numpy)
        kinds = set(map(type, leaves))
        if kinds <= PYTHON_NUMBERS.keys():
            category = max(PYTHON_NUMBERS[kind] for kind in kinds)
            common_type = dtypes.dtype_of_scalar_category(category)
            return _python_numbers(leaves, common_type, dtype, shape, op)
        values, common_type = _mixed_numbers(leaves, shape, op)
        return _python_numbers(values, common_type, dtype, shape, op)
    except WendError as error:
        error.shorten()
        raise


def infer_dtype(data: object, op: Op) -> DType:
    """The element type that `array_from_data` would choose."""
    return from_numpy(array_from_data(data, None, op).dtype)


def _from_numpy(array: object, dtype: DType | None, op: Op) -> Array:
    array = np.asarray(array)
    own_type = from_numpy(array.dtype)
    # PyTorch converts whole arrays without looking for overflow, as NumPy does.
    with np.errstate(all="ignore"):
        return np.array(array, dtype=(dtype or own_type).numpy, order="C")


def _unnested(data: object, op: Op) -> tuple[tuple[int, ...], list[Any] | Array]:
    """(shape, leaves in row-major order); leaves that are ndarrays come back as an array."""
    shape: tuple[int, ...] = ()
    level: list[Any] = [data]
    if type(data) is list and data and PYTHON_NUMBERS.keys() >= set(map(type, data)):
        return (len(data),), data
    while level and _is_sequence(level[0], op):
        if len(shape) >= MAX_DIMS:
            raise ArgumentError(f"{op.name}: the data is nested more than {MAX_DIMS} deep")
        if all(type(item) is np.ndarray for item in level):
            return _stacked(level, shape, op)
        size = len(level[0])
        if not (set(map(type, level)) <= {list, tuple} and set(map(len, level)) == {size}):
            _check_level(level, shape, size, op)
        shape = (*shape, size)
        level = list(chain.from_iterable(level))
    for kind in set(map(type, level)) - PYTHON_NUMBERS.keys():
        _check_leaves(level, kind, shape, op)
    return shape, level


def _is_sequence(item: Any, op: Op) -> bool:
    if isinstance(item, (list, tuple)):
        return True
    if isinstance(item, (*ATOMS, op.tensor_type)):
        return False
    if isinstance(item, np.ndarray):
        return item.ndim > 0
    return hasattr(item, "__len__") and hasattr(item, "__getitem__")


def _check_level(level: Sequence[Any], shape: tuple[int, ...], size: int, op: Op) -> None:
    for i, item in enumerate(level):
        place, first = _place(i, shape), _place(0, shape)
        if not _is_sequence(item, op):
            raise ArgumentTypeError(
                f"{op.name}: {place} is a {type(item).__name__}, not a sequence, "
                f"and {first} is a sequence of length {size}"
            )
        if len(item) != size:
            raise ArgumentError(
                f"{op.name}: expected sequence of length {size} at dim {len(shape)} "
                f"(got {len(item)}): {first} has length {size} and {place} has length {len(item)}"
            )


def _check_leaves(level: list[Any], kind: type, shape: tuple[int, ...], op: Op) -> None:
    """A number came first at this level: raises ArgumentTypeError for a sequence behind it."""
    for i, item in enumerate(level):
        if type(item) is kind and _is_sequence(item, op):
            raise ArgumentTypeError(
                f"{op.name}: {_place(i, shape)} is a sequence, and {_place(0, shape)} is a number"
            )


def _place(index: int, shape: tuple[int, ...]) -> str:
    """`data[1][0]` for an index into the leaves."""
    steps = []
    for size in reversed(shape):
        index, step = divmod(index, size)
        steps.append(f"[{step}]")
    return "data" + "".join(reversed(steps))


def _stacked(
    arrays: Sequence[Array], shape: tuple[int, ...], op: Op
) -> tuple[tuple[int, ...], Array]:
    inner = arrays[0].shape
    for i, array in enumerate(arrays):
        if array.shape != inner:
            raise ArgumentError(
                f"{op.name}: {_place(0, shape)} is an array of shape {inner} "
                f"and {_place(i, shape)} is one of shape {array.shape}"
            )
    common_type = from_numpy(arrays[0].dtype)
    for array in arrays:
        common_type = promote_types(common_type, from_numpy(array.dtype))
    stacked = np.stack([array.astype(common_type.numpy) for array in arrays])
    return shape + inner, stacked.reshape(shape + inner)


def _mixed_numbers(
    leaves: Iterable[Any], shape: tuple[int, ...], op: Op
) -> tuple[list[Any], DType]:
    """The leaves as Python numbers, and the type that all of them promote to."""
    values: list[Any] = []
    common_type: DType | None = None
    for i, leaf in enumerate(leaves):
        value, own = _number(leaf, lambda i=i: _place(i, shape), op)
        common_type = own if common_type is None else promote_types(common_type, own)
        values.append(value)
    assert common_type is not None
    return values, common_type


def _number(leaf: Any, place: Any, op: Op) -> tuple[Any, DType]:
    kind = PYTHON_NUMBERS.get(type(leaf))
    if kind is not None:
        return leaf, dtypes.dtype_of_scalar_category(kind)
    if isinstance(leaf, (np.generic, np.ndarray)):
        own = from_numpy(leaf.dtype)
        return leaf.item(), own
    if isinstance(leaf, op.tensor_type):
        if leaf.numel() != 1:
            raise ArgumentError(
                f"{op.name}: only one element tensors can be converted to Python scalars, and "
                f"{place()} has shape {tuple(leaf.shape)}; join tensors with torch.stack or "
                "torch.cat"
            )
        return leaf.item(), leaf.dtype
    for base, kind in PYTHON_NUMBERS.items():  # subclasses, such as the members of an IntEnum
        if isinstance(leaf, base):
            return base(leaf), dtypes.dtype_of_scalar_category(kind)
    raise DataRefused(
        f"{op.name}: {place()} is a {type(leaf).__name__}, and the elements of a tensor are numbers"
    )


def _python_numbers(
    values: Any, common_type: DType, dtype: DType | None, shape: tuple[int, ...], op: Op
) -> Array:
    """Python numbers, which promote to `common_type`, as an array of `dtype`, or else of that.

    values: a list of numbers in row-major order; a number where shape is ()
    """
    target = dtype or common_type
    if common_type.category == COMPLEX and target.category < COMPLEX:
        values = values if shape else [values]
        i = next(i for i, value in enumerate(values) if isinstance(value, complex))
        raise ArgumentTypeError(
            f"{op.name}: {_place(i, shape)} is complex and {target} is a real type"
        )
    wide = _WIDEST[max(common_type.category, target.category, INT)]
    if target is uint64 and wide.kind == "i" and _beyond_int64(values):
        wide = target.numpy
    try:
        array = np.array(values, dtype=wide)
        if array.shape != shape:
            array = array.reshape(shape)
    except OverflowError:
        values = values if shape else [values]
        i = next(i for i, value in enumerate(values) if _overflows(value, wide))
        what = "a float" if wide.kind != "i" else "64 bits"
        raise ArgumentError(
            f"{op.name}: Overflow when unpacking long long: {_place(i, shape)} is too large for "
            f"{what}"
        ) from None
    return cast_array(array, target, op.name)


_WIDEST: dict[int, np.dtype[Any]] = {
    INT: np.dtype(np.int64),
    FLOAT: np.dtype(np.float64),
    COMPLEX: np.dtype(np.complex128),
}


def _beyond_int64(values: Any) -> bool:
    """Whether there is a number above all int64."""
    return max(values, default=0) >= 2**63 if isinstance(values, list) else values >= 2**63


def _overflows(value: object, wide: np.dtype[Any]) -> bool:
    try:
        wide.type(value)
    except OverflowError:  # the question is whether a number fits the type
        return True
    return False


def cast_array(array: Array, dtype: DType, op: str) -> Array:
    """`array` as `dtype`. Raises ArgumentError for numbers that an integer type cannot hold.

    As in PyTorch, negative ints down to minus the largest wrap around in an unsigned type.
    """
    if array.dtype == dtype.numpy:
        return array
    if dtype.category == INT and array.dtype.kind != "b":
        inside = _fits(array, dtype)
        if not inside.all():
            i = int(np.argmin(inside.ravel()))
            raise ValueRefused(
                f"{op}: value cannot be converted to type {dtype.name} without overflow: "
                f"{_place(i, array.shape)} is {array.ravel()[i].item()}"
            )
    with np.errstate(all="ignore"):
        return array.astype(dtype.numpy, copy=False)


def _fits(array: Array, dtype: DType) -> Array:
    info = iinfo(dtype)
    if array.dtype.kind in "iu":
        low = info.min if dtype.is_signed else -info.max
        return np.asarray((array >= low) & (array <= info.max))
    # A float64 cannot say 2**63 - 1; nan fits nowhere.
    below = array < float(info.max) if dtype.itemsize == 8 else array <= info.max
    return np.asarray((array >= info.min) & below)


# --- arrays that are no data ----------------------------------------------------------------------


def spaced(
    op: str, start: Any, end: Any, steps: object, dtype: DType | None, base: float | None = None
) -> Array:
    """`steps` numbers from start to end at equal distances; powers of `base` if a base is given.

    Counted from both ends towards the middle, so that both ends are exact.
    """
    if isinstance(steps, bool) or not hasattr(steps, "__index__"):
        raise ArgumentTypeError(f"{op}: steps must be an int, not {type(steps).__name__}")
    count = int(steps)
    if count < 0:
        raise ValueRefused(f"{op}: number of steps must be non-negative, got {count}")
    is_complex = isinstance(start, complex) or isinstance(end, complex)
    if dtype is None:
        dtype = dtypes.dtype_of_scalar_category(COMPLEX if is_complex else FLOAT)
    elif is_complex and not dtype.is_complex:
        raise ArgumentTypeError(f"{op}: complex bounds cannot be converted to {dtype}")
    if dtype.category < FLOAT:
        start, end = int(start), int(end)
    wide = np.complex128 if dtype.is_complex else np.float64
    step = (wide(end) - wide(start)) / max(count - 1, 1)
    index = np.arange(count)
    values = np.where(
        index < count / 2, wide(start) + step * index, wide(end) - step * (count - 1 - index)
    )
    if count == 1:
        values = np.array([start], dtype=wide)
    if base is not None:
        values = np.power(wide(base), values)
    with np.errstate(all="ignore"):
        return values.astype(dtype.numpy)


def identity(rows: int, columns: int, dtype: DType) -> Array:
    """1 on the diagonal, 0 elsewhere."""
    return np.eye(rows, columns, dtype=dtype.numpy)
