"""Kernels: the LLVM text of a nest, and the slots of its argument block.

A kernel is a function `void kernel(ptr block)`. The block is a row of 64-bit words, a word per
slot, in the order of `Kernel.slots`. All sizes, run-time numbers and addresses are in the block and
not in the text, so that nests of equal structure share machine code.
"""

from __future__ import annotations

from copy import copy
from typing import Any, Final, NamedTuple

from wend._engine.compiler.ir.loops import Op
from wend._engine.compiler.ir.symbolic_extents import Poly
from wend._engine.core.symbolic import Expr

#: A function behind the kernel of an accelerator: it stores scalars of the outer loops.
ROWS: Final = "rows"
#: A function behind the kernel of an accelerator: it folds sums that were added up in parts.
FOLDS: Final = "folds"


class Slot(NamedTuple):
    """A word of an argument block.

    kind        a                     b
    "pointer"   value                 offset in bytes, a polynomial
    "extent"    polynomial
    "number"    expression            category: 0 bool, 1 int, 2 float
    "scratch"   bytes, a polynomial
    "fault"                           (address of the word in which failures are noted)
    "word"      a constant
    "function"  text of a module      name of a function in the module (the word: its address)
    "block"     number of a word of this block (the word: the address of that word)
    "first"     axis of a nest        (where its loop begins: 0, unless cut into parts)
    "last"      axis of a nest        its extent, a polynomial
    "sums"      value that is a sum   (its address; in parts: the address of the part's copy)
    "copies"    value that is a sum   (how many copies there are: 1, unless cut into parts)
    "private"   number of a piece     (edge, bytes per unit of the edge), or (-1, offset in bytes)
    "edge"      number of an edge     (where a part begins: see `parallel.partition`)
    "span"      number of an edge     (the distance from this edge to the next edge)
    "moved"     a slot of a pointer   (edge, bytes per unit of the edge, a polynomial)
    "streamed"  value                 (its bytes if it may be written past the caches, else 0)
    """

    kind: str
    a: Any = None
    b: Any = None


class Kernel:
    """A step of a plan that runs as machine code."""

    __slots__ = (
        "epilogue",
        "faults",
        "helpers",
        "is_whole",
        "name",
        "nest",
        "ops",
        "over",
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
        self.text = text  # of the module; empty for a product: see `matmul.core_text`
        self.source: Any = None  # name of the dtype of a product or convolution
        self.what = what  # for people
        self.nest: Any = None  # the loop nest whose code this is, or None
        self.ops: list[Op] = []  # the ops that it computes
        self.over: dict[int, int] = {}  # result -> operand of which only a part changes
        self.packable = False  # whether the right operand is a leaf, the same for all products
        self.epilogue = ""  # text of the module with the epilogue of a product
        self.words: tuple[str, ...] = ()  # names of a product's first slots
        self.helpers: list[str] = []  # other functions of the module
        self.is_whole = False  # whether the kernel is never cut into parts
        self.places: dict[str, int] = {}  # name in `words` -> number of the slot
        self.schedules: dict[Any, Any] = {}  # `Partition` -> `StagedTasks`
        self.slots: list[Slot] = []
        self.faults: list[str] = []
        self.reads: list[int] = []
        self.writes: list[int] = []

    def with_slots(self, slots: list[Slot]) -> Kernel:
        """Return the same kernel with other slots."""
        kernel = copy(self)
        kernel.slots = slots
        return kernel

    def __repr__(self) -> str:
        return f"kernel {self.what}"


class Slots:
    """Collects the slots of a block; equal slots are shared.

    Each method returns the number of a slot.
    """

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
        """Slot of the address of memory that only this kernel uses."""
        self.items.append(Slot("scratch", size, len(self.items)))
        return len(self.items) - 1

    def first(self, axis: int) -> int:
        """Slot of where a loop begins."""
        return self._find(Slot("first", axis))

    def last(self, axis: int, extent: Poly) -> int:
        """Slot of where a loop ends."""
        return self._find(Slot("last", axis, extent))

    def sums(self, value: int) -> int:
        """Slot of the address at which a value is summed up."""
        return self._find(Slot("sums", value))

    def copies(self, value: int) -> int:
        """Slot of the number of copies in which a value is summed up."""
        return self._find(Slot("copies", value))

    def result(self, value: int) -> int:
        """Slot of the address of a value."""
        return self._find(Slot("pointer", value, ()))

    def fault(self) -> int:
        """Slot of the address of the word of failures."""
        return self._find(Slot("fault"))

    def streamed(self, value: int) -> int:
        """Slot of the bytes of a result, or 0.

        The word is 0 if the plan reads the result again, or does not return the result.
        """
        return self._find(Slot("streamed", value))

    def _find(self, slot: Slot) -> int:
        index = self._index.get(slot)
        if index is None:
            index = self._index[slot] = len(self.items)
            self.items.append(slot)
        return index
