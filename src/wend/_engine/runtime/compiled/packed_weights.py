"""Operands of matrix products that stay packed from flush to flush: weights.

The right operand of a product is read in panels. Panels are kept for a leaf of a plan that is the
operand as a whole. The panels are packed when the value is used in the same way for the second
time. Later uses find the panels by their layout, and the panels are dropped with the value. In
training a parameter has a new value in each step, which is read once as given and once transposed:
nothing is packed. Where several groups of a flush read a value, the first group has the value
packed (`_slabs.Rows.begin`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from wend._engine.compiler.kernels.matmul import matmul
from wend._engine.runtime.native.launcher import launcher as _launch
from wend._engine.runtime.native.temporaries import ALIGNMENT, aligned

#: Bytes of the panels held now, and the number of operands packed since the process began.
COUNTS = {"bytes": 0, "packed": 0}
#: Products of more rows than this pack block by block, at little cost compared to the product.
MAX_ROWS = 4096
#: Operands of fewer elements than SMALL are packed only after PATIENCE uses, since packing block
#: by block takes less time. A parameter of a small recurrent net is used that often in a step.
SMALL, PATIENCE = 1 << 14, 16


class PanelLayout:
    """The layout of an operand that is packed into panels.

    offset: bytes from the value's start to the operand
    numbers: (depth, columns, step, column); the last two are strides in elements
    room: (maker, shape, dtype) of the array for the panels
    words: the call that packs the panels, as for `_launch.run_call`, without addresses

    Layouts are compared by identity, because each product looks one up.
    """

    __slots__ = ("dtype", "numbers", "offset", "room", "words")

    def __init__(
        self, dtype: str, offset: int, depth: int, columns: int, step: int, column: int
    ) -> None:
        self.dtype, self.offset = dtype, offset
        self.numbers = depth, columns, step, column
        item = np.dtype(matmul.accumulator(dtype)).itemsize
        size = matmul.packed_size(depth, columns, dtype) * item + ALIGNMENT
        self.room = np.empty, (size,), np.dtype(np.uint8)
        self.words = np.array((0, 0, 1, 0, 0, 0, 0, *self.numbers, 1, 1, 0, 0), np.int64)


@lru_cache(4096)
def layout(
    dtype: str, offset: int, depth: int, columns: int, step: int, column: int
) -> PanelLayout:
    """Return the layout with these numbers, always the same object."""
    return PanelLayout(dtype, offset, depth, columns, step, column)


def patience(layout: PanelLayout) -> int:
    """Return how often an operand is used before packing."""
    depth, columns, *_ = layout.numbers
    return PATIENCE if depth * columns < SMALL else 1


class PackedPanels:
    """The memory of a packed operand."""

    __slots__ = ("address", "memory")

    def __init__(self, layout: PanelLayout) -> None:
        self.memory = _launch.new_array(*layout.room)
        self.address = aligned(_launch.address_of(self.memory))
        COUNTS["bytes"] += self.memory.nbytes
        COUNTS["packed"] += 1

    def __del__(self) -> None:
        memory = getattr(self, "memory", None)
        if memory is not None:
            COUNTS["bytes"] -= memory.nbytes


def pack(value: Any, layout: PanelLayout, library: Any, address: int) -> int:
    """Pack a value's elements, which begin at `address`; return the address of the panels.

    Returns 0 if the value's memory may be written to from outside.
    """
    if value.extra is not None:
        return 0
    panels = PackedPanels(layout)
    words = layout.words.copy()
    words[0], words[5], words[6] = library.address("pack"), address, panels.address
    _launch.run_call(_launch.address_of(words), 5)
    # Before, `packed` was the layout of the first use, and then the number of uses.
    others = value.packed if isinstance(value.packed, dict) else {}
    value.packed = {**others, layout: panels.address, panels.address: panels}
    return panels.address
