"""Loops over extents: while a function is explored, `range` and the like ask whether to go on.

Python's own `range` needs plain ints, and would fix the number of turns. While a run is entered,
`range`, `len`, `enumerate`, `zip`, `max` and `min` of the builtins know extents and explored
tensors. Arguments of further kinds, and further threads, get Python's.
"""

from __future__ import annotations

import builtins
import dis
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Protocol

from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._engine.core.symbolic import GT, LT, MAX, MIN, AnyInt, Expr, expr_of, hint_of
from wend._engine.transforms.exploring.numbers import Extent

_range, _len, _enumerate, _zip, _max, _min = range, len, enumerate, zip, max, min


class LoopRun(Protocol):
    """The run of a function that is being explored, as far as loops need to know."""

    turns: dict[int, tuple[Any, Expr, Expr]]

    def counter(self, start: AnyInt) -> Extent:
        """A number that begins with `start` and is a slot of snapshots."""

    def as_slot(self, x: Extent) -> Extent:
        """The number with a fresh id."""

    def ask(self, question: tuple[Any, ...]) -> bool:
        """The answer to a question."""

    def ran_through(self, at: Extent, first: int, stop: int) -> None:
        """Note that a loop by steps of 1 or -1 has ended."""


class Steps:
    """The iterator of a loop over an extent: each turn is a question.

    parts: the items; None for the numbers themselves
    """

    __slots__ = ("at", "first", "now", "parts", "run", "step", "stop")

    def __init__(
        self, run: LoopRun, start: AnyInt, stop: AnyInt, step: int, parts: PartsAlong | None = None
    ) -> None:
        self.run = run
        self.first = start
        self.now = self.at = run.counter(start)
        self.stop = stop
        self.step = step
        self.parts = parts

    def __iter__(self) -> Steps:
        return self

    def __next__(self) -> Any:
        op = LT if self.step > 0 else GT
        self.at = self.run.as_slot(self.at)
        if not self.run.ask(("compare", op, self.at.expr, expr_of(self.stop))):
            if abs(self.step) == 1:
                self.run.ran_through(self.at, hint_of(self.first), hint_of(self.stop))
            raise StopIteration
        self.now = now = self.at
        if self.step > 0:
            self.run.turns[id(now)] = (now, expr_of(self.first), expr_of(self.stop))
        self.at = now + self.step
        return now if self.parts is None else self.parts.item(now)

    def __reduce__(self) -> tuple[Any, ...]:
        return Steps, (self.first, self.at, self.stop, self.step, self.parts)


class PartsAlong(tuple[Any, ...]):
    """The parts of a tensor along a dim whose extent is a symbol: a tuple for those who need it.

    A loop over the parts stays a loop.  The handles of the tuple, as many as there are while
    exploring, stand for parts that are not recorded; use of such a handle fixes the extent.

    keeps_dim: whether each part keeps the dim
    size: the extent of a part; the last may be smaller
    """

    run: LoopRun
    tensor: Tensor
    dim: int
    keeps_dim: bool
    size: AnyInt

    @staticmethod
    def of(
        run: LoopRun,
        tensor: Tensor,
        dim: int,
        keeps_dim: bool,
        handles: Iterable[Tensor],
        size: AnyInt = 1,
    ) -> PartsAlong:
        """The parts; handles stand for those that there are while exploring."""
        parts = PartsAlong(handles)
        parts.__dict__.update(run=run, tensor=tensor, dim=dim, keeps_dim=keeps_dim, size=size)
        return parts

    def item(self, i: Any) -> Any:
        """Part i, recorded."""
        if not self.keeps_dim:
            return self.tensor.select(self.dim, i)
        if type(self.size) is int and self.size == 1:
            return self.tensor.narrow(self.dim, i, 1)
        first = i * self.size
        return ops.slice(self.tensor, self.dim, first, first + self.size)

    def length(self) -> AnyInt:
        """The number of parts."""
        n = self.tensor.shape[self.dim]
        if type(self.size) is int and self.size == 1:
            return n
        return (n + self.size - 1) // self.size

    def __iter__(self) -> Iterator[Any]:
        frame = sys._getframe(1)
        while frame.f_globals is globals() and frame.f_back is not None:  # enumerate and zip
            frame = frame.f_back
        wanted = _unpacked(frame)
        if wanted and _keeps_loops_in(frame):
            return iter(self.so_many(wanted))
        if wanted is not None or not _keeps_loops_in(frame):
            return super().__iter__()
        return Steps(self.run, 0, self.length(), 1, self)

    def so_many(self, wanted: int) -> list[Any]:
        """The parts, if there are as many; further or fewer parts make an unpacking fail."""
        n = self.length()
        if n == wanted:
            return [self.item(k) for k in range(wanted)]
        return [None] * (wanted - 1 if n < wanted else wanted + 1)

    def __reversed__(self) -> Steps:
        return Steps(self.run, self.length() - 1, -1, -1, self)

    def __len__(self) -> int:
        return int(self.length())

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return super().__getitem__(i)
        n = self.length()
        if i < 0:
            i = n + i
        if not (i >= 0 and i < n):
            raise IndexError("tuple index out of range")
        return self.item(i)


def _unpacked(frame: FrameType) -> int | None:
    """The number of names of `a, b = ...` that a frame is at; 0 with a starred name; else None."""
    code, at = frame.f_code.co_code, frame.f_lasti
    if code[at] == dis.opmap["UNPACK_SEQUENCE"]:
        return int(code[at + 1])
    return 0 if code[at] == dis.opmap["UNPACK_EX"] else None


class _Range:
    """A range over an extent."""

    __slots__ = ("run", "start", "step", "stop")

    def __init__(self, run: LoopRun, start: AnyInt, stop: AnyInt, step: int) -> None:
        self.run, self.start, self.stop, self.step = run, start, stop, step

    def __iter__(self) -> Steps:
        return Steps(self.run, self.start, self.stop, self.step)

    def __len__(self) -> int:
        return int(self.length())

    def length(self) -> AnyInt:
        """Number of turns."""
        if self.step > 0:
            return (self.stop - self.start + self.step - 1) // self.step
        return (self.start - self.stop - self.step - 1) // -self.step

    def __reversed__(self) -> Steps:
        last = self.start + (self.length() - 1) * self.step
        return Steps(self.run, last, self.start - (1 if self.step > 0 else -1), -self.step)

    def __getitem__(self, i: AnyInt) -> AnyInt:
        return self.start + i * self.step


class _Counted:
    """enumerate() of a loop over an extent."""

    __slots__ = ("items", "start")

    def __init__(self, items: Iterable[Any], start: AnyInt) -> None:
        self.items, self.start = iter(items), start

    def __iter__(self) -> _Counted:
        return self

    def __next__(self) -> tuple[AnyInt, Any]:
        item = next(self.items)
        steps = _steps_of(self.items)
        if steps.step == 1 and expr_of(steps.first) == 0 and self.start == 0:
            return steps.now, item
        turn = steps.at - steps.first
        return (turn if steps.step == 1 else turn // steps.step) - 1 + self.start, item

    def __reduce__(self) -> tuple[Any, ...]:
        return _Counted, (self.items, self.start)


class _Together:
    """zip() of loops over extents: the turns of the first operand."""

    __slots__ = ("items", "lengths")

    def __init__(self, items: list[Any]) -> None:
        self.items = [iter(x) for x in items]

    def __iter__(self) -> _Together:
        return self

    def __next__(self) -> tuple[Any, ...]:
        return tuple([next(x) for x in self.items])

    def __reduce__(self) -> tuple[Any, ...]:
        return _Together, (self.items,)


#: Iterators that snapshots take apart.
STEPPING = (Steps, _Counted, _Together)
#: Modules through which user code asks for the parts of a tensor.
_ON_THE_WAY = ("wend._engine.ops.composites.split", "wend._engine.ops.sugar", "wend._engine.core.")


#: Wend's modules whose loops stay loops; elsewhere inside Wend a loop over a size fixes the size.
_WITH_LOOPS = ("wend.nn.", "wend.onnx.", "wend._higher_order_ops.")


def _run() -> Any:
    """The run that is being explored in this thread, if the calling code keeps loops."""
    if threading.get_ident() not in _exploring:
        # The builtins are those of all threads. Most do not record, and must not begin to.
        return None
    run = _hot.current_trace().symbolic
    if not getattr(run, "keeps_loops", False):
        return None
    return run if _keeps_loops_in(sys._getframe(2)) else None


def _keeps_loops_in(frame: FrameType) -> bool:
    """Whether a loop in this frame may stay a loop."""
    name = str(frame.f_globals.get("__name__"))
    return not name.startswith("wend.") or name.startswith(_WITH_LOOPS)


def asked_by_user() -> bool:
    """Whether a function of parts is being called by code whose loops stay loops."""
    frame = sys._getframe(2)
    while frame.f_back and str(frame.f_globals.get("__name__")).startswith(_ON_THE_WAY):
        frame = frame.f_back
    return _keeps_loops_in(frame)


def _is_symbolic(x: object, run: object) -> bool:
    if isinstance(x, (Steps, PartsAlong, _Range, _Counted, _Together)):
        return True
    return isinstance(x, Tensor) and x.dim() > 0 and isinstance(x.shape[0], Extent)


def _steps_of(items: object) -> Any:
    """The loop over an extent that an iterator goes along with; None for a further iterator."""
    while isinstance(items, _Together):
        items = items.items[0]
    return items if isinstance(items, Steps) else None


class _RangeKind(type):
    def __instancecheck__(cls, x: object) -> bool:
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
    kind = type(x)
    if kind is not list and not issubclass(kind, Tensor):
        return x.length() if kind is _Range or kind is PartsAlong else _len(x)
    run = _run()
    if run is None and isinstance(x, Tensor) and x.dim() > 0:
        n = x.shape[0]  # values decide it: no number of turns can be fixed
        if isinstance(n, Extent) and not n.guards.is_of_inputs(n.expr):
            return n
    if run is not None:
        if isinstance(x, Tensor) and x.dim() > 0:
            return x.shape[0]
        if type(x) is list and run.lists.is_long(x):
            return run.lists.length(x)
    return _len(x)


class _EnumerateKind(type):
    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, (_enumerate, _Counted))


class _ExploredEnumerate(metaclass=_EnumerateKind):
    """`enumerate`, for loops over extents too."""

    def __new__(cls, iterable: Any, start: Any = 0) -> Any:
        run = _run()
        if run is not None and _is_symbolic(iterable, run):
            items = iter(iterable)
            return _enumerate(items, start) if _steps_of(items) is None else _Counted(items, start)
        return _enumerate(iterable, start)


class _ZipKind(type):
    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, (_zip, _Together))


class _ExploredZip(metaclass=_ZipKind):
    """`zip`, for loops over extents too."""

    def __new__(cls, *items: Any, **strict: bool) -> Any:
        run = _run()
        if run is not None and items and all(_is_symbolic(x, run) for x in items):
            return _Together(list(items))
        return _zip(*items, **strict)


def _explored_max(*args: object, **kwargs: object) -> Any:
    return _largest(MAX, _max, args, kwargs)


def _explored_min(*args: object, **kwargs: object) -> Any:
    return _largest(MIN, _min, args, kwargs)


def _largest(
    op: int, python: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """`max` or `min`; of ints of which some are extents, an extent."""
    items = args
    if _len(args) == 1 and type(args[0]) in (list, tuple):
        (items,) = args
    kinds = {type(x) for x in items} if _len(args) > 1 or items is not args else set()
    if kwargs or Extent not in kinds or not kinds <= {int, Extent}:
        return python(*args, **kwargs)
    first, *rest = items
    for x in rest:
        a, b = (first, x) if type(first) is Extent else (x, first)
        first = a._binary(op, b) if type(a) is Extent else python(a, b)
    return first


_lock = threading.Lock()
#: The threads in `symbolic_loops`, each with the number of blocks.
_exploring: dict[int, int] = {}


@contextmanager
def symbolic_loops() -> Iterator[None]:
    """Inside the block the builtins know extents."""
    thread = threading.get_ident()
    with _lock:
        _exploring[thread] = _exploring.get(thread, 0) + 1
        if sum(_exploring.values()) == 1:
            builtins.range = _ExploredRange  # type: ignore[misc]
            builtins.len = _explored_len
            builtins.enumerate = _ExploredEnumerate  # type: ignore[misc]
            builtins.zip = _ExploredZip  # type: ignore[misc]
            builtins.max, builtins.min = _explored_max, _explored_min
    try:
        yield
    finally:
        with _lock:
            _exploring[thread] -= 1
            if not _exploring[thread]:
                del _exploring[thread]
            if not _exploring:
                builtins.range, builtins.len = _range, _len  # type: ignore[misc]
                builtins.enumerate, builtins.zip = _enumerate, _zip  # type: ignore[misc]
                builtins.max, builtins.min = _max, _min
