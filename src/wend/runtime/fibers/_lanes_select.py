"""Chooses between the compiled and the uncompiled lanes; the latter get their C helpers here."""

from __future__ import annotations

import sys
from types import ModuleType

from wend.core._select import compiled, is_compiled, load_plain
from wend.runtime.batching import _grouper_select, _slabs_select
from wend.runtime.native import _launch_select


def select() -> ModuleType:
    """Return the lanes of this process, registered as `wend.runtime.fibers._lanes`."""
    name = "wend.runtime.fibers._lanes"
    if name in sys.modules:
        return sys.modules[name]
    # The compiled lanes call functions of these three modules in C.
    below = _launch_select.select(), _grouper_select.select(), _slabs_select.select()
    module = compiled(name) if all(map(is_compiled, below)) else None
    if module is None:
        stand_ins = {"put": _launch_select.put, "clear": _slabs_select.clear}
        module = load_plain(name, stand_ins)
    return module
