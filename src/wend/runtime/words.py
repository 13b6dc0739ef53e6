"""What is known of a kernel's argument block before sizes are: it is sorted out once per plan."""

from __future__ import annotations

from wend.compiler.extents import Poly, known
from wend.compiler.kernels import Kernel

__all__ = ["Prepared", "prepared"]

#: Kinds of slots whose words are addresses that differ from run to run.
ADDRESSES = frozenset({"pointer", "private", "sums"})


class Prepared:
    """A kernel's slots by what is to be done for them.

    fixed: the words, 0 where they are not known     extents: (place, polynomial)
    rest: places of all else     addresses, scratch: how many slots there are of these
    """

    __slots__ = ("addresses", "extents", "fixed", "rest", "scratch")

    def __init__(self, kernel: Kernel) -> None:
        self.fixed: list[int] = []
        self.extents: list[tuple[int, Poly]] = []
        self.rest: list[int] = []
        for j, slot in enumerate(kernel.slots):
            word = 0
            if slot.kind == "word":
                word = slot.a
            elif slot.kind == "copies":
                word = 1
            elif slot.kind in ("extent", "last"):
                size = slot.a if slot.kind == "extent" else slot.b
                number = known(size)
                if number is None:
                    self.extents.append((j, size))
                else:
                    word = number
            elif slot.kind != "first":
                self.rest.append(j)
            self.fixed.append(word)
        kinds = [slot.kind for slot in kernel.slots]
        self.addresses = sum(kind in ADDRESSES for kind in kinds)
        self.scratch = kinds.count("scratch")


def prepared(kernel: Kernel) -> Prepared:
    """How a kernel's slots become words."""
    if kernel.prepared is None:
        kernel.prepared = Prepared(kernel)
    found: Prepared = kernel.prepared
    return found
