"""A function in LLVM's textual language, written line by line: arithmetic, memory, loops.

    f = Routine("scale", [("ptr", "x"), ("i64", "n")])
    with f.loop("0", "%n") as i:
        at = f.at("%x", f.mul(i, "4"))
        f.store("float", f.let("fmul float %s, 2.0", f.load("float", at)), at)
    text = f.text()

Names and constants are strings, as written in the text. Integers are i64; addresses count bytes.
Integers and conditions may also be `Int` and `Bool`, which have Python's operators.
Values that a loop carries from turn to turn are declared by `carry` at the head of its block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from wend._engine.compiler.llvm_ir.integers import Bool, Word
from wend._engine.compiler.llvm_ir.text import Text


class Loop:
    """A loop being written: its index, and the values that are carried from turn to turn."""

    def __init__(self, routine: Routine, entry: str, header: str, place: int, index: str) -> None:
        self.routine = routine
        self.entry = entry
        self.header = header
        self.index = index
        self.step: Word = "1"  # may be set inside the loop, to a value made there
        self._place = place
        self._carried: list[tuple[str, str, str, str | None]] = []

    def carry(self, kind: str, start: str) -> str:
        """Return the name of a value: `start` in the first turn, later the value given to `become`.

        After the loop, the name still holds, for the last value.
        """
        name = self.routine.fresh()
        self._carried.append((name, kind, start, None))
        return name

    def become(self, name: str, value: str) -> None:
        """Set a carried value for the next turn."""
        for position, (known, kind, start, _) in enumerate(self._carried):
            if known == name:
                self._carried[position] = (known, kind, start, value)

    def close(self, latch: str, onward: str, start: Word) -> None:
        """Write the phi instructions, once all is known."""
        phis = [("i64", self.index, start, onward)]
        phis += [(kind, name, first, then or name) for name, kind, first, then in self._carried]
        self.routine.lines[self._place] = "\n".join(
            f"  {name} = phi {kind} [ {first}, %{self.entry} ], [ {then}, %{latch} ]"
            for kind, name, first, then in phis
        )


class Routine(Text):
    """A function in the making. parameters: (type, name) pairs, without the percent sign.

    pointer: LLVM's type of addresses
    """

    pointer = "ptr"

    def __init__(
        self,
        name: str,
        parameters: Sequence[tuple[str, str]],
        *,
        internal: bool = False,
        attributes: str = "nounwind",
    ) -> None:
        super().__init__()
        listed = ", ".join(f"{kind} %{word}" for kind, word in parameters)
        linkage = "internal " if internal else ""
        self.lines = [f"define {linkage}void @{name}({listed}) {attributes} {{"]
        self.label("entry")

    def label(self, name: str) -> None:
        """Begin a block."""
        super().label(name)
        self.block = name.removeprefix("%")

    def text(self) -> str:
        """The whole function."""
        return "\n".join([*self.lines, "  ret void", "}", ""])

    # -- integers -------------------------------------------------------------------------------

    def add(self, x: Word, y: Word) -> str:
        """x + y"""
        return self.let(f"add i64 {x}, {y}")

    def sub(self, x: Word, y: Word) -> str:
        """x - y"""
        return self.let(f"sub i64 {x}, {y}")

    def mul(self, x: Word, y: Word) -> str:
        """x * y"""
        return self.let(f"mul i64 {x}, {y}")

    def div(self, x: Word, y: Word) -> str:
        """x / y rounded down, for x >= 0 and y > 0"""
        return self.let(f"udiv i64 {x}, {y}")

    def ceil_quotient(self, x: Word, y: Word) -> str:
        """x / y rounded up, for x >= 0 and y > 0"""
        return self.div(self.sub(self.add(x, y), "1"), y)

    def ceil_div(self, x: Word, y: int) -> str:
        """x / y rounded up, for x >= 0"""
        return self.div(self.add(x, str(y - 1)), str(y))

    def is_(self, relation: str, x: Word, y: Word, kind: str = "i64") -> str:
        """A comparison: relation is eq, ne, slt, sle, ult, ..."""
        return self.let(f"icmp {relation} {kind} {x}, {y}")

    def both(self, x: str, y: str) -> str:
        """x and y, of conditions"""
        return self.let(f"and i1 {x}, {y}")

    def every(self, conditions: Sequence[str]) -> str:
        """All of some conditions"""
        conjunction = conditions[0]
        for condition in conditions[1:]:
            conjunction = self.both(conjunction, condition)
        return conjunction

    def either(self, x: str, y: str) -> str:
        """x or y, of conditions"""
        return self.let(f"or i1 {x}, {y}")

    def minimum(self, x: Word, y: Word) -> str:
        """The smaller of two integers"""
        return self.select(self.is_("slt", x, y), x, y)

    def maximum(self, x: Word, y: Word) -> str:
        """The larger of two integers"""
        return self.select(self.is_("slt", x, y), y, x)

    def select(self, condition: str | Bool, x: Word, y: Word, kind: str = "i64") -> str:
        """x where the condition holds, else y"""
        return self.let(f"select i1 {condition}, {kind} {x}, {kind} {y}")

    # -- memory ---------------------------------------------------------------------------------

    def at(self, pointer: str, offset: Word | int) -> str:
        """The address `offset` bytes on"""
        return self.let(f"getelementptr i8, {self.pointer} {pointer}, i64 {offset}")

    def load(self, kind: str, pointer: str, align: int = 1) -> str:
        """The value at an address"""
        return self.let(f"load {kind}, {self.pointer} {pointer}, align {align}")

    def store(self, kind: str, value: str, pointer: str, align: int = 1) -> None:
        """Put a value at an address"""
        self.line(f"store {kind} {value}, {self.pointer} {pointer}, align {align}")

    # -- control --------------------------------------------------------------------------------

    @contextmanager
    def turns(self, start: Word, stop: Word, step: Word = "1") -> Iterator[Loop]:
        """A loop over start, start + step, ... < stop, which may carry values."""
        number = self.fresh()[1:]
        head, body, done = f"head.{number}", f"body.{number}", f"done.{number}"
        entry = self.block
        self.line(f"br label %{head}")
        self.label(head)
        index = self.fresh()
        self.lines.append("")
        loop = Loop(self, entry, head, len(self.lines) - 1, index)
        loop.step = step
        more = self.is_("slt", index, stop)
        self.line(f"br i1 {more}, label %{body}, label %{done}")
        self.label(body)
        yield loop
        onward = self.add(index, loop.step)
        self.line(f"br label %{head}")
        loop.close(self.block, onward, start)
        self.label(done)

    @contextmanager
    def loop(self, start: Word, stop: Word, step: Word = "1") -> Iterator[str]:
        """A loop that carries nothing. Yields the index."""
        with self.turns(start, stop, step) as loop:
            yield loop.index

    def leave_when(self, condition: str | Bool) -> None:
        """Return from the function if the condition holds."""
        number = self.fresh()[1:]
        self.line(f"br i1 {condition}, label %leave.{number}, label %stay.{number}")
        self.lines.append(f"leave.{number}:\n  ret void")
        self.label(f"stay.{number}")
