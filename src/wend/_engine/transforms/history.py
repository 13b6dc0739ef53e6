"""Warns of a history that grows through segments whose backward pass has run long ago."""

from __future__ import annotations

import warnings
from typing import Any

from wend._engine.core._hot import FlushJob, Segment, Value
from wend._engine.core.graph import PathGraph
from wend._engine.core.provenance import site_of

#: Spent segments in a chain that a live value may drag along before the chain looks like a leak.
LIMIT = 50
_WARNED: set[Any] = set()


def note_history(segment: Segment, batch: FlushJob) -> None:
    """Count the spent segments behind a new segment; warn once, naming the line, if there are many.

    Losses that are summed as tensors do so: each sum keeps the iteration's graph alive.
    """
    at, depth = None, 0
    for i, value in segment.inputs.items():
        older = value.segment
        if older is not None:
            depth = max(depth, older.depth)
            if leads_to_spent(value):
                at = i
    segment.depth = depth if at is None else depth + 1
    if at is not None and depth == LIMIT:
        _warn(batch, segment.structure, at)


def leads_to_spent(value: Value) -> bool:
    """Whether a backward pass has used up nodes that this value of a segment was made with."""
    segment = value.segment
    path: PathGraph | None = segment.structure
    if path is None:
        return False  # another thread is making the segment: no backward pass has passed here yet
    spent = segment.spent or frozenset()
    if not spent and not path.spent:
        return False
    key = ("leads to spent", value.seg_index, spent)
    answer: bool | None = path.caches.get(key)
    if answer is None:
        answer = path.caches[key] = _search(path, value.seg_index, spent | path.spent)
    return answer


def _search(path: PathGraph, i: int, spent: set[int] | frozenset[int]) -> bool:
    seen: set[int] = set()
    stack = [i]
    while stack:
        k = path.producer.get(stack.pop())
        if k is None or k in seen:
            continue
        seen.add(k)
        node = path.nodes[k]
        if node.outputs[0] in spent:
            return True
        if node.grad:
            stack.extend(node.inputs)
    return False


def _warn(batch: FlushJob, path: PathGraph, i: int) -> None:
    user = next((node for node in path.nodes if node.grad and i in node.inputs), None)
    if user is None:
        return
    site = site_of(batch, user.outputs[0], path)
    if (site.code, site.lasti) in _WARNED:
        return
    _WARNED.add((site.code, site.lasti))
    name = site.code.co_filename if site.code is not None else "<unknown>"
    warnings.warn_explicit(
        f"the value computed at {site} keeps the graphs of more than {LIMIT} earlier backward "
        "passes alive; if it is a running sum of losses, add loss.item() or loss.detach()",
        UserWarning,
        name,
        max(site.line, 1),
    )
