"""Copies and sums of many pieces of memory on an accelerator, in a launch: the rows of groups.

A table in the device's memory has ROW words for each piece. A group of work items writes a part of
a piece: the argument block has the address of the table, the number of turns, and how many parts
each piece has.

Copies: the table has a code (0: fill with zeros, else copy), the address of the target, that of
the source, and the number of bytes.
Sums: the table has a code, the address of the target, that of a list of sources, and the number of
bytes. The code is twice the number of sources, plus 1 where the target's content does not count.
"""

from __future__ import annotations

from functools import cache

from wend._engine.compiler.codegen.device_nest import ALONE
from wend._engine.compiler.kernels.on_device.code import DeviceCode
from wend._engine.compiler.llvm_ir.jit import Target

NAME = "moves"
ROW = 4
#: Elements of a part.
PART = 4096
#: Bytes of an element, by kind: the first two are copied, the others added up.
KINDS = {"i8": 1, "i32": 4, "float": 4, "double": 8}


@cache
def moves_text(target: Target, kind: str) -> str:
    """Return the module for elements of a kind, see `KINDS`."""
    return MovesCode(target, kind).write()


class MovesCode(DeviceCode):
    """Writes the kernel for elements of a kind."""

    def __init__(self, target: Target, kind: str) -> None:
        super().__init__(target, NAME, ("table", "turns", "parts"), ("table",))
        self.kind, self.pointer = kind, target.pointer
        self.total = self.variable(kind)

    def write(self) -> str:
        """Return the text of the module."""
        text = self.text
        with self.shared_turns(self.w["turns"]) as turn:
            part, number = self.divided(turn, self.w["parts"])
            row = self.moved(self.w["table"], "i64", (number, str(ROW)))
            code, goal = self.word(row, "0"), self.word(row, "1", self.pointer)
            source, n = self.word(row, "2", self.pointer), self.word(row, "3")
            n = text.let(f"udiv i64 {n}, {KINDS[self.kind]}")
            begin = text.let(f"mul i64 {part}, {PART}")
            end = text.let(f"add i64 {begin}, {PART}")
            end = text.let(f"select i1 {text.let(f'icmp slt i64 {end}, {n}')}, i64 {end}, i64 {n}")
            with self.shares(begin, end) as i:
                if self.kind in ("float", "double"):
                    self.add_up(code, goal, source, i)
                else:
                    self.copy(code, source, i)
                result = self.load(self.total, "ptr")
                text.line(f"store {self.kind} {result}, {self.pointer} {self.at(goal, i)}")
        return self.module_text(True, ALONE, [("turns", 1)])

    def copy(self, code: str, source: str, i: str) -> None:
        """Hold element i of the source; 0 for the code 0."""
        text = self.text
        text.line(f"store {self.kind} 0, ptr {self.total}")
        with text.when(text.let(f"icmp ne i64 {code}, 0")):
            self.keep(self.load(self.at(source, i)))

    def add_up(self, code: str, goal: str, sources: str, i: str) -> None:
        """Hold the sum of elements i of several sources, behind that of the target if it counts."""
        text, kind = self.text, self.kind
        count, fresh = text.let(f"lshr i64 {code}, 1"), text.let(f"trunc i64 {code} to i1")
        text.line(f"store {kind} 0.0, ptr {self.total}")
        with text.when(text.let(f"xor i1 {fresh}, true")):
            self.keep(self.load(self.at(goal, i)))
        with self.loop("0", count) as k:
            value = self.load(self.at(self.word(sources, k, self.pointer), i))
            added = text.let(f"fadd {kind} {self.load(self.total, 'ptr')}, {value}")
            # The first source is taken as is: 0 + -0 would be 0.
            is_first = text.let(f"and i1 {fresh}, {text.let(f'icmp eq i64 {k}, 0')}")
            self.keep(text.let(f"select i1 {is_first}, {kind} {value}, {kind} {added}"))

    def word(self, base: str, k: str, kind: str = "i64") -> str:
        """Word k behind an address."""
        place = self.moved(base, "i64", (k, "1"))
        return self.text.let(f"load {kind}, {self.pointer} {place}, align 8")

    def at(self, base: str, i: str) -> str:
        """The address of element i behind another."""
        return self.moved(base, self.kind, (i, "1"))

    def load(self, address: str, pointer: str = "") -> str:
        """An element. pointer: the type of its address, if not one of the device's memory"""
        return self.text.let(f"load {self.kind}, {pointer or self.pointer} {address}")

    def keep(self, value: str) -> None:
        """Hold a value."""
        self.text.line(f"store {self.kind} {value}, ptr {self.total}")
