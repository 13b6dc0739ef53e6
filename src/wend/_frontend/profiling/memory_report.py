"""Who holds the memory: now, and at the peak of a recording, by owner and by the user's line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from wend._engine.runtime.measure.allocations import MemoryEvent, MemoryOwner
from wend._frontend.profiling.event_lists import format_memory
from wend._frontend.profiling.ops import line_of, summed
from wend._frontend.profiling.window import Window
from wend._frontend.seeing.tables import html_report, html_table, text_table

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


#: A line that was recorded so often without a backward pass keeps the graphs of earlier steps.
OFTEN = 4
_KEPT_OFTEN = (
    "Graphs of earlier steps live on while something refers to their results: keep item() or "
    "detach() of a loss or a state, not the tensor."
)
#: Kinds of this share of the largest are as large: gradients are as large as their parameters.
ALIKE = 0.95
#: Beginnings of owners, the easiest to free first: in the program's words, and advice.
_ADVICE = {
    "kept for backward": (
        "values kept for a backward pass",
        "Use no_grad() where no gradients are needed, torch.utils.checkpoint for large blocks, or "
        "smaller batches.",
    ),
    "gradients": (
        "gradients of parameters",
        "zero_grad() frees them; a table of which few rows are used takes sparse=True.",
    ),
    "state of optimizers": (
        "state of the optimizer",
        "SGD has none, and Adafactor little.",
    ),
    "parameters": ("parameters", "A half-precision type takes half as much."),
    "tensors without a history": (
        "tensors that the program keeps",
        "Delete what is not needed any more, or compute in smaller pieces.",
    ),
    "a result": (
        "results that the program keeps",
        "Delete what is not needed any more, or compute in smaller pieces.",
    ),
    "": ("", "The rows below have the owners."),
}


def _kind(owner: str) -> str:
    """The kind of an owner: moments of an optimizer, say, are of the kind of its state."""
    return next((kind for kind in _ADVICE if kind and owner.startswith(kind)), owner)


def _table(rows: list[MemoryRow]) -> str:
    """Parts of memory as a table for notebooks."""
    cells = [(format_memory(r.bytes), f"{r.count:,}", r.owner, r.where) for r in rows]
    return html_table(("bytes", "pieces", "owner", "where"), cells, right=(0, 1))


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

    def sentence(self) -> str:
        """Name the largest kind of memory, the line of its largest part, and a remedy."""
        if not self.rows:
            return "nothing is held"
        kind, size = self._largest_kind()
        kin = [row for row in self.rows if _kind(row.owner) == kind]
        largest = max(kin, key=lambda row: row.bytes)
        owner = largest.owner
        words, advice = _ADVICE.get(kind, _ADVICE[""])
        often = largest.count >= OFTEN and kind == "kept for backward"
        where = largest.where or owner.partition(": ")[2]
        at = f", the largest part by {where}" if where else ""
        at += f", {largest.count} times" if often else ""
        return (
            f"held now: {format_memory(self.total)}; {size / self.total:.0%} of that are "
            f"{words or owner}{at}. {_KEPT_OFTEN if often else advice}"
        )

    def _largest_kind(self) -> tuple[str, int]:
        """The largest kind with its bytes; of kinds of one size the one that is easiest to free."""
        sizes = self._bytes_by(lambda row: _kind(row.owner))
        least = ALIKE * max(sizes.values())
        near = {kind: size for kind, size in sizes.items() if size >= least}
        kind = next((kind for kind in _ADVICE if kind in near), next(iter(near)))
        return kind, near[kind]

    def __str__(self) -> str:
        lines = [self.sentence()]
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
        return html_report(self.sentence(), _table(self.rows))


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
        self.peak_us: float = self.timeline[peak_at][0] if peak_at >= 0 else 0.0
        self.at_peak: list[MemoryRow] = held_after(events[: peak_at + 1])
        self.at_end: list[MemoryRow] = held_after(events)
        self.allocated: list[MemoryRow] = held_after(
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

    def _repr_html_(self) -> str:
        head = f"peak: {format_memory(self.peak)} after {self.peak_us / 1e3:.3f} ms, held by"
        meanwhile = "<p>allocated meanwhile, ended or not:</p>"
        return html_report(head, _table(self.at_peak), meanwhile, _table(self.allocated))


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
