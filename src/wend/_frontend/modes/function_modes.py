"""Modes of `torch.overrides`: blocks in which a class of the user's is asked about every call."""

from __future__ import annotations

import functools
import threading
from typing import Any

from wend._frontend.methods import entered_modes, through_mode
from wend._frontend.modes.asking import Asking, ask, asking_ops, leave_alone
from wend._frontend.modes.switches import Switch, public_ops, switches
from wend._frontend.overrides import namespaces

__all__ = ["BaseTorchFunctionMode", "TorchFunctionMode", "current_mode", "modes"]

_ENTERED = [0]
_LOCK = threading.Lock()


def _way(op: Asking, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return through_mode(op.function, args, kwargs) if entered_modes() else NotImplemented


@functools.cache
def _all_ops() -> list[Asking]:
    return asking_ops(public_ops())


class _Switches:
    """All that asks besides ops: looked up anew when names have been loaded since."""

    def __init__(self) -> None:
        self.names = 0
        self.found: list[Switch] = []

    def turn_on(self) -> None:
        """Ask from now on."""
        names = sum(len(vars(module)) for module in namespaces())
        if names != self.names:
            self.names, self.found = names, switches()
        for switch in self.found:
            switch.turn_on()

    def turn_off(self) -> None:
        """Nobody asks any more."""
        for switch in self.found:
            switch.turn_off()


_SWITCHES = _Switches()


class TorchFunctionMode:
    """A block in which `__torch_function__(func, types, args, kwargs)` is asked about each call.

    Calls are those of functions, methods, operators, indexing, and the reading and writing of
    attributes. The mode is off while it answers: func(*args, **kwargs) makes the call, or asks the
    next mode.
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
                _SWITCHES.turn_on()
        entered_modes().append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        entered_modes().pop()
        with _LOCK:
            _ENTERED[0] -= 1
            if _ENTERED[0] == 0:
                leave_alone(_all_ops(), _way)
                _SWITCHES.turn_off()

    @classmethod
    def push(cls, *args: object, **kwargs: object) -> Any:
        """The mode itself, for older programs."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that makes each call as it is."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def current_mode() -> Any:
    """The innermost mode of this thread, or None."""
    return entered_modes()[-1] if entered_modes() else None


def modes() -> list[Any]:
    """The modes of this thread, the outermost first."""
    return list(entered_modes())
