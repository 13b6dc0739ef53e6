"""A trie of a test's own, whatever the tests before it have recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import wend
from wend._engine.core import _hot
from wend._engine.runtime import flush, tiers
from wend._engine.runtime.batching import signatures
from wend._engine.runtime.parts import parts

#: A root that has gained so much takes no new children.
SEALED = 1 << 40


def new_trie() -> _hot.State:
    """Forget all paths; returns the new root.

    Structure of earlier tests that did not come back no longer lets the search for groups pause.
    """
    wend.synchronize()
    tiers.STRUCTURES.clear()
    for child in parts.ROOT.offspring():
        flush.dismantle(child)
    parts.ROOT.retain([])
    parts.PAUSES.pause = parts.PAUSES.strikes = 0
    for book in (signatures.BOOK, signatures.SINGLES):
        book.pause = book.strikes = 0
        book.next_pause = signatures.PAUSE
    trace = _hot.current_trace()
    trace.root = root = _hot.State(None, None)
    trace.reset()
    return root


def end_trie(before: _hot.State) -> None:
    """Go on below the root `before`; a trie begun since is forgotten."""
    trace = _hot.current_trace()
    root = trace.root
    if root is not before:
        wend.synchronize()
        trace.root = before
        trace.reset()
        flush.dismantle(root)


@contextmanager
def own_trie(sealed: bool = False) -> Iterator[Any]:
    """Record below a new root: what is made inside is met by nobody outside, nor the reverse.

    sealed: new structure leaves the trie at once.
    """
    before, root = _hot.current_trace().root, new_trie()
    root.gained = SEALED if sealed else 0
    try:
        yield root
    finally:
        end_trie(before)
