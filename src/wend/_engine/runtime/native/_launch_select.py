"""Chooses between the compiled and the uncompiled launcher; the latter gets its C helpers here."""

from __future__ import annotations

import ctypes
import importlib
import sys
from types import ModuleType
from typing import Any

import numpy as np

from wend._engine.core._select import compiled, load_plain
from wend._engine.runtime.native.memory import add32, add64, copy, copy_line

_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def array_data(array: Any) -> int:
    """Address of the elements of a C-contiguous, aligned array; -1 for anything else."""
    if type(array) is not np.ndarray or not (array.flags.c_contiguous and array.flags.aligned):
        return -1
    return int(array.ctypes.data)


def put(address: int, word: int) -> None:
    """Write a 64-bit word."""
    ctypes.c_int64.from_address(int(address)).value = word


def put_double(address: int, number: float) -> None:
    """Write a float64."""
    ctypes.c_double.from_address(address).value = number


def get(address: int) -> int:
    """Read a 64-bit word."""
    return ctypes.c_int64.from_address(int(address)).value


def patch(patches: int, n: int, table: int) -> None:
    """Fill in addresses: n times (address of a word, place in the table, offset in bytes)."""
    words = (ctypes.c_int64 * (3 * n)).from_address(patches)
    for k in range(0, 3 * n, 3):
        put(words[k], get(table + 8 * words[k + 1]) + words[k + 2])


#: Words of a call: function, block, calls in the group, pairs of scratch words and their number.
CALL_WORDS = 5


def run_kernels(code: int, n: int, release: bool, scratch: int, room: int, stoppable: bool) -> None:
    """Make n calls in order.  ctypes releases the interpreter lock; an interrupt ends the loop.

    scratch: address of scratch memory for the calls
    """
    words = (ctypes.c_int64 * (CALL_WORDS * n)).from_address(code)
    for k in range(0, CALL_WORDS * n, CALL_WORDS):
        function, block, _, pairs, count = words[k : k + CALL_WORDS]
        for j in range(count):
            put(get(pairs + 16 * j), scratch + get(pairs + 16 * j + 8))
        _KERNEL(function)(block)


def array_owned(array: Any) -> bool:
    """Whether an array has its elements to itself."""
    return False  # plain Python counts references otherwise: nothing is overwritten


def part_of(array: Any, shape: Any, dtype: Any, offset: int, strides: Any) -> Any:
    """An array that lies in another, dense array."""
    if 0 in shape:
        return np.empty(shape, dtype)
    return np.ndarray(shape, dtype, array, offset, strides)


def references(x: Any) -> int:
    """How many references there are."""
    return sys.getrefcount(x)


STAND_INS = {
    "add32": add32,
    "add64": add64,
    "copy": copy,
    "copy_line": copy_line,
    "array_owned": array_owned,
    "references": references,
    "identity": id,
    "array_data": array_data,
    "put": put,
    "put_double": put_double,
    "get": get,
    "patch": patch,
    "run_kernels": run_kernels,
    "make_array": lambda make, shape, dtype: make(shape, dtype),
    "make_large": np.empty,
    "part_of": part_of,
    "row_of": lambda array, r: array[r, ...],
    "set_arrays": lambda cls, api, empty: None,
    "enter_lots": lambda: None,
    "leave_lots": lambda before: None,
    "give_lots_back": lambda: None,
    "set_threads": lambda n: None,
    "set_look": lambda nanoseconds: None,
    "COMPILED": False,
}


def use_arrays(module: ModuleType) -> None:
    """Give a compiled module the type of arrays, NumPy's C functions and `np.empty`."""
    functions = importlib.import_module("numpy._core._multiarray_umath")._ARRAY_API
    module.use_arrays(np.ndarray, functions, np.empty)


def select() -> ModuleType:
    """The launcher that this process uses, registered as `wend._engine.runtime.native._launch`."""
    name = "wend._engine.runtime.native._launch"
    if name in sys.modules:
        return sys.modules[name]
    module = compiled(name)
    if module is not None:
        use_arrays(module)
        if _reads_arrays(module):
            return module
    return load_plain(name, STAND_INS)


def _reads_arrays(module: ModuleType) -> bool:
    """Whether the compiled launcher finds an array's elements at the addresses that NumPy gives."""
    for array in (np.arange(12.0).reshape(3, 4), np.zeros((), np.bool_), np.zeros((0, 2))):
        if module.address_of(array) != array.ctypes.data:
            return False
    return bool(module.address_of(np.arange(12.0)[::2]) == -1)
