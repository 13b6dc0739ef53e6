"""Kernels: the text of a nest, and what its argument block holds.

A kernel is a function `void kernel(ptr block)`. The block is a row of 64-bit words, one per slot,
in the order of `Kernel.slots`; the text says nothing else about sizes, numbers or addresses, so
that nests of one structure share machine code.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from wend.compiler.ir.loops import Op
from wend.compiler.ir.symbolic_extents import Poly
from wend.core.symbolic import Expr


class Slot(NamedTuple):
    """A word of an argument block.

    kind        a                     b
    "pointer"   value                 offset in bytes, a polynomial
    "extent"    polynomial
    "number"    expression            category: 0 bool, 1 int, 2 float
    "scratch"   bytes, a polynomial
    "fault"     (pointer to the word that failures are noted in)
    "word"      a constant
    "function"  text of a module        name of the function in it whose address it is
    "block"     number of a word of this block, whose address it is
    "first"     axis of a nest                  (where its loop begins: 0, but in parts)
    "last"      axis of a nest        its extent, a polynomial
    "sums"      value that is summed up (in parts: the copy of this one)
    "copies"    value that is summed up         (how many copies there are: 1, but in parts)
    "private"   number of a piece     (edge or -1, bytes for each, or in all: a polynomial)
    "edge"      number of an edge                 (where a part begins: see `parallel.partition`)
    "span"      number of an edge                 (from there to the next one)
    "moved"     a slot of a pointer   (edge, bytes for each, a polynomial)
    "streamed"  value                 (its bytes if it may be written past the caches)
    """

    kind: str
    a: Any = None
    b: Any = None


class Kernel:
    """A piece of a plan that runs as machine code."""

    __slots__ = (
        "epilogue",
        "faults",
        "helpers",
        "name",
        "nest",
        "ops",
        "packable",
        "places",
        "prepared",
        "reads",
        "schedules",
        "slots",
        "source",
        "text",
        "what",
        "words",
        "writes",
    )  # fmt: skip

    def __init__(self, name: str, text: str, what: str) -> None:
        self.name = name  # of the function
        self.text = text  # of the module; empty for a function that is there already
        self.source: Any = None  # where such a function is
        self.what = what  # for people
        self.nest: Any = None  # the loops it was written from
        self.ops: list[Op] = []  # what it computes
        self.packable = False  # whether the right operand is a leaf, the same for all products
        self.epilogue = ""  # text of the module that gets a product's tiles
        self.words: tuple[str, ...] = ()  # names of a product's first slots
        self.helpers: list[str] = []  # other functions of the module
        self.places: dict[str, int] = {}  # where these are
        self.schedules: dict[Any, Any] = {}  # what is called, by form
        self.slots: list[Slot] = []
        self.faults: list[str] = []
        self.reads: list[int] = []
        self.writes: list[int] = []

    def __repr__(self) -> str:
        return f"kernel {self.what}"


class Slots:
    """Collects the slots of a block; each thing gets one."""

    def __init__(self) -> None:
        self.items: list[Slot] = []
        self._index: dict[Slot, int] = {}

    def pointer(self, value: int, offset: Poly) -> int:
        """Slot of the address of a value's element."""
        return self._find(Slot("pointer", value, offset))

    def extent(self, p: Poly) -> int:
        """Slot of an integer that follows from the sizes."""
        return self._find(Slot("extent", p))

    def number(self, expr: Expr, category: int) -> int:
        """Slot of a run-time number."""
        return self._find(Slot("number", expr, category))

    def scratch(self, size: Poly) -> int:
        """Slot of the address of memory that is only used inside of the kernel."""
        self.items.append(Slot("scratch", size, len(self.items)))
        return len(self.items) - 1

    def first(self, axis: int) -> int:
        """Slot of where a loop begins."""
        return self._find(Slot("first", axis))

    def last(self, axis: int, extent: Poly) -> int:
        """Slot of where a loop ends."""
        return self._find(Slot("last", axis, extent))

    def sums(self, value: int) -> int:
        """Slot of the address of what adds up to a value."""
        return self._find(Slot("sums", value))

    def copies(self, value: int) -> int:
        """Slot of the number of copies of what adds up to a value."""
        return self._find(Slot("copies", value))

    def result(self, value: int) -> int:
        """Slot of the address of a value."""
        return self._find(Slot("pointer", value, ()))

    def fault(self) -> int:
        """Slot of the address of the word of failures."""
        return self._find(Slot("fault"))

    def streamed(self, value: int) -> int:
        """Slot of the bytes of a result, 0 if the plan reads it again or keeps it to itself."""
        return self._find(Slot("streamed", value))

    def _find(self, slot: Slot) -> int:
        found = self._index.get(slot)
        if found is None:
            found = self._index[slot] = len(self.items)
            self.items.append(slot)
        return found
