"""Chooses between the compiled and the uncompiled lanes; the latter get their C helpers here."""

from __future__ import annotations

from types import ModuleType

from wend._engine.core._select import load_above
from wend._engine.runtime.batching import _grouper_select, _slabs_select
from wend._engine.runtime.native import _launch_select


def select() -> ModuleType:
    """Return the lanes of this process, registered as `wend._engine.runtime.fibers._lanes`."""
    below = _launch_select.select(), _grouper_select.select(), _slabs_select.select()
    stand_ins = {"put": _launch_select.put, "clear": _slabs_select.clear}
    return load_above("wend._engine.runtime.fibers._lanes", below, stand_ins)
