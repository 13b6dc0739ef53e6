"""Writing over operands that nobody else has.

Into the buffers of held values, `out[t] = h`, a flush per row: what is overwritten is noted, so
that a flush that fails can put everything back. And over what the same flush has computed and is
done with, where the result is exact: memory that is in a cache already is written twice as fast.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from wend.base import dtypes
from wend.core._hot import FlushJob
from wend.core.graph import Node


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

    def lend(self, batch: FlushJob, leaves: list[int]) -> None:
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

    def put_back(self, batch: FlushJob) -> None:
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


#: Bytes from which it pays to look whether an operand's memory can take the result.
WORTH = 1 << 14


def spent_operands(node: Node, frees: tuple[int, ...]) -> tuple[int, ...]:
    """The operands, by number, that an op that `overwrites` is done with and may write over."""
    dtype = node.program.outs[0][1]
    # Halves are computed in a wider type; a part of a complex number depends on both of another.
    if dtype is dtypes.float16 or dtype is dtypes.bfloat16 or dtype.is_complex:
        return ()
    types = node.program.sample_types
    return tuple([k for k, i in enumerate(node.inputs) if i in frees and types[k].dtype is dtype])


def room_among(arrays: list[Any], spent: tuple[int, ...]) -> Any:
    """That of the spent operands which nobody else has and which is as large as the result."""
    for k in spent:
        array = arrays[k]
        if (
            type(array) is np.ndarray
            and array.nbytes >= WORTH
            and array.base is None
            and _holders(arrays, k) - 1 <= _LONE
            and array.flags.carray
            and all(_fits(other, array.shape) for other in arrays)
        ):
            return array
    return None


def _fits(array: Any, shape: tuple[int, ...]) -> bool:
    """Whether an operand leaves the result this shape, and the order of its elements."""
    rank = array.ndim
    if rank == 0:
        return True
    return bool(array.flags.c_contiguous) and array.shape == shape[len(shape) - rank :]
