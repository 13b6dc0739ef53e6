"""Chooses between the compiled and the uncompiled slabs; the latter get their C helpers here."""

from __future__ import annotations

import ctypes
import sys
from types import ModuleType

from wend.core._select import compiled, is_compiled, load_plain
from wend.runtime.batching import _grouper_select
from wend.runtime.native import _launch_select


def clear(address: int, n: int) -> None:
    """Fill n bytes with zeros."""
    ctypes.memset(int(address), 0, int(n))


def select() -> ModuleType:
    """The slabs that this process uses, registered as `wend.runtime.batching._slabs`."""
    name = "wend.runtime.batching._slabs"
    if name in sys.modules:
        return sys.modules[name]
    # The compiled slabs call functions of these two modules in C.
    below = _launch_select.select(), _grouper_select.select()
    module = compiled(name) if all(map(is_compiled, below)) else None
    if module is None:
        stand_ins = {
            "put": _launch_select.put,
            "get": _launch_select.get,
            "clear": clear,
            "untrack": lambda o: 0,
            "ask_ahead": lambda items, i: 0,
        }
        module = load_plain(name, stand_ins)
    return module
