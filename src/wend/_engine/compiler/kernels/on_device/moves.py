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

from wend._engine.compiler.codegen.device_nest import ALONE, launch_line
from wend._engine.compiler.llvm_ir.device_verbs import DeviceVerbs
from wend._engine.compiler.llvm_ir.jit import Target
from wend._engine.compiler.llvm_ir.text import Module, Text

NAME = "moves"
ROW = 4
#: Elements of a part.
PART = 4096
#: Bytes of an element, by kind: the first two are copied, the others added up.
KINDS = {"i8": 1, "i32": 4, "float": 4, "double": 8}


@cache
def moves_text(target: Target, kind: str) -> str:
    """Return the module for elements of a kind, see `KINDS`."""
    text, entry, module = Text(), Text(), Module()
    entry._count = 1_000_000
    verbs = DeviceVerbs(target, text, entry, module)
    pointer = target.pointer

    def word(out: Text, base: str, k: str, form: str = "i64") -> str:
        place = out.let(f"getelementptr i64, {pointer} {base}, i64 {k}")
        return out.let(f"load {form}, {pointer} {place}")

    def address(base: str, i: str) -> str:
        return text.let(f"getelementptr {kind}, {pointer} {base}, i64 {i}")

    table, turns = word(entry, "%block", "0", pointer), word(entry, "%block", "1")
    parts = word(entry, "%block", "2")
    total = entry.let(f"alloca {kind}", "total")
    turn_at, i_at, k_at = (entry.let("alloca i64", "var") for _ in range(3))
    group, groups = verbs.number("group"), verbs.number("groups")
    with text.counted(turn_at, group, turns, groups) as turn:
        number = text.let(f"udiv i64 {turn}, {parts}")
        part = text.let(f"urem i64 {turn}, {parts}")
        row = text.let(f"mul i64 {number}, {ROW}")
        row = text.let(f"getelementptr i64, {pointer} {table}, i64 {row}")
        code, goal = word(text, row, "0"), word(text, row, "1", pointer)
        source, n = word(text, row, "2", pointer), word(text, row, "3")
        n = text.let(f"udiv i64 {n}, {KINDS[kind]}")
        begin = text.let(f"mul i64 {part}, {PART}")
        end = text.let(f"add i64 {begin}, {PART}")
        end = text.let(f"select i1 {text.let(f'icmp slt i64 {end}, {n}')}, i64 {end}, i64 {n}")
        first = text.let(f"add i64 {begin}, {verbs.number('item')}")
        count, fresh = text.let(f"lshr i64 {code}, 1"), text.let(f"trunc i64 {code} to i1")
        with text.counted(i_at, first, end, verbs.number("items")) as i:
            where = address(goal, i)
            if kind not in ("float", "double"):
                text.line(f"store {kind} 0, ptr {total}")
                with text.when(text.let(f"icmp ne i64 {code}, 0")):
                    value = text.let(f"load {kind}, {pointer} {address(source, i)}")
                    text.line(f"store {kind} {value}, ptr {total}")
            else:
                text.line(f"store {kind} 0.0, ptr {total}")
                with text.when(text.let(f"xor i1 {fresh}, true")):
                    former = text.let(f"load {kind}, {pointer} {where}")
                    text.line(f"store {kind} {former}, ptr {total}")
                with text.counted(k_at, "0", count) as k:
                    place = address(word(text, source, k, pointer), i)
                    value = text.let(f"load {kind}, {pointer} {place}")
                    before = text.let(f"load {kind}, ptr {total}")
                    added = text.let(f"fadd {kind} {before}, {value}")
                    # The first source is taken as is: 0 + -0 would be 0.
                    is_first = text.let(f"icmp eq i64 {k}, 0")
                    is_first = text.let(f"and i1 {fresh}, {is_first}")
                    value = text.let(f"select i1 {is_first}, {kind} {value}, {kind} {added}")
                    text.line(f"store {kind} {value}, ptr {total}")
            result = text.let(f"load {kind}, ptr {total}")
            text.line(f"store {kind} {result}, {pointer} {where}")
    text.line("ret void")
    module.add(NAME, verbs.definition(NAME))
    return f"{launch_line(NAME, True, ALONE, [(1, 1)], 3)}\n{module.render()}"
