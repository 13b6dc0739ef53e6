"""Ops that ask somebody before they are recorded: autocast, and modes of `torch.overrides`.

While nobody wants to be asked, an op is as if this were not here: recording costs the same. Else
the op forgets the forms of call that it knows, and each call comes by here; a twin keeps the
forms, and does the work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from wend._engine.core import _hot
from wend._engine.core._hot import OpFunction

__all__ = ["Asking", "ask", "asking_ops", "leave_alone"]

#: (the op, positional arguments, keywords) -> the result, or NotImplemented.
Way = Callable[["Asking", tuple[Any, ...], dict[str, Any]], Any]
_LOCK = threading.Lock()


class Asking:
    """An op, its twin, and who is asked, in this order."""

    def __init__(self, function: OpFunction) -> None:
        self.function = function
        self.twin = OpFunction(function.__name__, function.binder, function.inplace)
        self.twin.overloads, self.twin.general = function.overloads, function.general
        self.ways: tuple[Way, ...] = ()

    def call(self, positional: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """The call; ops in the rules of others are not asked about."""
        if _hot.current_trace().symbolic is None:
            for way in self.ways:
                answer = way(self, positional, keywords)
                if answer is not NotImplemented:
                    return answer
        return self.twin(*positional, **keywords)

    def set_ways(self, ways: tuple[Way, ...]) -> None:
        """Who is asked from now on."""
        before, self.ways = self.ways, ways
        if bool(before) is bool(ways):
            return
        function, twin = self.function, self.twin
        function.__init__(function.__name__, function.binder, function.inplace)  # type: ignore[misc]
        function.overloads = twin.overloads
        function.general = self.call if ways else twin.general


_KNOWN: dict[int, Asking] = {}


def asking_ops(functions: Iterable[OpFunction]) -> list[Asking]:
    """Each op once, as `Asking`."""
    for function in functions:
        if id(function) not in _KNOWN:
            _KNOWN[id(function)] = Asking(function)
    return [_KNOWN[key] for key in dict.fromkeys(map(id, functions))]


def ask(ops: Iterable[Asking], way: Way, first: bool = False) -> None:
    """Have somebody asked about these ops."""
    with _LOCK:
        for op in ops:
            op.set_ways((way, *op.ways) if first else (*op.ways, way))


def leave_alone(ops: Iterable[Asking], way: Way) -> None:
    """Have somebody not asked any more."""
    with _LOCK:
        for op in ops:
            op.set_ways(tuple(w for w in op.ways if w != way))
