"""Memory of other libraries as arrays: sharing, buffers, DLPack."""

from __future__ import annotations

from typing import Any

import numpy as np

from wend._engine.base.dtypes import DType, from_numpy
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, ExecutionError

__all__ = [
    "KIND_CPU",
    "Capsule",
    "array_from_dlpack",
    "array_of_buffer",
    "array_of_memory",
    "common_dtype",
    "is_array",
    "sharable",
]

Array = np.ndarray[Any, Any]


def is_array(value: object) -> bool:
    """Whether the value is a NumPy array."""
    return isinstance(value, np.ndarray)


def common_dtype(dtype: DType, array: Array) -> DType:
    """The element type in which NumPy computes arrays of `dtype` and of the array's type."""
    return from_numpy(np.promote_types(dtype.numpy, array.dtype))


def sharable(op: str, array: Array) -> Array:
    """The array itself, or a copy of a read-only array.

    Raises ArgumentError for negative strides.
    """
    if min(array.strides, default=0) < 0:
        raise ArgumentError(
            f"{op}: at least one stride in the given numpy array is negative, and tensors with "
            "negative strides are not supported; make a copy with array.copy()"
        )
    return array if array.flags.writeable else array.copy()


def array_of_buffer(buffer: Any, dtype: DType, count: int, offset: int) -> Array:
    """A 1-d array over an object's memory; a copy if that may not be written to.

    Raises ArgumentTypeError for objects without the buffer protocol, ArgumentError for sizes that
    do not fit.
    """
    try:
        size = memoryview(buffer).nbytes
    except TypeError:
        raise ArgumentTypeError(
            f"frombuffer: a {type(buffer).__name__} does not support the buffer protocol"
        ) from None
    if size == 0 or count == 0:
        raise ArgumentError(
            f"frombuffer: both buffer length ({size}) and count ({count}) must not be 0"
        )
    if not 0 <= offset < size:
        raise ArgumentError(
            f"frombuffer: offset ({offset} bytes) must be non-negative and no greater than buffer "
            f"length ({size} bytes) - 1"
        )
    left = size - offset
    if count < 0 and left % dtype.itemsize:
        raise ArgumentError(
            f"frombuffer: buffer length ({left} bytes) after offset ({offset} bytes) must be a "
            f"multiple of element size ({dtype.itemsize})"
        )
    wanted = left // dtype.itemsize if count < 0 else count
    if wanted * dtype.itemsize > left:
        raise ArgumentError(
            f"frombuffer: requested buffer length ({wanted} * {dtype.itemsize} bytes) after offset "
            f"({offset} bytes) must not be greater than actual buffer length ({size} bytes)"
        )
    array = np.frombuffer(buffer, dtype=dtype.numpy, count=wanted, offset=offset)
    return array if array.flags.writeable else array.copy()


# --- DLPack ---------------------------------------------------------------------------------------

KIND_CPU = 1


class Capsule:
    """A DLPack capsule as an object with the protocol's methods, for a single use."""

    def __init__(self, capsule: object) -> None:
        self.capsule = capsule

    def __dlpack__(self, **options: object) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return KIND_CPU, 0


class _Writable:
    """An array's memory without the flag that forbids writing."""

    def __init__(self, array: Array) -> None:
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface
        self.array = array


class _Asked:
    """An object with `__dlpack__`, and whether its capsule is one that cannot forbid writing."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self.unversioned = False

    def __dlpack__(self, **asked: Any) -> Any:
        capsule = self.source.__dlpack__(**asked)  # NumPy asks again where keywords are refused
        self.unversioned = '"dltensor"' in repr(capsule)
        return capsule

    def __dlpack_device__(self) -> Any:
        return self.source.__dlpack_device__()


def array_of_memory(source: Any, dtype: DType | None = None) -> Any:
    """An array on the memory of an object with DLPack, or of a capsule; the object for no such.

    dtype: of the elements of an object with the buffer protocol, which is asked if that is there;
    NumPy's numbers are no buffers. Raises as `array_from_dlpack` and `array_of_buffer`.
    """
    if hasattr(source, "__dlpack__") or type(source).__name__ == "PyCapsule":
        return array_from_dlpack(source)
    if dtype is None or isinstance(source, np.generic):
        return source
    try:
        memoryview(source)
    except TypeError:  # Python's question for a buffer has no other form before 3.12
        return source
    return array_of_buffer(source, dtype, -1, 0)


def array_from_dlpack(source: object) -> Array:
    """A writable array on the memory of an object with `__dlpack__`.

    Raises ArgumentTypeError for any other object, ArgumentError for memory of another device or for
    element types that tensors lack. Raises ExecutionError for a capsule used before.
    """
    if type(source).__name__ == "PyCapsule":
        if '"dltensor"' not in repr(source) and '"dltensor_versioned"' not in repr(source):
            raise ExecutionError("from_dlpack: received an invalid capsule; one can be used once")
        source = Capsule(source)
    if not hasattr(source, "__dlpack__") or not hasattr(source, "__dlpack_device__"):
        raise ArgumentTypeError(
            f"from_dlpack: a {type(source).__name__} has no __dlpack__ and __dlpack_device__"
        )
    kind, _ = source.__dlpack_device__()
    if int(kind) != KIND_CPU:
        raise ArgumentError(
            f"from_dlpack: the data lies on a device of DLPack kind {int(kind)}, "
            "and only kind 1 (cpu) is available; move it to the cpu first"
        )
    asked = _Asked(source)
    try:
        array = np.from_dlpack(asked)
    except (BufferError, RuntimeError, ValueError) as error:
        raise ArgumentError(f"from_dlpack: {error}") from error
    if asked.unversioned and array.size:
        array = np.asarray(_Writable(array))
    return array if array.flags.writeable else array.copy()
