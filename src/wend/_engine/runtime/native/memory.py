"""Copying and adding up memory by address: the C helpers of modules that are not compiled."""

from __future__ import annotations

import ctypes


def copy(target: int, source: int, n: int) -> None:
    """Copy n bytes."""
    ctypes.memmove(int(target), int(source), int(n))


def clear(target: int, n: int) -> None:
    """Write n bytes of zeros."""
    ctypes.memset(int(target), 0, int(n))


def copy_line(target: int, source: int, size: int, n: int, step: int) -> None:
    """Copy n elements of `size` bytes, which lie `step` bytes apart, to consecutive places."""
    for k in range(n):
        copy(target + k * size, source + k * step, size)


def _add(
    of: type[ctypes.c_float] | type[ctypes.c_double], target: int, source: int, n: int
) -> None:
    t = (of * int(n)).from_address(int(target))
    s = (of * int(n)).from_address(int(source))
    for k in range(int(n)):
        t[k] += s[k]


def add32(target: int, source: int, n: int) -> None:
    """Add n float32 numbers at `source` to the numbers at `target`."""
    _add(ctypes.c_float, target, source, n)


def add64(target: int, source: int, n: int) -> None:
    """Add n float64 numbers at `source` to the numbers at `target`."""
    _add(ctypes.c_double, target, source, n)
