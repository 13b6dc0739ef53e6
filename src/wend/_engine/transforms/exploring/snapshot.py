"""The state that the rest of a function depends on: frames, locals, and all that these refer to.

Two runs of a function that stop at the same question with equal snapshots go on in the same way.
A snapshot is a key that leaves out the identity of computed tensors and numbers; these are the
slots, listed in the order in which they are found.
"""

from __future__ import annotations

import gc
import itertools
import types
import warnings
from collections import deque
from collections.abc import Callable
from types import FrameType
from typing import Any

from wend._engine.base.dtypes import DType
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor, Value
from wend._engine.core._types import TensorType
from wend._engine.core.symbolic import SymInt, SymNumber
from wend._engine.transforms.exploring.counters import is_counter
from wend._engine.transforms.exploring.loops import STEPPING, PartsAlong

_len = len  # while a function is explored, the builtin is a slower one
MOST_OBJECTS = 200_000
_PLAIN = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis), range, DType)
_BY_IDENTITY = (type, types.ModuleType, types.BuiltinFunctionType)
#: The attributes of a class that may differ between two classes of the same text.
_OF_CLASSES = (*_PLAIN, types.FunctionType, property, staticmethod, classmethod, list, dict)
#: Objects of Wend's that do not change, or are no part of the function.
_CORE = ("wend._engine.core", "wend._engine.ops", "wend._engine.base.dtypes")
_ITERATORS: frozenset[type] = frozenset(
    (
        type(iter([])),
        type(iter(())),
        type(iter(range(0))),
        type(iter("")),
        type(iter({}.keys())),
        type(iter({}.values())),
        type(iter({}.items())),
        type(iter(set())),
        type(reversed([])),
        zip,
        enumerate,
        map,
        filter,
    )
)
_OF_ITERTOOLS: frozenset[type] = frozenset(
    [
        kind
        for kind in vars(itertools).values()
        if isinstance(kind, type) and hasattr(kind, "__next__")
    ]
)
_FOUND = _ITERATORS.union(STEPPING, _OF_ITERTOOLS)


class TooMuch(Exception):
    """A snapshot would take in too many objects."""


class Snapshot:
    """The state of a run at a question.

    key: equal where the state is equal but for the slots
    slots: the computed values, and the numbers that depend on values, each once
    lists: of a loose snapshot, the lists of computed tensors
    names: names of functions that hold numbers: (frame, name, number, place in the key)
    """

    __slots__ = ("key", "lists", "names", "slots")

    def __init__(
        self,
        key: tuple[Any, ...],
        slots: list[Any],
        lists: list[list[Any]],
        names: list[tuple[Any, str, Any, int]],
    ) -> None:
        self.key = key
        self.slots = slots
        self.lists = lists
        self.names = names

    def but_names(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """(the key without the numbers that names hold, these numbers)."""
        tokens = list(self.key)
        numbers = []
        for _, _, x, place in self.names:
            numbers.append(tokens[place])
            tokens[place] = "float" if _is_float(x) else "int"
        return tuple(tokens), tuple(numbers)


def _is_float(x: object) -> bool:
    return type(x) is float or (isinstance(x, SymNumber) and x.category == 2)


class _Walker:
    """Takes objects apart.

    is_slot: whether a value was computed by the run
    outside_key: a key for a value from outside
    is_number: whether a number depends on values
    is_computed: whether x is a tensor that the run has computed     shown: the seen part of a list
    """

    def __init__(
        self,
        is_slot: Callable[[Value], bool],
        outside_key: Callable[[Value, Tensor], Any],
        is_number: Callable[[Any], bool],
        loose: bool,
        is_computed: Callable[[Any], bool],
        shown: Callable[[list[Any]], list[Any]],
    ) -> None:
        self.is_computed = is_computed
        self.shown = shown
        self.loose = loose
        self.lists: list[list[Any]] = []
        self.is_slot = is_slot
        self.outside_key = outside_key
        self.is_number = is_number
        self.tokens: list[Any] = []
        self.slots: list[Any] = []
        self.seen: dict[int, int] = {}
        self.numbers: dict[int, int] = {}
        self.kept: list[Any] = []  # so that no id is taken twice
        self.waiting: deque[Any] = deque()

    def walk(self, root: object) -> None:
        """Append an object with all parts."""
        stack = [root]
        while stack:
            more = self.token(stack.pop())
            if more:
                stack.extend(reversed(more))
            if _len(self.tokens) > MOST_OBJECTS:
                raise TooMuch

    def token(self, x: Any) -> Any:
        """Append the token of an object; returns the parts of the object."""
        tokens = self.tokens
        kind = type(x)
        if kind in _PLAIN or isinstance(x, DType):
            tokens.append((kind, repr(x) if kind in (float, complex) else x))
            return None
        if isinstance(x, (SymInt, SymNumber)):
            return self.number(x)
        known = self.seen.get(id(x))
        if known is not None:
            tokens.append(("again", known))
            return None
        self.seen[id(x)] = _len(self.seen)
        self.kept.append(x)
        if isinstance(x, Tensor):
            return self.tensor(x)
        if kind is list and self.loose and all(map(self.is_computed, x)):
            tokens.append(("tensors",))
            self.lists.append(x)
            return None
        if kind is PartsAlong:
            tokens.append((kind, x.dim, x.keeps_dim))
            return [x.tensor, x.size]
        if kind is list:
            items = self.shown(x)
            tokens.append((kind, _len(items)))
            return items
        if kind in (tuple, deque) or (isinstance(x, tuple) and hasattr(x, "_fields")):
            tokens.append((kind, _len(x)))
            return list(x)
        if isinstance(x, dict):
            tokens.append((kind, _len(x)))
            return [part for pair in x.items() for part in pair]
        if kind in (set, frozenset):
            tokens.append((kind, tuple(sorted(map(repr, x)))))
            return None
        return self.other(x, kind)

    def number(self, x: SymInt | SymNumber) -> None:
        """A number of the explored function."""
        if not self.is_number(x):
            self.tokens.append(("extent", x.expr))
            return
        known = self.numbers.get(id(x))  # a number in two places is a single param
        if known is not None:
            self.tokens.append(("same", known))
            return
        self.numbers[id(x)] = _len(self.numbers)
        self.kept.append(x)
        self.tokens.append(("number", isinstance(x, SymInt) or x.category))
        self.slots.append(x)

    def tensor(self, x: Tensor) -> list[Any] | None:
        """A handle."""
        value = _hot.refreshed(x)
        if not self.is_slot(value):
            self.tokens.append(("outside", type(x), self.outside_key(value, x)))
            self.kept.append(value)
            return None
        known = self.seen.get(id(value))
        if known is None:
            self.seen[id(value)] = _len(self.seen)
            self.kept.append(value)
            self.slots.append(value)
            self.tokens.append(("slot", type(x), value.type.dtype, value.type.rank))
        else:
            self.tokens.append(("alias", type(x), known))
        own = {k: v for k, v in x.__dict__.items() if k[0] != "_" and not hasattr(Tensor, k)}
        return [own] if own else None

    def other(self, x: Any, kind: type) -> list[Any] | None:
        """Functions, iterators, instances."""
        tokens = self.tokens
        if kind is TensorType:  # each run makes types of its own
            tokens.append((kind, x.dtype, x.rank))
            return None
        if isinstance(x, type) and "<locals>" in x.__qualname__:
            # A function has made the class: each run may make such a class anew.
            tokens.append((kind, x.__module__, x.__qualname__))
            return [v for v in vars(x).values() if isinstance(v, _OF_CLASSES)]
        if isinstance(x, _BY_IDENTITY) or kind.__module__.startswith(_CORE):
            tokens.append((kind, id(x)))
            return None
        if kind is types.FunctionType:
            tokens.append((kind, x.__code__))
            return [*(x.__closure__ or ()), *(x.__defaults__ or ())]
        if kind is types.MethodType:
            tokens.append((kind, getattr(x.__func__, "__code__", id(x.__func__))))
            return [x.__self__]
        if kind is types.CellType:
            tokens.append((kind,))
            try:
                return [x.cell_contents]
            except ValueError:  # a closure's cell is empty
                return None
        if kind is types.GeneratorType:
            frame = x.gi_frame
            if x.gi_running:  # the frame is among those of the function
                tokens.append((kind, x.gi_code))
                return None
            tokens.append((kind, x.gi_code, frame.f_lasti if frame is not None else -1))
            return list(frame.f_locals.values()) if frame is not None else None
        if kind.__module__ == "numpy":
            bits = hash(x.tobytes()) if hasattr(x, "tobytes") else repr(x)
            tokens.append((kind, getattr(x, "shape", None), repr(getattr(x, "dtype", None)), bits))
            return None
        if kind in _FOUND:
            return self.iterator(x, kind)
        local = "<locals>" in kind.__qualname__
        tokens.append((kind.__qualname__ if local else kind,))
        parts: list[Any] = [kind] if local else []
        own = getattr(x, "__dict__", None)
        if type(own) is dict:
            tokens.append(tuple(own))
            parts.extend(own.values())
        for cls in kind.__mro__:
            slots = cls.__dict__.get("__slots__", ())
            names = (slots,) if isinstance(slots, str) else tuple(slots)
            for name in names:
                if name not in ("__weakref__", "__dict__") and hasattr(x, name):
                    parts.append(getattr(x, name))
        return parts

    def iterator(self, x: Any, kind: type) -> list[Any]:
        """An iterator that can be taken apart without being moved on."""
        self.tokens.append((kind,))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Python 3.14 cannot copy those of itertools
                reduced = x.__reduce__()
        except TypeError:  # the iterator cannot be copied: what it refers to tells the most
            return gc.get_referents(x)
        return list(reduced[1:])


def place_in(frame: FrameType) -> object:
    """Where a frame is: by the source, as specialised bytecode calls from another instruction.

    Where a compiler has written a loop's condition twice, both are the same place.
    """
    at = frame.f_lasti // 2
    positions = next(itertools.islice(frame.f_code.co_positions(), at, None), None)
    return positions if positions is not None and positions[2] is not None else frame.f_lasti


def take(
    frames: list[types.FrameType],
    also: list[Any],
    is_slot: Callable[[Value], bool],
    outside_key: Callable[[Value, Tensor], Any],
    is_number: Callable[[Any], bool],
    hidden: Callable[[set[int]], list[Value]],
    hidden_numbers: Callable[[set[int]], list[Any]],
    iterators: list[Any],
    but: object,
    loose: bool,
    is_computed: Callable[[Any], bool],
    shown: Callable[[list[Any]], list[Any]],
    split: Callable[[types.FrameType, str, Any], Any],
) -> Snapshot:
    """The snapshot of these frames, outermost first.

    also: further roots, such as settings     but: an object that is no part of the function
    hidden(ids): the live values of the run but for these; temporaries of expressions
    hidden_numbers(ids): likewise, the numbers
    iterators: those of loops that are running
    loose: whether lists of computed tensors are alike, whatever their lengths
    is_computed: whether x is a tensor that the run has computed     shown: the seen part of a list
    split(frame, name, x): the number that a name holds from now on, if x has a further name
    """
    walker = _Walker(is_slot, outside_key, is_number, loose, is_computed, shown)
    walker.seen[id(but)] = 0
    counted: list[tuple[Any, str, Any, int]] = []
    for frame in frames:
        walker.tokens.append((frame.f_code, place_in(frame)))
        names = frame.f_locals
        walker.tokens.append(tuple(names))
        users = not str(frame.f_globals.get("__name__")).startswith("wend.")
        for name, x in names.items():
            if users and isinstance(x, (SymInt, SymNumber)) and id(x) in walker.numbers:
                x = split(frame, name, x)
            if users and is_counter(frame, name, x):
                counted.append((frame, name, x, _len(walker.tokens)))
            walker.walk(x)
    for x in also:
        walker.walk(x)
    for x in iterators:
        walker.walk(x)
    if not loose:
        for value in hidden(set(walker.seen)):
            walker.tokens.append(("hidden", value.type.dtype, value.type.rank))
            walker.slots.append(value)
        for number in hidden_numbers({id(s) for s in walker.slots}):
            walker.number(number)
    return Snapshot(tuple(walker.tokens), walker.slots, walker.lists, counted)


def counts_in(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """The ints in the key of a snapshot, which differ in each turn of a loop that counts."""
    return tuple([token for token in key if type(token) is tuple and token[:1] == (int,)])


def hidden_lists(
    before: dict[int, Any], is_computed: Callable[[Any], bool], is_value: Callable[[Any], bool]
) -> list[Any]:
    """Lists made since of computed tensors, or of numbers that follow from values.

    Among these are the lists of comprehensions, which have no name.
    """
    return [
        x
        for x in gc.get_objects(generation=0)
        if type(x) is list
        and x
        and id(x) not in before
        and (all(map(is_computed, x)) or all(map(is_value, x)))
    ]


def hidden_iterators(before: dict[int, Any], engine: tuple[str, ...] = ()) -> list[Any]:
    """Iterators made since, in order: those of loops have no name.

    before: by id, those that were there
    engine: how the names of files begin whose generators are no part of the function
    """
    return [
        x
        for x in gc.get_objects(generation=0)
        if id(x) not in before
        and (
            type(x) in _FOUND
            or (type(x) is types.GeneratorType and not x.gi_code.co_filename.startswith(engine))
        )
    ]
