"""Chooses between the compiled and the uncompiled ring; the latter gets its C helpers here."""

from __future__ import annotations

import ctypes
from types import ModuleType

from wend._engine.core import _hot
from wend._engine.core._select import load_above
from wend._engine.runtime.native import _launch_select
from wend._engine.runtime.native.memory import copy

#: Words of a launch in the list, see `_ring`.
LAUNCH_WORDS = 5
_Word, _Address, _Size, _Number = ctypes.c_int64, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint
_SET_ARG = ctypes.CFUNCTYPE(ctypes.c_int, _Address, _Number, _Size, _Address)
_ENQUEUE = ctypes.CFUNCTYPE(
    ctypes.c_int, _Address, _Address, _Number, _Address, _Address, _Address, _Number, _Address,
    _Address,
)  # fmt: skip
#: cuLaunchKernel
CUDA_LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int, _Address, *[_Number] * 7, _Address, _Address, _Address
)  # fmt: skip


def rows_of(launches: int, n: int) -> list[list[int]]:
    """The words of n launches of a list."""
    words = (_Word * (LAUNCH_WORDS * n)).from_address(launches)
    return [words[k : k + LAUNCH_WORDS] for k in range(0, LAUNCH_WORDS * n, LAUNCH_WORDS)]


def launch_opencl(set_arg: int, enqueue: int, queue: int, launches: int, n: int) -> int:
    """Enqueue n launches; return the status of the first that fails, or 0."""
    for handle, place, groups, items, _ in rows_of(launches, n):
        word, sizes = _Word(place), (_Size * 2)(groups * items, items)
        at = ctypes.addressof(sizes)
        status = _SET_ARG(set_arg)(handle, 1, 8, ctypes.addressof(word)) or _ENQUEUE(enqueue)(
            queue, handle, 1, None, at, at + ctypes.sizeof(_Size), 0, None, None
        )
        if status:
            return int(status)
    return 0


def launch_cuda(function: int, stream: int, ring: int, launches: int, n: int) -> int:
    """Launch n launches; return the status of the first that fails, or 0."""
    launch = CUDA_LAUNCH(function)
    for handle, place, groups, items, _ in rows_of(launches, n):
        words = (_Word * 2)(ring, place)
        at = ctypes.addressof(words)
        pointers = (_Address * 2)(at, at + 8)
        status = launch(
            handle, groups, 1, 1, items, 1, 1, 0, stream, ctypes.addressof(pointers), None
        )
        if status:
            return int(status)
    return 0


#: The C helpers of the ring, for the ring as plain Python.
STAND_INS = {
    "put": _launch_select.put,
    "get": _launch_select.get,
    "copy": copy,
    "launch_opencl": launch_opencl,
    "launch_cuda": launch_cuda,
}


def select() -> ModuleType:
    """Return the ring of this process, registered as `wend._engine.runtime.devices._ring`."""
    return load_above("wend._engine.runtime.devices._ring", (_hot,), STAND_INS)
