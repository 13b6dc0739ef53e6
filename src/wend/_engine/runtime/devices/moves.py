"""Copies and sums of many rows by an accelerator, which the groups of a flush ask for.

A list of moves goes to the device's memory as a table, and a launch makes all moves. The sums
are those of the order of the list: moves to the same target are a piece of the kernel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wend._engine.compiler.kernels.on_device.moves import KINDS, NAME, PART, ROW, moves_text
from wend._engine.runtime.devices.queue import Accelerator

#: The kinds of moves: fill the target with zeros, copy the source there, or add the source.
CLEAR, COPY, ADD = range(3)


def make_moves(accelerator: Accelerator, moves: Any, wide: bool = False) -> None:
    """Launch moves, which have the effect of moves in this order.

    moves: rows of CLEAR, COPY or ADD, the address of the target, that of the source, and bytes.
        Moves before have not written to a cleared target.
    wide: whether elements that are added are of float64, not float32
    """
    kinds = set(moves[:, 0].tolist())
    if len(kinds) == 1 and ADD not in kinds:
        launch(accelerator, "", moves, int(moves[:, 3].max()))
        return
    if CLEAR in kinds:
        clears = moves[:, 0] == CLEAR
        make_moves(accelerator, moves[clears])
        make_moves(accelerator, moves[~clears], wide)
        return
    _add(accelerator, moves, "double" if wide else "float")


def _add(accelerator: Accelerator, moves: Any, kind: str) -> None:
    """Launch copies and sums."""
    if len(moves) > 1:
        rows = moves[np.argsort(moves[:, 1], kind="stable")]
    else:
        rows = moves
    targets, sizes = rows[:, 1], rows[:, 3]
    same = targets[1:] == targets[:-1]
    apart = (targets[:-1] + sizes[:-1] <= targets[1:]) | (same & (sizes[1:] == sizes[:-1]))
    if not apart.all():  # parts of a piece are written to by themselves
        half = len(moves) // 2
        _add(accelerator, moves[:half], kind)
        _add(accelerator, moves[half:], kind)
        return
    begins = np.concatenate([[0], 1 + np.flatnonzero(~same)])
    counts = np.diff(begins, append=len(rows))
    pieces = rows[begins]
    pieces[:, 0] = 2 * counts + (pieces[:, 0] == COPY)
    pieces[:, 2] = 8 * (ROW * len(pieces) + begins)
    launch(accelerator, kind, pieces, int(sizes.max()), rows[:, 2])


def launch(accelerator: Accelerator, kind: str, rows: Any, most: int, sources: Any = None) -> None:
    """Launch the kernel: see `on_device.moves`.

    kind: of the elements; "" for bytes, which are copied
    rows: the table, with places in the memory of the table for addresses of lists
    most: bytes of the largest piece
    sources: the lists
    """
    if not kind:
        kind = "i8" if int(np.bitwise_or.reduce(rows[:, 1:], axis=None)) % 4 else "i32"
    n = len(rows)
    table = accelerator.empty(ROW * n + (0 if sources is None else len(sources)), np.int64)
    address = table.ctypes.data
    if sources is None:
        table[:] = rows.reshape(-1)
    else:
        table[: ROW * n] = rows.reshape(-1)
        table[2 : ROW * n : ROW] += address
        table[ROW * n :] = sources
    parts = -(-most // (KINDS[kind] * PART))
    number = accelerator.load(moves_text(accelerator.target, kind), [NAME]).address(NAME)
    accelerator.call(number, np.array([address, n * parts, parts]), n * parts)


def move_piece(
    accelerator: Accelerator, kind: int, target: int, source: int, n: int, wide: bool = False
) -> None:
    """Make a single move of n bytes: see `make_moves`."""
    if n:
        make_moves(accelerator, np.array([[kind, target, source, n]]), wide)


def duplicate(accelerator: Accelerator, array: Any) -> Any:
    """Return a copy of a dense array in the device's memory."""
    copy, array = accelerator.empty(array.shape, array.dtype), accelerator.copied(array)
    move_piece(accelerator, COPY, copy.ctypes.data, array.ctypes.data, copy.nbytes)
    return copy


def add_to(accelerator: Accelerator, total: Any, array: Any, first: int = 0) -> None:
    """Add a dense array to elements of an array of the device's memory, from `first` on."""
    array = accelerator.copied(array)
    target, wide = total.ctypes.data + first * total.itemsize, total.dtype.itemsize % 8 == 0
    move_piece(accelerator, ADD, target, array.ctypes.data, array.nbytes, wide)


def sum_of(accelerator: Accelerator, arrays: list[Any]) -> Any:
    """Return the sum of dense arrays of a shape, in order, as an array of its own."""
    arrays = [accelerator.copied(array) for array in arrays]
    total = accelerator.empty(arrays[0].shape, arrays[0].dtype)
    if total.nbytes:
        target, n = total.ctypes.data, total.nbytes
        moves = np.array([(ADD, target, array.ctypes.data, n) for array in arrays])
        moves[0, 0] = COPY
        make_moves(accelerator, moves, total.dtype.itemsize % 8 == 0)
    return total


def joined(accelerator: Accelerator, arrays: list[Any]) -> Any:
    """Return dense arrays end to end, along the first dim."""
    arrays = [accelerator.copied(array) for array in arrays]
    rows = sum([len(array) for array in arrays])
    whole = accelerator.empty((rows, *arrays[0].shape[1:]), arrays[0].dtype)
    sizes = np.array([array.nbytes for array in arrays])
    moves = np.empty((len(arrays), 4), np.int64)
    moves[:, 0], moves[:, 3] = COPY, sizes
    moves[:, 1] = whole.ctypes.data + np.cumsum(sizes) - sizes
    moves[:, 2] = [array.ctypes.data for array in arrays]
    moves = moves[sizes > 0]
    if len(moves):
        make_moves(accelerator, moves, False)
    return whole
