"""Loops over extents: while a function is explored, `range` and the like ask whether to go on.

Python's own `range` needs plain ints, and would fix the number of turns. While a run is entered,
`range`, `len`, `enumerate` and `zip` of the builtins know extents and explored tensors. Arguments
of further kinds, and further threads, get Python's.
"""

from __future__ import annotations

import builtins
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wend.core import _hot
from wend.core._hot import Tensor
from wend.core.symbolic import GT, LT, expr_of, hint_of
from wend.transforms.exploring.numbers import Extent

__all__ = ["STEPPING", "Steps", "symbolic_loops"]

_range, _len, _enumerate, _zip = range, len, enumerate, zip


class Steps:
    """The iterator of a loop over an extent: each turn is a question.

    tensor: whose parts along dim 0 are the items; None for the numbers themselves
    """

    __slots__ = ("at", "run", "step", "stop", "tensor")

    def __init__(self, run: Any, start: Any, stop: Any, step: int, tensor: Any = None) -> None:
        self.run = run
        self.at = run.counter(start)
        self.stop = stop
        self.step = step
        self.tensor = tensor

    def __iter__(self) -> Steps:
        return self

    def __next__(self) -> Any:
        op = LT if self.step > 0 else GT
        self.at = self.run.as_slot(self.at)
        if not self.run.ask(("compare", op, self.at.expr, expr_of(self.stop))):
            if self.step == 1:
                self.run.ran_through(self.at, hint_of(self.stop))
            raise StopIteration
        now = self.at
        self.at = now + self.step
        return now if self.tensor is None else self.tensor.select(0, now)

    def __reduce__(self) -> Any:
        return Steps, (self.at, self.stop, self.step, self.tensor)


class _Range:
    """A range over an extent."""

    __slots__ = ("run", "start", "step", "stop")

    def __init__(self, run: Any, start: Any, stop: Any, step: Any) -> None:
        self.run, self.start, self.stop, self.step = run, start, stop, step

    def __iter__(self) -> Steps:
        return Steps(self.run, self.start, self.stop, self.step)

    def __len__(self) -> int:
        return int(self.length())

    def length(self) -> Any:
        """Number of turns."""
        if self.step > 0:
            return (self.stop - self.start + self.step - 1) // self.step
        return (self.start - self.stop - self.step - 1) // -self.step

    def __reversed__(self) -> Steps:
        last = self.start + (self.length() - 1) * self.step
        return Steps(self.run, last, self.start - (1 if self.step > 0 else -1), -self.step)

    def __getitem__(self, i: Any) -> Any:
        return self.start + i * self.step


class _Counted:
    """enumerate() of a loop over an extent."""

    __slots__ = ("items", "start")

    def __init__(self, items: Any, start: Any) -> None:
        self.items, self.start = iter(items), start

    def __iter__(self) -> _Counted:
        return self

    def __next__(self) -> Any:
        steps = self.items
        item = next(steps)
        number = steps.at - steps.step if steps.step == 1 else None
        if number is None:
            raise TypeError("enumerate: of a range whose step is not 1")
        return number + self.start, item

    def __reduce__(self) -> Any:
        return _Counted, (self.items, self.start)


class _Together:
    """zip() of loops over extents: the turns of the first operand."""

    __slots__ = ("items", "lengths")

    def __init__(self, items: list[Any]) -> None:
        self.items = [iter(x) for x in items]

    def __iter__(self) -> _Together:
        return self

    def __next__(self) -> Any:
        return tuple([next(x) for x in self.items])

    def __reduce__(self) -> Any:
        return _Together, (self.items,)


#: Iterators that snapshots take apart.
STEPPING = (Steps, _Counted, _Together)


#: Wend's modules whose loops stay loops; elsewhere inside Wend a loop over a size fixes the size.
_WITH_LOOPS = ("wend.nn.", "wend.onnx.")


def _run() -> Any:
    """The run that is being explored in this thread, if the calling code keeps loops."""
    run = _hot.current_trace().symbolic
    if not getattr(run, "keeps_loops", False):
        return None
    caller = str(sys._getframe(2).f_globals.get("__name__"))
    return None if caller.startswith("wend.") and not caller.startswith(_WITH_LOOPS) else run


def _is_symbolic(x: Any, run: Any) -> bool:
    if isinstance(x, (Steps, _Range, _Counted, _Together)):
        return True
    return isinstance(x, Tensor) and x.dim() > 0 and isinstance(x.shape[0], Extent)


class _RangeKind(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, (_range, _Range))


class _ExploredRange(metaclass=_RangeKind):
    """`range`, for extents too."""

    def __new__(cls, *args: Any) -> Any:
        if not any(isinstance(a, Extent) for a in args):
            return _range(*args)
        run = _run()
        if run is None:
            return _range(*args)
        start, stop, step = (0, args[0], 1) if _len(args) == 1 else (*args, 1)[:3]
        return _Range(run, start, stop, int(step))


def _explored_len(x: Any, /) -> Any:
    if isinstance(x, _Range):
        return x.length()
    run = _run()
    if run is None and isinstance(x, Tensor) and x.dim() > 0:
        n = x.shape[0]  # values decide it: no number of turns can be fixed
        if isinstance(n, Extent) and not n.guards.is_of_inputs(n.expr):
            return n
    if run is not None:
        if isinstance(x, Tensor) and x.dim() > 0:
            return x.shape[0]
        if type(x) is list and any(map(run.is_sequence, x)):
            return run.length_of(x)
    return _len(x)


class _EnumerateKind(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, (_enumerate, _Counted))


class _ExploredEnumerate(metaclass=_EnumerateKind):
    """`enumerate`, for loops over extents too."""

    def __new__(cls, iterable: Any, start: Any = 0) -> Any:
        run = _run()
        if run is not None and _is_symbolic(iterable, run):
            items = iter(iterable)
            if isinstance(items, Steps):
                return _Counted(items, start)
        return _enumerate(iterable, start)


class _ZipKind(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, (_zip, _Together))


class _ExploredZip(metaclass=_ZipKind):
    """`zip`, for loops over extents too."""

    def __new__(cls, *items: Any, **strict: Any) -> Any:
        run = _run()
        if run is not None and items and all(_is_symbolic(x, run) for x in items):
            return _Together(list(items))
        return _zip(*items, **strict)


_lock = threading.Lock()
_entered = 0


@contextmanager
def symbolic_loops() -> Iterator[None]:
    """Inside the block the builtins know extents."""
    global _entered
    with _lock:
        _entered += 1
        if _entered == 1:
            builtins.range = _ExploredRange  # type: ignore[misc]
            builtins.len = _explored_len
            builtins.enumerate = _ExploredEnumerate  # type: ignore[misc]
            builtins.zip = _ExploredZip  # type: ignore[misc]
    try:
        yield
    finally:
        with _lock:
            _entered -= 1
            if _entered == 0:
                builtins.range, builtins.len = _range, _len  # type: ignore[misc]
                builtins.enumerate, builtins.zip = _enumerate, _zip  # type: ignore[misc]
