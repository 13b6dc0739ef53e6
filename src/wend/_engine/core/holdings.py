"""Holders of memory, and the places in the user's program that made them, for errors."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from wend._engine.core import _hot
from wend._engine.core._hot import Segment

if TYPE_CHECKING:
    from wend._engine.core.graph import PathGraph

#: How many holders are named.
MOST = 8

#: Functions that name the tensors of an object: (class, function of the object that yields pairs of
#: a tensor and a text). Each package adds its own when imported.
NAMERS: list[tuple[type, Callable[[Any], Iterator[tuple[Any, str]]]]] = []

#: `provenance.site_of`
SiteOf: TypeAlias = "Callable[[SimpleNamespace, int, PathGraph], object]"


class Holding(NamedTuple):
    """Memory that is held.

    owner: the kind of holder: a parameter, a gradient, a result, ...
    place: the op and the user's line, or the name within a module or optimizer; may be empty
    array: the memory, which is no part of another array
    """

    owner: str
    place: str
    array: Any

    @property
    def text(self) -> str:
        """Owner and place."""
        return f"{self.owner}, {self.place}" if self.place else self.owner


def describe_holdings(site_of: SiteOf) -> str:
    """Lines of text: the largest holders of memory, by the user's line.

    site_of: `provenance.site_of`
    """
    held: dict[str, int] = {}
    for holding in holdings(site_of):
        held[holding.text] = held.get(holding.text, 0) + int(holding.array.nbytes)
    rows = sorted(held.items(), key=lambda row: -row[1])
    lines = [f"  {size / 1e6:.1f} MB: {who}" for who, size in rows[:MOST]]
    rest = sum(size for _, size in rows[MOST:])
    if rest:
        lines.append(f"  {rest / 1e6:.1f} MB: others")
    return "\n".join(["held now:", *lines]) if lines else "nothing is held"


def holdings(site_of: SiteOf) -> Iterator[Holding]:
    """All memory that tensors, and graphs for backward passes, hold: each piece once.

    site_of: `provenance.site_of`
    """
    things = gc.get_objects()
    seen: set[int] = set()
    for owner, place, array in _all_holdings(things, site_of):
        root = root_of(array)
        if id(root) not in seen and hasattr(root, "nbytes"):
            seen.add(id(root))
            yield Holding(owner, place, root)


def _all_holdings(things: list[Any], site_of: SiteOf) -> Iterator[tuple[str, str, Any]]:
    """(owner, place, array); the first that names an array knows best."""
    tensors = []
    segments = []
    for thing in things:
        kind = type(thing)  # asking the thing itself may wake a lazy object
        if kind is Segment:
            segments.append(thing)
        elif issubclass(kind, _hot.Tensor):
            tensors.append(thing)
        else:
            for named, names in NAMERS:
                if issubclass(kind, named):
                    for t, text in names(thing):
                        yield from _of_tensor(t, text, "")
    for t in tensors:
        if t.leaf is not None and t._grad is not None:
            yield from _of_tensor(t._grad, "gradients", "")
    for segment in segments:
        for i, (_, array) in (segment.saved or {}).items():
            yield "kept for backward", place(segment, i, site_of), array
    for t in tensors:
        value = t.value
        if value is None or value.buffer is None:
            continue
        if value.segment is not None:
            yield "a result", place(value.segment, value.seg_index, site_of), value.buffer
        elif t.requires_grad:
            yield "parameters and other leaves that require grad", "", value.buffer
        else:
            yield "tensors without a history", "", value.buffer


def _of_tensor(t: object, owner: str, where: str) -> Iterator[tuple[str, str, Any]]:
    value = getattr(t, "value", None)
    buffer = getattr(value, "buffer", None)
    if buffer is not None:
        yield owner, where, buffer


def root_of(array: Any) -> Any:
    """The array whose memory an array lies in."""
    while getattr(array, "base", None) is not None and hasattr(array.base, "nbytes"):
        array = array.base
    return array


def place(segment: Segment, i: int, site_of: SiteOf) -> str:
    """The op and the user's line of a value of a segment."""
    path = segment.structure
    producer = path.producer.get(i)
    name = "an input" if producer is None else path.nodes[producer].prim.name
    batch = SimpleNamespace(states=path.states, sites=segment.sites)
    return f"{name} at {site_of(batch, i, path)}"
