"""Writing results over operands to which nothing else refers.

The first case is the buffer of a held value, as in `out[t] = h` with a flush per row. The
overwritten data is noted, so that a flush that fails can put everything back. The second case is a
value that the same flush has computed and no longer needs, where the result is exact: memory that
is in a cache already is written twice as fast.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wend._engine.base import dtypes
from wend._engine.core._hot import FlushJob
from wend._engine.core.graph import Node
from wend._engine.core.primitive import Primitive

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _holders(values: list[Any], i: int) -> int:
    """Return how many references entry `i` of a list has, with the references of this call."""
    value = values[i]
    return sys.getrefcount(value)


#: References to an object that only a list holds; measured, because interpreters differ.
_LONE = _holders([object()], 0)


class Lending(list[Any]):
    """The values of a run, some of them in buffers of leaves that may be written to.

    written: by id() of the array, its leaf and the overwritten data: (primitive, sizes, data)
    """

    def __init__(self, size: int) -> None:
        super().__init__([None] * size)
        self.written: dict[int, tuple[int, list[tuple[Any, list[Any], Any]]]] = {}

    def lend(self, batch: FlushJob, leaves: list[int]) -> None:
        """Allow writes to each of the leaves whose value has no references from outside."""
        values = batch.values
        for i in leaves:
            value = values[i]
            # Handles return to their former values only if the flush fails.
            known = _LONE + sum(entry[1] is value for entry in batch.touched)
            if value.buffer is None or value.extra is not None:
                continue
            if _holders(values, i) - 1 <= known:  # the variable `value` counts, too
                self.written[id(value.buffer)] = (i, [])

    def put_back(self, batch: FlushJob) -> None:
        """Undo all writes, because the flush has failed."""
        for i, writes in self.written.values():
            array = batch.values[i].buffer
            for prim, sizes, data in reversed(writes):
                prim.part(array, *sizes)[...] = data
        self.written.clear()


def may_write(
    env: list[Any] | None, prim: Primitive, arrays: list[Any], args: Sequence[Any]
) -> bool:
    """Return whether a step may write over the first of its arrays, which the step frees.

    A write to the buffer of a leaf is noted, with the data that is overwritten.
    """
    array = arrays[0]
    if type(array) is not np.ndarray or array.base is not None or not array.flags.writeable:
        return False
    if any(other is array for other in arrays[1:]):
        return False
    entry = env.written.get(id(array)) if isinstance(env, Lending) else None
    if entry is None:
        return _holders(arrays, 0) - 1 <= _LONE
    # The value of the leaf holds the array as well.
    if not hasattr(prim, "part") or _holders(arrays, 0) - 1 > _LONE + 1:
        return False
    sizes = prim.arrange(arrays, args)[2:]
    entry[1].append((prim, sizes, prim.part(array, *sizes).copy()))
    return True


#: Bytes of an operand from which a search for memory that can take the result pays.
WORTH = 1 << 14


def spent_operands(node: Node, frees: tuple[int, ...]) -> tuple[int, ...]:
    """Return the numbers of the operands that an op with `overwrites` frees and may write over."""
    dtype = node.program.outs[0][1]
    # Halves are computed in a wider type; each part of a complex result needs both parts of the
    # operand.
    if dtype is dtypes.float16 or dtype is dtypes.bfloat16 or dtype.is_complex:
        return ()
    types = node.program.sample_types
    return tuple([k for k, i in enumerate(node.inputs) if i in frees and types[k].dtype is dtype])


def room_among(arrays: list[Any], spent: tuple[int, ...]) -> NDArray[Any] | None:
    """Return a spent operand without other references, of the size of the result, or None."""
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


def _fits(array: NDArray[Any], shape: tuple[int, ...]) -> bool:
    """Return whether the result keeps this shape and order of elements with this operand."""
    rank = array.ndim
    if rank == 0:
        return True
    return bool(array.flags.c_contiguous) and array.shape == shape[len(shape) - rank :]
