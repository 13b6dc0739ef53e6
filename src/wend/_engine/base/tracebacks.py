"""Tracebacks that show the user's lines: Wend's own frames are left out.

An error that tells of a mistake in the program passes through many functions of Wend's, none of
which helps whoever made the mistake. The compiled modules leave at most a single frame on such an
error (`core/tracebacks.h`). The frames of Python's functions are taken out wherever the error
leaves an op, a flush or a module. An error of a flush surfaces later than its op was called, and
gets a frame for that line. With WEND_TRACEBACK=full all frames stay.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from types import CodeType, FunctionType, TracebackType
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
#: Beginnings of file names whose frames are left out: Wend's own, those of compiled modules, which
#: know the file's place in the sources alone, and those of Python's imports.
_OWN = (_PACKAGE, os.path.join("src", "wend") + os.sep, "<frozen")


def leave_out_own(error: BaseException) -> None:
    """Take Wend's own frames out of the traceback of an exception."""
    kept: list[TracebackType] = []
    at = error.__traceback__
    while at is not None:
        if not at.tb_frame.f_code.co_filename.startswith(_OWN):
            kept.append(at)
        at = at.tb_next
    following: TracebackType | None = None
    for entry in reversed(kept):
        entry.tb_next = following
        following = entry
    error.__traceback__ = following


def short_errors(function: Function) -> Function:
    """Decorator of a public function: errors that leave it show a single frame of Wend's.

    A call costs 80 ns more. So functions that take less than a microsecond go without.
    """

    @functools.wraps(function)
    def public(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            shorten = getattr(error, "shorten", None)
            if shorten is not None:
                shorten()
            raise

    # Its frame, of which an error that is no `WendError` keeps a frame, has the function's name.
    wrapper = cast("FunctionType", public)
    wrapper.__code__ = wrapper.__code__.replace(
        co_name=function.__name__, co_qualname=function.__qualname__
    )
    return cast("Function", public)


def entry_of(code: CodeType, lasti: int) -> TracebackType:
    """Return an entry of a traceback for a line whose function may have returned.

    Its frame has the function's name and file, and no locals. The place is that of instruction
    `lasti`, as in the entries that Python itself makes. No text is compiled for this.
    """
    positions = list(code.co_positions())
    place = positions[lasti // 2] if lasti // 2 < len(positions) else (None,) * 4
    line = place[0] or code.co_firstlineno
    template = _raise_anything.__code__
    renamed = template.replace(
        co_filename=code.co_filename,
        co_name=code.co_name,
        co_qualname=code.co_qualname,
        co_firstlineno=line,
        co_linetable=_line_table(len(template.co_code) // 2, line, *place[1:]),
    )
    at: TracebackType | None = None
    try:
        FunctionType(renamed, {"__file__": code.co_filename})()
    except LookupError as raised:  # raised for its frame alone
        at = raised.__traceback__
    while at is not None and at.tb_frame.f_code is not renamed:
        at = at.tb_next
    if at is None:
        raise RuntimeError("a frame that raises is in its traceback")
    return TracebackType(None, at.tb_frame, at.tb_lasti, at.tb_lineno)


def _raise_anything() -> None:
    """Raise: the code of the frames that `entry_of` makes."""
    raise LookupError


def _line_table(
    units: int, line: int, last: int | None, column: int | None, end: int | None
) -> bytes:
    """The table of places of a code object, the same for all of its units.

    The long form of CPython's `Objects/locations.md`, from 3.11 on; of at most 8 units an entry.
    """
    place = [0, *_number(max((last or line) - line, 0))]
    for offset in (column, end):
        place += _number(0 if offset is None else offset + 1)
    table = bytearray()
    for start in range(0, units, 8):
        table += bytes([0x80 | 14 << 3 | min(8, units - start) - 1, *place])
    return bytes(table)


def _number(n: int) -> list[int]:
    """A number as six bits a byte, the lowest first; all but the last byte have bit 6."""
    digits = [n & 63]
    while n := n >> 6:
        digits[-1] |= 64
        digits.append(n & 63)
    return digits
