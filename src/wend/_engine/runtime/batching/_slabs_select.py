"""Chooses between the compiled and the uncompiled slabs; the latter get their C helpers here."""

from __future__ import annotations

import ctypes
from types import ModuleType

from wend._engine.core._select import load_above
from wend._engine.runtime.batching import _grouper_select
from wend._engine.runtime.native import _launch_select


def clear(address: int, n: int) -> None:
    """Fill n bytes with zeros."""
    ctypes.memset(int(address), 0, int(n))


def select() -> ModuleType:
    """The slabs that this process uses, registered as `wend._engine.runtime.batching._slabs`."""
    below = _launch_select.select(), _grouper_select.select()
    stand_ins = {
        "put": _launch_select.put,
        "get": _launch_select.get,
        "clear": clear,
        "untrack": lambda o: 0,
        "ask_ahead": lambda items, i: 0,
    }
    return load_above("wend._engine.runtime.batching._slabs", below, stand_ins)
