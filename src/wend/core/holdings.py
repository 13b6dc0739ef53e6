"""Holders of memory, and the places in the user's program that made them, for errors."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

from wend.core import _hot
from wend.core._hot import Segment

__all__ = ["describe_holdings"]

#: How many holders are named.
MOST = 8


def describe_holdings(site_of: Any) -> str:
    """Lines of text: the largest holders of memory, by the user's line.

    site_of: `provenance.site_of`
    """
    seen: set[int] = set()
    held: dict[str, int] = {}
    for thing in gc.get_objects():
        if type(thing) is Segment and thing.saved:
            for i, (_, array) in thing.saved.items():
                note(held, seen, array, f"kept for backward, {place(thing, i, site_of)}")
        elif issubclass(type(thing), _hot.Tensor):  # asking the thing itself may wake a lazy object
            value = thing.value
            if value is None or value.buffer is None:
                continue
            if value.segment is not None:
                where = f"a result, {place(value.segment, value.seg_index, site_of)}"
            elif thing.requires_grad:
                where = "parameters and other leaves that require grad"
            else:
                where = "tensors without a history"
            note(held, seen, value.buffer, where)
    rows = sorted(held.items(), key=lambda row: -row[1])
    lines = [f"  {size / 1e6:.1f} MB: {who}" for who, size in rows[:MOST]]
    rest = sum(size for _, size in rows[MOST:])
    if rest:
        lines.append(f"  {rest / 1e6:.1f} MB: others")
    return "\n".join(["held now:", *lines]) if lines else "nothing is held"


def note(held: dict[str, int], seen: set[int], array: Any, who: str) -> None:
    """Add the memory that an array lies in, once."""
    while getattr(array, "base", None) is not None and hasattr(array.base, "nbytes"):
        array = array.base
    if id(array) not in seen:
        seen.add(id(array))
        held[who] = held.get(who, 0) + int(getattr(array, "nbytes", 0))


def place(segment: Segment, i: int, site_of: Any) -> str:
    """The op and the user's line of a value of a segment."""
    path = segment.structure
    producer = path.producer.get(i)
    name = "an input" if producer is None else path.nodes[producer].prim.name
    batch = SimpleNamespace(states=path.states, sites=segment.sites)
    return f"{name} at {site_of(batch, i, path)}"
