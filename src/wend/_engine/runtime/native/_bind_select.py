"""Chooses between the compiled and the uncompiled binding; the latter gets its C helpers here."""

from __future__ import annotations

import sys
from types import ModuleType

from wend._engine.core._select import compiled, is_compiled, load_plain
from wend._engine.runtime.native import _launch_select

_LIMIT = 1 << 63


def put(address: int, word: int) -> None:
    """Write a 64-bit word.  Raises OverflowError, as C does, if the number does not fit."""
    if not -_LIMIT <= word < _LIMIT:
        raise OverflowError(f"{word} does not fit into 64 bits")
    _launch_select.put(address, word)


def select() -> ModuleType:
    """The binding that this process uses, registered as `wend._engine.runtime.native._bind`."""
    name = "wend._engine.runtime.native._bind"
    if name in sys.modules:
        return sys.modules[name]
    module = compiled(name)
    if module is not None and is_compiled(_launch_select.select()):
        _launch_select.use_arrays(module)
        return module
    return load_plain(name, _launch_select.STAND_INS | {"put": put})
