"""Public functions that only parse arguments and call ops: nothing else is recorded."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from wend.core import _hot
from wend.core.primitive import ops, publish

Function = TypeVar("Function", bound=Callable[..., Any])


def sugar(
    *, functions: tuple[str, ...] = (), methods: tuple[str, ...] = (), name: str | None = None
) -> Callable[[Function], Function]:
    """Make a plain function available as `ops.name` and under all public names."""

    def bind(function: Function) -> Function:
        setattr(ops, name or function.__name__, function)
        publish(function, functions, methods)
        return function

    return bind


def overridable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Has the class of the first argument asked first, if that class overrides ops."""

    @functools.wraps(function)
    def asking(*args: Any, **kwargs: Any) -> Any:
        if args and _hot.has_override(args[0]):
            return _hot.slot("torch_function")(getattr(ops, function.__name__), args, kwargs)
        return function(*args, **kwargs)

    return asking


def same_tensors(tensors: tuple[Any, ...]) -> tuple[Any, ...]:
    """The operands of a variadic function that also takes a list or tuple of operands."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        return tuple(tensors[0])
    return tensors
