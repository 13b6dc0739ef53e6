"""Work that is done as a whole or not at all, should an interrupt come in the middle."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from wend._engine.base.interrupts import is_interrupt
from wend._engine.core import _backward, _hot, _modules
from wend._engine.core._hot import Storage, Tensor, Trace, Value

_WRITING, _ALONE = _modules.WriteBlock(), nullcontext()


def one_at_a_time() -> AbstractContextManager[None]:
    """Where several threads record: code that reads tensors and then writes to them takes turns."""
    return _WRITING if _hot.several() else _ALONE


def cuts_short(error: BaseException) -> bool:
    """Whether an exception may come anywhere: then the work cut short is to be as before."""
    return isinstance(error, (MemoryError, RecursionError)) or is_interrupt(error)


class Headroom:
    """Context with more room on the stack, to tidy up after a RecursionError."""

    __slots__ = ("limit",)

    def __enter__(self) -> None:
        self.limit = sys.getrecursionlimit()
        sys.setrecursionlimit(self.limit + 100)

    def __exit__(self, *_: object) -> None:
        sys.setrecursionlimit(self.limit)


def journal_of(trace: Trace) -> list[Any]:
    """The rebindings that flushes of a trace have made final since somebody began to ask."""
    if trace.journal is None:
        trace.journal = []
    journal: list[Any] = trace.journal
    return journal


def position(trace: Trace) -> int:
    """How many rebindings there have been, as counted by `take_back`; the journal is to be kept."""
    return len(journal_of(trace)) + len(trace.touched)


def take_back(trace: Trace, start: int) -> None:
    """Give handles and storages back the values that they held when `position` was `start`."""
    journal, touched = journal_of(trace), trace.touched
    kept = max(start - len(journal), 0)
    for handle, old, _ in reversed(touched[kept:]):
        _backward.restore(handle, trace.values[old] if isinstance(old, int) else old)
    del touched[kept:]
    for handle, old in reversed(journal[start:]):
        _backward.restore(handle, old)
    del journal[start:]


def last_rebinding(trace: Trace) -> tuple[Any, Any] | None:
    """The last pending rebinding, as (handle or storage, its new value); None if there is none.

    The former value is not part: memory that nobody refers to can take the result.
    """
    if not trace.touched:
        return None
    handle = trace.touched[-1][0]
    return handle, held_by(handle)


def is_undone(last: tuple[Any, Any] | None) -> bool:
    """Whether the rebinding that `last_rebinding` told of has been undone since."""
    return last is not None and held_by(last[0]) is not last[1]


def held_by(handle: Tensor | Storage) -> Value:
    """The value of a handle or a storage."""
    return handle.data if isinstance(handle, _hot.Storage) else handle.value


class Whole(_modules.WholeBlock):
    """Context: rebindings inside happen as a whole, or if the block is cut short, not at all."""

    __slots__ = ()


def _take_back(trace: Trace, start: int, error: BaseException) -> None:
    with Headroom():
        if cuts_short(error):
            take_back(trace, start)


_hot.set_slot("take_back", _take_back)
