"""The state of a phase of a nest, while its inner loops are written."""

from __future__ import annotations

from wend._engine.compiler.codegen.instructions import VectorBuilder
from wend._engine.compiler.codegen.kernel_code import KernelCode
from wend._engine.compiler.ir.loops import Op
from wend._engine.compiler.schedule.loop_order import Access

#: The numbers of vectors that are computed side by side; the number of ops decides.
WIDE, NARROW = 4, 2


class Phase:
    """A phase of a nest.

    code: the kernel that is written
    ops: the ops that the phase computes; phase: its number
    axis, around: the loop along the vectors, and the loops around it
    copies: the number of vectors that are computed side by side
    where: id of an access -> its address in the loops around
    streams: id of an access -> the flag whether it is written past the caches
    following: accesses of the next row that are prefetched, with their addresses
    index: the number of the first element of a turn
    builders: the instructions of each vector
    """

    def __init__(self, code: KernelCode, ops: list[Op]) -> None:
        self.code, self.nest, self.text, self.ops = code, code.nest, code.text, ops
        self.phase = max((self.nest.phase[op.out] for op in ops), default=0)
        self.axis = self.nest.inner[-1]
        self.around = [*self.nest.outer, *self.nest.inner[:-1]]
        self.copies = self.unroll()
        self.where: dict[int, str] = {}
        self.streams: dict[int, str] = {}
        self.following: list[tuple[Access, str]] = []
        self.index = ""
        self.builders: list[VectorBuilder] = []

    def unroll(self) -> int:
        """The number of vectors that are computed side by side."""
        if self.code.faults.messages:
            return 1
        return WIDE if len(self.ops) <= 12 else NARROW if len(self.ops) <= 40 else WIDE

    def position(self, c: int) -> str:
        """The number of the first element of vector `c`."""
        if c == 0:
            return self.index
        return self.text.let(f"add i64 {self.index}, {c * self.code.lanes}")
