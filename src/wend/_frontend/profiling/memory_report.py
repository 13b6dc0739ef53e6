"""Who holds the memory: now, and at the peak of a recording, by owner and by the user's line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from wend._engine.runtime.measure.allocations import MemoryEvent, MemoryOwner
from wend._frontend.profiling.event_lists import format_memory
from wend._frontend.profiling.ops import line_of, summed
from wend._frontend.profiling.window import Window
from wend._frontend.seeing.tables import html_table, text_table

__all__ = ["HeldMemory", "MemoryReport", "MemoryRow", "memory_rows"]


class MemoryRow(NamedTuple):
    """Memory of a kind and a line.

    owner: "parameters", "gradients", "result", "kept for backward", "temporaries of a flush", ...
    where: the op and the user's line, or the name within a module or optimizer; may be empty
    bytes: all together     count: how many pieces
    module: dotted path of the module that the memory belongs to, where known
    """

    owner: str
    where: str
    bytes: int
    count: int
    module: str = ""


def memory_rows(pieces: Iterable[tuple[tuple[str, str, str], Any]]) -> list[MemoryRow]:
    """Return the rows of memory that is held, the largest first.

    pieces: ((owner, where, module), (bytes, number of pieces)) each
    """
    rows = [
        MemoryRow(owner, where, size, n, module)
        for (owner, where, module), (size, n) in summed(pieces).items()
        if size
    ]
    return sorted(rows, key=lambda row: (-row.bytes, row.owner, row.where))


def _lines(rows: list[MemoryRow], most: int) -> list[str]:
    cells = [
        (row.bytes, row.count, row.owner + (f": {row.where}" if row.where else "")
         + (f", for {row.module}" if row.module and row.module not in row.where else ""))
        for row in rows[:most]
    ]  # fmt: skip
    rest = rows[most:]
    if rest:
        size, n = sum([r.bytes for r in rest]), sum([r.count for r in rest])
        cells.append((size, n, f"{len(rest)} more rows"))
    shown = [(format_memory(size), str(n), text) for size, n, text in cells]
    return text_table(shown, (0, 1), "  ", least=(10, 4))


def _sizes(sizes: list[tuple[str, int]]) -> list[str]:
    """A line for each of some names with bytes."""
    shown = [(format_memory(n), name) for name, n in sizes]
    return text_table(shown, (0,), "  ", least=(10,))


class HeldMemory:
    """The memory that is held now; `rows` has the parts, `total` the sum in bytes."""

    def __init__(self, rows: list[MemoryRow]) -> None:
        self.rows = rows

    @property
    def total(self) -> int:
        """Bytes of all rows."""
        return sum([row.bytes for row in self.rows])

    def by_owner(self) -> dict[str, int]:
        """Bytes by owner, the largest first."""
        return self._bytes_by(lambda row: row.owner)

    def by_module(self, depth: int | None = None) -> dict[str, int]:
        """Bytes by module, the largest first; "" has the memory that belongs to none.

        depth: number of names of a path that count, None for all of them
        """
        return self._bytes_by(lambda row: ".".join(row.module.split(".")[:depth]))

    def _bytes_by(self, key: Callable[[MemoryRow], str]) -> dict[str, int]:
        sums = summed((key(row), (row.bytes,)) for row in self.rows)
        return {name: n for name, (n,) in sorted(sums.items(), key=lambda item: -item[1][0])}

    def __str__(self) -> str:
        lines = [f"held now: {format_memory(self.total)}"]
        lines += _sizes([*self.by_owner().items()])
        modules = [(path or "of no module", n) for path, n in self.by_module().items()]
        if any(row.module for row in self.rows):
            rest = modules[30:]
            if rest:
                modules[30:] = [(f"{len(rest)} more modules", sum([n for _, n in rest]))]
            lines += ["by module:", *_sizes(modules)]
        lines += ["by line and name (bytes, pieces):", *_lines(self.rows, 30)]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [(format_memory(r.bytes), str(r.count), r.owner, r.where) for r in self.rows]
        table = html_table(("bytes", "pieces", "owner", "where"), rows)
        return f"<p>held now: {format_memory(self.total)}</p>{table}"


class MemoryReport:
    """The memory of a recording, from all allocations and their ends.

    peak: bytes held together at most     peak_us: when, in microseconds since the beginning
    at_peak: rows of all that was held then     at_end: rows of all that is held at the end
    allocated: rows of all that was allocated meanwhile, whether or not it has ended
    timeline: (microseconds, bytes held from then on) at each change
    """

    def __init__(self, window: Window, events: list[MemoryEvent]) -> None:
        events = sorted([e for e in events if e.at <= window.end], key=lambda e: e.at)
        held, self.peak, peak_at = 0, 0, -1
        self.timeline: list[tuple[float, int]] = []
        for k, event in enumerate(events):
            held += event.size
            self.timeline.append((max(0.0, (event.at - window.start) / 1e3), held))
            if held > self.peak:
                self.peak, peak_at = held, k
        self.peak_us = self.timeline[peak_at][0] if peak_at >= 0 else 0.0
        self.at_peak = held_after(events[: peak_at + 1])
        self.at_end = held_after(events)
        self.allocated = held_after(
            [e for e in events if e.size > 0 and e.at >= window.start and e.owner.flush is not None]
        )

    def __str__(self) -> str:
        lines = [
            f"peak: {format_memory(self.peak)} after {self.peak_us / 1e3:.3f} ms, held by",
            *_lines(self.at_peak, 20),
            "allocated meanwhile, ended or not:",
            *_lines(self.allocated, 20),
        ]
        return "\n".join(lines)

    __repr__ = __str__


def held_after(events: Iterable[MemoryEvent]) -> list[MemoryRow]:
    """Return who holds how much after these allocations and ends."""
    owners = summed((e.owner, (e.size, 1 if e.size > 0 else -1)) for e in events)
    return memory_rows(((o.kind, where_of(o), ""), sums) for o, sums in owners.items())


def where_of(owner: MemoryOwner) -> str:
    """Return the op and the user's line of memory."""
    flush: Any = owner.flush
    if flush is None:
        return owner.place
    if not 0 <= owner.step < len(flush.states):
        return ""
    return f"{flush.states[owner.step].prim.name} at {line_of(flush, owner.step)}"
