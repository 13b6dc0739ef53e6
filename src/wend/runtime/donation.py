"""Writing into the buffers of held values that nobody else has: `out[t] = h`, a flush per row.

What is overwritten is noted, so that a flush that fails can put everything back.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from wend.core._hot import Batch


def _holders(values: list[Any], i: int) -> int:
    """How many refer to entry `i` of a list, those included that every such call adds."""
    value = values[i]
    return sys.getrefcount(value)


#: References to what only a list holds; measured, as interpreters differ.
_LONE = _holders([object()], 0)


class Lending(list[Any]):
    """The values of a run, some of them in buffers of leaves that may be written to.

    written: by id() of the array its leaf, and what was overwritten: (primitive, sizes, data)
    """

    def __init__(self, size: int) -> None:
        super().__init__([None] * size)
        self.written: dict[int, tuple[int, list[tuple[Any, list[Any], Any]]]] = {}

    def lend(self, batch: Batch, leaves: list[int]) -> None:
        """Let those of the leaves be written to whose value nothing outside refers to any more."""
        values = batch.values
        for i in leaves:
            value = values[i]
            # Handles return to what they held only if the flush fails.
            known = _LONE + sum(entry[1] is value for entry in batch.touched)
            if value.buffer is None or value.extra is not None:
                continue
            if _holders(values, i) - 1 <= known:  # here is one more
                self.written[id(value.buffer)] = (i, [])

    def put_back(self, batch: Batch) -> None:
        """Undo all writes: the flush has failed."""
        for i, writes in self.written.values():
            array = batch.values[i].buffer
            for prim, sizes, data in reversed(writes):
                prim.part(array, *sizes)[...] = data
        self.written.clear()


def may_write(env: list[Any], prim: Any, arrays: list[Any], args: Any) -> bool:
    """Whether the first of the arrays, which a step is done with, may be overwritten by it."""
    array = arrays[0]
    if type(array) is not np.ndarray or array.base is not None or not array.flags.writeable:
        return False
    if any(other is array for other in arrays[1:]):
        return False
    entry = env.written.get(id(array)) if isinstance(env, Lending) else None
    if entry is None:
        return _holders(arrays, 0) - 1 <= _LONE
    if not hasattr(prim, "part") or _holders(arrays, 0) - 1 > _LONE + 1:  # its value has it too
        return False
    sizes = prim.arrange(arrays, args)[2:]
    entry[1].append((prim, sizes, prim.part(array, *sizes).copy()))
    return True
