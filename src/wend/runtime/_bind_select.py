"""Chooses between the compiled and the uncompiled binding, and gives the latter its C helpers."""

from __future__ import annotations

import sys
from types import ModuleType

from wend.core._select import compiled, load_plain
from wend.runtime import _launch_select

_LIMIT = 1 << 63


def put(address: int, word: int) -> None:
    """Write a 64-bit word.  Raises OverflowError, as C does, if it is none."""
    if not -_LIMIT <= word < _LIMIT:
        raise OverflowError(f"{word} does not fit into 64 bits")
    _launch_select.put(address, word)


def select() -> ModuleType:
    """The binding that this process uses, registered as `wend.runtime._bind`."""
    name = "wend.runtime._bind"
    if name in sys.modules:
        return sys.modules[name]
    return compiled(name) or load_plain(name, {"put": put, "get": _launch_select.get})
