"""Routines of BLAS and LAPACK, called through their addresses in the library that NumPy uses.

NumPy's wheels bring all of OpenBLAS along, and conda's and Debian's NumPy are linked with a whole
LAPACK too. Where NumPy has a part of it alone, SciPy's is taken (decision 034).
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from wend._engine.base.extras import needed
from wend._engine.ops.numeric import Array

__all__ = ["asked", "integers", "lapack", "scratch"]

#: A routine's name in libraries: OpenBLAS of NumPy's wheels, Apple's Accelerate, and all others,
#: with integers of 64 bits first.
_NAMES = ("scipy_{}_64_", "{}_64_", "{}64_", "{}$NEWLAPACK$ILP64", "{}_", "scipy_{}_")
_PREFIXES = {"f": "s", "d": "d", "F": "c", "D": "z"}


class _Source(NamedTuple):
    """Where routines are."""

    #: The address of the routine of that name; None if there is none.
    address: Callable[[str], int | None]
    #: The type of LAPACK's integers.
    integers: np.dtype[Any]


@cache
def _source() -> _Source:
    """The first library with a routine that NumPy itself does not need.

    Raises ModuleNotAvailable, with the extra to install, where there is none.
    """
    for library in _libraries():
        for name in _NAMES:
            if hasattr(library, name.format("dsytrf")):
                return _tried(_in_library(library, name))
    return _tried(_in_scipy)


def _libraries() -> Iterator[ctypes.CDLL]:
    """NumPy's own module, which leads to what it is linked with, and what lies beside NumPy."""
    from pathlib import Path  # only here: `import wend` is quicker without

    # The module that NumPy's linear algebra has loaded already.
    yield ctypes.CDLL(np.linalg._umath_linalg.__file__)
    # Windows looks for names in the module alone.
    for path in sorted(Path(np.__file__).parents[1].glob("numpy.libs/*openblas*")):
        yield ctypes.CDLL(str(path))


def _in_library(library: ctypes.CDLL, form: str) -> Callable[[str], int | None]:
    def address(name: str) -> int | None:
        function = getattr(library, form.format(name), None)
        return None if function is None else ctypes.cast(function, ctypes.c_void_p).value

    return address


def _in_scipy(name: str) -> int | None:
    """The address that SciPy exports for Cython."""
    for module in ("cython_lapack", "cython_blas"):
        exported = needed(f"scipy.linalg.{module}", "linear algebra by a NumPy without LAPACK")
        capsule = exported.__pyx_capi__.get(name)
        if capsule is not None:
            of, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
            of.restype, of.argtypes = ctypes.c_char_p, [ctypes.py_object]
            pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
            place: int | None = pointer(capsule, of(capsule))
            return place
    return None


def _tried(address: Callable[[str], int | None]) -> _Source:
    """The source, with the size of its integers: names alone do not tell it."""
    kind = np.dtype(np.int64)
    swapped, pivots = np.array([[[0.0, 1.0], [1.0, 0.0]]]), np.zeros((1, 2), kind)
    _Routine(address, "dgetrf", kind)(1, 2, 2, swapped, 2, pivots, np.zeros(1, kind))
    # A library with shorter integers puts both pivots into the first place.
    parts = pivots.view(np.int32).ravel().tolist()
    whole = [2, 0, 2, 0] if sys.byteorder == "little" else [0, 2, 0, 2]
    return _Source(address, np.dtype(np.int64 if parts == whole else np.int32))


def integers() -> np.dtype[Any]:
    """The type of LAPACK's integers in arrays."""
    return _source().integers


@cache
def lapack(name: str, dtype: np.dtype[Any]) -> _Routine:
    """A routine of LAPACK or BLAS for numbers of that type."""
    source = _source()
    return _Routine(source.address, _PREFIXES[dtype.char] + name, source.integers)


class _Routine:
    """A routine, called for each matrix of stacks."""

    def __init__(
        self, address: Callable[[str], int | None], name: str, kind: np.dtype[Any]
    ) -> None:
        place = address(name)
        assert place is not None, name
        # A call without the interpreter's lock: large matrices leave the other threads at work.
        self._function = ctypes.CFUNCTYPE(None)(place)
        self._integer = ctypes.c_int64 if kind.itemsize == 8 else ctypes.c_int32

    def __call__(self, count: int, *arguments: str | int | Array) -> None:
        """Call the routine `count` times, for each place along the first dim of the arrays.

        Arrays of stride 0, or without dims, are the same for all. The others hold matrices by
        columns, and integers of `integers()`.
        """
        passed: list[Any] = []
        moving: list[tuple[Any, int]] = []
        texts = 0
        for argument in arguments:
            if isinstance(argument, str):
                texts += 1
                passed.append(ctypes.c_char_p(argument.encode()))
            elif isinstance(argument, int):
                passed.append(ctypes.byref(self._integer(argument)))
            else:
                pointer = ctypes.c_void_p(argument.__array_interface__["data"][0])
                passed.append(pointer)
                if argument.ndim and argument.strides[0]:
                    moving.append((pointer, argument.strides[0]))
        # Fortran's compilers take the lengths of texts at the end.
        passed += [ctypes.c_size_t(1)] * texts
        function = self._function
        function(*passed)
        for _ in range(1, count):
            for pointer, stride in moving:
                pointer.value += stride
            function(*passed)

    def with_room(
        self, count: int, before: tuple[Any, ...], dtype: np.dtype[Any], after: tuple[Any, ...]
    ) -> None:
        """Call a routine that takes scratch and its size between other arguments."""
        size = scratch(dtype, 1)
        self(1, *before, size, -1, *after)  # only tells the size that is best
        room = asked(size)
        self(count, *before, scratch(dtype, room), room, *after)


def scratch(dtype: np.dtype[Any], size: int) -> Array:
    """Memory that all matrices of a stack share."""
    return np.broadcast_to(np.empty(size, dtype), (1, size))


def asked(size: Array) -> int:
    """The size that a routine put into scratch: of complex matrices, a complex number."""
    return max(1, int(size[0, 0].real))
