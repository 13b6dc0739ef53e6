"""Chooses between the compiled and the uncompiled cutter; the latter gets its C helpers here."""

from __future__ import annotations

from types import ModuleType

from wend._engine.core import _hot, _trie_policy
from wend._engine.core._select import load_above
from wend._engine.runtime.batching import _grouper_select


def select() -> ModuleType:
    """Return the cutter of this process, registered as `wend._engine.runtime.parts._cutter`."""
    policy = _trie_policy.__dict__
    stand_ins = {
        "address": id,
        "record_at": list.__getitem__,
        "value_at": list.__getitem__,
        "table_of": lambda words: words,
        "behind": _grouper_select.behind,
        "fill": _grouper_select.fill,
        **{name: policy.get(name) for name in ("COUNTS", "adopt", "count_pass", "set_types")},
    }
    return load_above("wend._engine.runtime.parts._cutter", (_hot,), stand_ins)
