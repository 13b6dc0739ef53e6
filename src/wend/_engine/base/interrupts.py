"""Interrupts of a program, told apart from its failures.

An interrupt may come between any two instructions: Ctrl-C, a notebook's stop button, an exception
of a signal handler or a timer, or an exception that another thread asked for. The interrupt says
nothing about the interrupted work. The computation stays pending, and the exception goes on to the
user.
"""

from __future__ import annotations

import sys
from types import FrameType

from wend._engine.base.errors import DeviceError, OutOfMemoryError

#: Packages whose exceptions work inside Wend may raise by itself.
_INSIDE = frozenset({"builtins", "wend", "numpy", "llvmlite", "scipy", *sys.stdlib_module_names})


def is_interrupt(error: BaseException) -> bool:
    """Whether an exception came from outside while Wend was at work, raised by nothing within.

    An accelerator without memory, or out of a forked child's reach, counts too: the program may
    free memory, and go on from there.

    An interrupt is no Exception, or was raised by a function called as signal handlers are. Or it
    is of a kind unknown inside and raised by no function: another thread did so.
    """
    if not isinstance(error, Exception) or isinstance(error, (DeviceError, OutOfMemoryError)):
        return True
    inside, at = False, error.__traceback__
    while at is not None:
        package = _package(at.tb_frame.f_globals.get("__name__"))
        # A look at the locals of a frame keeps them: the error itself, in frames that handle it.
        if package != "wend" and _is_handler(at.tb_frame):
            return True
        inside = package in _INSIDE
        at = at.tb_next
    return inside and _package(type(error).__module__) not in _INSIDE


def _package(module: object) -> str:
    return str(module).partition(".")[0]


def _is_handler(frame: FrameType) -> bool:
    """Whether a function was given the number of a signal and the frame that was interrupted."""
    code = frame.f_code
    names = code.co_varnames
    arguments = [frame.f_locals.get(name) for name in names[: code.co_argcount]]
    if code.co_flags & 0x04:  # *args
        arguments += frame.f_locals.get(names[code.co_argcount + code.co_kwonlyargcount]) or ()
    return (
        len(arguments) > 1
        and isinstance(arguments[-1], FrameType)
        and isinstance(arguments[-2], int)
    )
