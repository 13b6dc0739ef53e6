"""`int()` and `float()` while a function is explored: the result stays a number of the graph.

Python demands a plain int of `__int__`.  So a module that calls `int` or `float` with a number of
the graph gets a global of that name while a run goes on.  In all other uses but `is`, the
global stands for Python's type.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend._engine.core.symbolic import SymInt, SymNumber

_MISSING: object = object()


class _Kind(type):
    """The type of the stand-ins: equal to Python's type, with the same instances."""

    stands_for: type

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, cls.stands_for)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, cls.stands_for)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.stands_for

    def __hash__(cls) -> int:
        return hash(cls.stands_for)

    def __repr__(cls) -> str:
        return repr(cls.stands_for)


class _Int(int, metaclass=_Kind):
    """`int`, for numbers of the graph too."""

    stands_for = int

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        run, args = _of_graph(args)
        number = args[0] if args else None
        if isinstance(number, SymNumber):
            return run.rounded(number, "trunc")
        return number if isinstance(number, SymInt) else int(*args, **kwargs)


class _Float(float, metaclass=_Kind):
    """`float`, for numbers of the graph too."""

    stands_for = float

    def __new__(cls, *args: Any) -> Any:
        _, args = _of_graph(args)
        number = args[0] if args else None
        if isinstance(number, SymInt):
            return number * 1.0
        return number if isinstance(number, SymNumber) else float(*args)


_STAND_INS: dict[str, Any] = {"int": _Int, "float": _Float}


def _of_graph(args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """The run that is entered, and the arguments; the number in place of a tensor of the graph."""
    if not args or not isinstance(args[0], (Tensor, SymInt, SymNumber)):
        return None, args  # also in threads that do not record, which must not begin to
    run = _hot.current_trace().symbolic
    if len(args) == 1 and hasattr(run, "explores"):
        (x,) = args
        if isinstance(x, Tensor) and run.explores(x) and x.numel() == 1:
            return run, (run.number(x),)
    return run, args


def module_that_converts(name: str) -> dict[str, Any] | None:
    """The globals of the user's function that is calling `int` or `float`; None for Wend's own.

    name: "int" or "float"
    """
    frame = sys._getframe(1)
    while str(frame.f_globals.get("__name__")).startswith("wend.") and frame.f_back is not None:
        frame = frame.f_back
    names = frame.f_globals
    known = name in frame.f_code.co_names
    python = names.get(name, getattr(builtins, name)) is getattr(builtins, name)
    return names if known and python else None


@contextmanager
def conversions(modules: dict[tuple[int, str], dict[str, Any]]) -> Iterator[None]:
    """Inside the block the modules have stand-ins.

    modules: globals, by id() and the name of the stand-in
    """
    modules = dict(modules)  # more are found while a run goes on
    before = {key: names.get(key[1], _MISSING) for key, names in modules.items()}
    for (_, name), names in modules.items():
        names[name] = _STAND_INS[name]
    try:
        yield
    finally:
        for key, names in modules.items():
            if before[key] is _MISSING:
                del names[key[1]]
            else:
                names[key[1]] = before[key]
