"""Operands of matrix products that stay packed from flush to flush: weights.

The right operand of a product is read in panels. A value that is used again, and is whole an
operand from outside of a plan, keeps its panels: they are packed when it is used for the second
time in the same way, found by how they are laid out, and dropped with the value. In training a
parameter has a new value in each step, which is read once as it is and once turned: nothing is
packed. Where several groups of one flush read it, the first has it packed (`_slabs.Rows.begin`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from wend.compiler.kernels.matmul import matmul
from wend.runtime.compiled.arena import ALIGNMENT, aligned
from wend.runtime.native.launcher import launcher as _launch

#: Panels that are held now, and how many were packed since the process began.
COUNTS = {"bytes": 0, "packed": 0}
#: Products of more rows than this pack block by block: that costs them little.
MAX_ROWS = 4096
#: Operands of fewer elements are packed block by block in less time than it takes to do it here:
#: they wait for so many uses. A parameter of a small recurrent net is used that often in a step.
SMALL, PATIENCE = 1 << 14, 16


class PanelLayout:
    """What panels hold: `offset` is in bytes from the value's start, strides are in elements.

    numbers   depth, columns, step, column     room: (make, shape, dtype) of memory for panels
    words     what packs them, as `_launch.run_call` takes it, but for addresses
    Layouts are told by identity: they are looked up in each product.
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
    """The same object for the same layout."""
    return PanelLayout(dtype, offset, depth, columns, step, column)


def patience(layout: PanelLayout) -> int:
    """How often an operand is used before it is packed."""
    depth, columns, *_ = layout.numbers
    return PATIENCE if depth * columns < SMALL else 1


class PackedPanels:
    """Memory of one packed operand."""

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
    """Pack a held value's elements, which begin at `address`; returns where the panels are.

    0 if the value's memory may be written to from outside.
    """
    if value.extra is not None:
        return 0
    panels = PackedPanels(layout)
    words = layout.words.copy()
    words[0], words[5], words[6] = library.address("pack"), address, panels.address
    _launch.run_call(_launch.address_of(words), 5)
    # Until then it was the layout of the first use, then the number of uses.
    others = value.packed if isinstance(value.packed, dict) else {}
    value.packed = {**others, layout: panels.address, panels.address: panels}
    return panels.address
