"""Modes of `torch.overrides`: blocks in which a class of the user's is asked about every call."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

import wend
from wend.core import _hot
from wend.core._hot import OpFunction, Tensor
from wend.core.primitive import PUBLIC, REGISTRY
from wend.frontend import creation, random
from wend.frontend.modes.asking import Asking, ask, asking_ops, leave_alone

__all__ = ["BaseTorchFunctionMode", "TorchFunctionMode", "current_mode", "modes"]


class _Modes(threading.local):
    def __init__(self) -> None:
        self.stack: list[Any] = []


_STATE = _Modes()
_ENTERED = [0]
_LOCK = threading.Lock()


def _through_mode(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """The answer of the innermost mode, which is off meanwhile."""
    stack = _STATE.stack
    mode = stack.pop()
    try:
        types = tuple({type(a): None for a in (*args, *kwargs.values()) if _overrides(a)})
        made = mode.__torch_function__(function, types, args, kwargs)
    finally:
        stack.append(mode)
    if made is NotImplemented:
        raise TypeError(
            f"{mode!r} answered NotImplemented for {getattr(function, '__name__', function)}: a "
            "mode must call the function itself, or give a result"
        )
    return made


def _overrides(a: Any) -> bool:
    return type(a) is not Tensor and _hot.has_override(a) and not isinstance(a, (list, tuple))


def _way(op: Asking, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return _through_mode(op.function, args, kwargs) if _STATE.stack else NotImplemented


def _asked_in_python(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def asking(*args: Any, **kwargs: Any) -> Any:
        if _STATE.stack:
            return _through_mode(asking, args, kwargs)
        return function(*args, **kwargs)

    return asking


@functools.cache
def _all_ops() -> list[Asking]:
    """Every public op; functions that make tensors without operands are replaced here, once."""
    found: list[OpFunction] = [op.function for op in REGISTRY.values() if op.operators]
    for place in (PUBLIC, vars(Tensor), vars(wend.nn.functional)):
        found += [f for f in place.values() if isinstance(f, OpFunction)]
    for module in (creation, random):
        for name in module.__all__:
            function = getattr(wend, name, None)
            if isinstance(function, FunctionType):
                setattr(wend, name, _asked_in_python(function))
    for name, function in list(vars(wend.nn.functional).items()):
        if isinstance(function, FunctionType) and not name.startswith("_"):
            setattr(wend.nn.functional, name, _asked_in_python(function))
    return asking_ops(found)


class TorchFunctionMode:
    """A block in which `__torch_function__(func, types, args, kwargs)` is asked about each call.

    The mode is off while it answers: func(*args, **kwargs) makes the call, or asks the next mode.
    """

    def __init__(self) -> None:
        pass

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__}: __torch_function__ is not defined")

    def __enter__(self) -> Any:
        with _LOCK:
            _ENTERED[0] += 1
            if _ENTERED[0] == 1:
                ask(_all_ops(), _way, first=True)
        _STATE.stack.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _STATE.stack.pop()
        with _LOCK:
            _ENTERED[0] -= 1
            if _ENTERED[0] == 0:
                leave_alone(_all_ops(), _way)

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """The mode itself, for older programs."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that makes each call as it is."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def current_mode() -> Any:
    """The innermost mode of this thread, or None."""
    return _STATE.stack[-1] if _STATE.stack else None


def modes() -> list[Any]:
    """The modes of this thread, the outermost first."""
    return list(_STATE.stack)
