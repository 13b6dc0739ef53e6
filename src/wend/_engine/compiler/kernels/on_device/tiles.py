"""Products of two operands on an accelerator: tiles of the result, by way of a group's memory.

A group computes a tile of `TILE` rows and columns. For every `DEPTH` steps of the sum, the work
items bring parts of both operands into the memory of the group. Neighbours in memory are brought by
neighbours among the work items. Then each adds up `SIDE` x `SIDE` elements. The text is the same
for all sizes and strides.

Source of the method: Volkov and Demmel, "Benchmarking GPUs to tune dense linear algebra", 2008.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

from wend._engine.base import dtypes
from wend._engine.base.dtypes import DType
from wend._engine.compiler.kernels.on_device.code import DeviceCode
from wend._engine.compiler.llvm_ir.jit import Target

#: Rows and columns of a tile, steps of the sum at a time, and elements of a side per work item.
TILE, DEPTH, SIDE = 64, 16, 4
#: Work items of a side of a group; elements of a line in the group's memory, in which neighbours
#: along the sum lie in different banks.
ACROSS, LINE = TILE // SIDE, TILE + 1
ITEMS = ACROSS * ACROSS
NAME = "tiles"
#: The first words of the argument block: addresses, the extents of the result and of the sum, two
#: dims of a batch, and the distances along these.
COMMON = (
    "left right out rows columns depth batch0 batch1 left0 left1 right0 right1 out0 out1"
).split()
OUT = COMMON.index("out")


class TileCode(DeviceCode):
    """Writes a kernel of tiles; classes below say where elements lie.

    words: those of `COMMON` first
    tail: the code of the ops behind the product, a `tail.TailCode`; None where there are none
    left_near, right_near: whether neighbours in memory are steps of the sum, an i1; else they are
        rows of the left operand, or columns of the right operand
    """

    left_near: str
    right_near: str

    def __init__(self, target: Target, dtype: DType, words: list[str]) -> None:
        super().__init__(target, NAME, words, ("left", "right", "out"))
        self.kind = "double" if dtype is dtypes.float64 else "float"
        self.size = dtype.itemsize
        self.tail: Any = None
        room = LINE * DEPTH
        self.lefts = self.verbs.shared("lefts", self.kind, room)
        self.rights = self.verbs.shared("rights", self.kind, room)
        item = self.verbs.number("item")
        self.item = item
        self.column = self.entry.let(f"and i64 {item}, {ACROSS - 1}")
        self.row = self.entry.let(f"lshr i64 {item}, {ACROSS.bit_length() - 1}")
        #: The sums of a work item, and those of the present `DEPTH` steps, which round less.
        self.sums, self.parts = self.variables(), self.variables()

    def variables(self) -> list[list[str]]:
        """A variable for each element of a work item."""
        return [[self.variable(self.kind) for _ in range(SIDE)] for _ in range(SIDE)]

    def write(self) -> str:
        """Return the text of the module."""
        w, text = self.w, self.text
        down, across = self.tiles("rows"), self.tiles("columns")
        turns = self.entry.let(f"mul i64 {down}, {across}")
        for name in ("batch0", "batch1"):
            turns = self.entry.let(f"mul i64 {turns}, {w[name]}")
        with self.shared_turns(turns) as turn:
            tile, turn = self.divided(turn, across)
            first_column = text.let(f"mul i64 {tile}, {TILE}")
            tile, turn = self.divided(turn, down)
            first_row = text.let(f"mul i64 {tile}, {TILE}")
            inner, outer = self.divided(turn, w["batch1"])
            left, right, out = (
                self.moved(w[name], self.kind, (outer, w[f"{name}0"]), (inner, w[f"{name}1"]))
                for name in ("left", "right", "out")
            )
            self.add_up(left, right, first_row, first_column)
            if self.tail is None:
                self.store(out, first_row, first_column)
            else:
                self.do_tail([outer, inner], first_row, first_column)
        sizes = [("rows", TILE), ("columns", TILE), ("batch0", 1), ("batch1", 1)]
        n_words = len(self.words if self.tail is None else self.tail.slots.items)
        return self.module_text(True, ITEMS, sizes, n_words)

    def tiles(self, name: str) -> str:
        """The number of tiles along the rows or columns."""
        more = self.entry.let(f"add i64 {self.w[name]}, {TILE - 1}")
        return self.entry.let(f"udiv i64 {more}, {TILE}")

    # -- sums -----------------------------------------------------------------------------------

    def add_up(self, left: str, right: str, first_row: str, first_column: str) -> None:
        """Add up the sums of a tile, which begins at a row and a column."""
        w = self.w
        self.clear(self.sums)
        with self.loop("0", w["depth"], str(DEPTH)) as first:
            self.bring(self.lefts, left, first_row, first, "rows", self.left_near, self.left_at)
            self.bring(
                self.rights, right, first_column, first, "columns", self.right_near, self.right_at
            )
            self.verbs.barrier()
            self.clear(self.parts)
            for step in range(DEPTH):
                self.add_step(step)
            self.add_parts()
            self.verbs.barrier()  # before the memory is written again

    def clear(self, sums: list[list[str]]) -> None:
        """Set sums to 0."""
        for place in chain(*sums):
            self.text.line(f"store {self.kind} 0.0, ptr {place}")

    def add_parts(self) -> None:
        """Add the sums of the present steps to those of all steps."""
        text, kind = self.text, self.kind
        for whole, part in zip(chain(*self.sums), chain(*self.parts), strict=True):
            x, y = (text.let(f"load {kind}, ptr {place}") for place in (whole, part))
            text.line(f"store {kind} {text.let(f'fadd {kind} {x}, {y}')}, ptr {whole}")

    def bring(
        self,
        room: str,
        source: str,
        begin: str,
        first: str,
        extent: str,
        steps_near: str,
        at: Callable[[str, str, str], tuple[str, str]],
    ) -> None:
        """Bring a part of an operand into the memory of the group; 0 where there is no element.

        begin, first: the first row (or column), and the first step of the sum
        extent: the word of the number of rows (or columns)
        steps_near: see `left_near`     at: `left_at` or `right_at`
        """
        w, text, kind, pointer = self.w, self.text, self.kind, self.target.pointer
        for k in range(TILE * DEPTH // ITEMS):
            number = text.let(f"add i64 {self.item}, {k * ITEMS}") if k else self.item
            step_fast = text.let(f"and i64 {number}, {DEPTH - 1}")
            row_slow = text.let(f"lshr i64 {number}, {DEPTH.bit_length() - 1}")
            row_fast = text.let(f"and i64 {number}, {TILE - 1}")
            step_slow = text.let(f"lshr i64 {number}, {TILE.bit_length() - 1}")
            i = text.let(f"select i1 {steps_near}, i64 {row_slow}, i64 {row_fast}")
            j = text.let(f"select i1 {steps_near}, i64 {step_fast}, i64 {step_slow}")
            row, place = text.let(f"add i64 {begin}, {i}"), text.let(f"add i64 {first}, {j}")
            inside = text.let(f"icmp slt i64 {row}, {w[extent]}")
            there = text.let(f"icmp slt i64 {place}, {w['depth']}")
            inside = text.let(f"and i1 {inside}, {there}")
            where, there = at(source, row, place)
            if there:
                inside = text.let(f"and i1 {inside}, {there}")
            where = text.let(f"select i1 {inside}, {pointer} {where}, {pointer} {source}")
            x = text.let(f"load {kind}, {pointer} {where}, align {self.size}")
            x = text.let(f"select i1 {inside}, {kind} {x}, {kind} 0.0")
            line = text.let(f"mul i64 {j}, {LINE}")
            self.keep(room, text.let(f"add i64 {line}, {i}"), x)

    def keep(self, room: str, at: str, x: str) -> None:
        """Write to the memory of the group."""
        pointer = "ptr addrspace(3)"
        where = self.text.let(f"getelementptr {self.kind}, {pointer} {room}, i64 {at}")
        self.text.line(f"store {self.kind} {x}, {pointer} {where}, align {self.size}")

    def take(self, room: str, at: str) -> str:
        """Read from the memory of the group."""
        pointer = "ptr addrspace(3)"
        where = self.text.let(f"getelementptr {self.kind}, {pointer} {room}, i64 {at}")
        return self.text.let(f"load {self.kind}, {pointer} {where}, align {self.size}")

    def add_step(self, step: int) -> None:
        """Add the products of a step of the sum."""
        text, kind = self.text, self.kind
        suffix = "f64" if kind == "double" else "f32"

        def line(room: str, place: str) -> list[str]:
            begin = text.let(f"add i64 {place}, {step * LINE}")
            places = [text.let(f"add i64 {begin}, {k * ACROSS}") for k in range(SIDE)]
            return [self.take(room, at) for at in places]

        lefts, rights = line(self.lefts, self.row), line(self.rights, self.column)
        for x, sums in zip(lefts, self.parts, strict=True):
            for y, place in zip(rights, sums, strict=True):
                total = text.let(f"load {kind}, ptr {place}")
                args = f"{kind} {x}, {kind} {y}, {kind} {total}"
                total = text.let(f"call {kind} @llvm.fma.{suffix}({args})")
                text.line(f"store {kind} {total}, ptr {place}")

    def store(self, out: str, first_row: str, first_column: str) -> None:
        """Write the elements of a tile that lie in the result."""
        w, text, kind, pointer = self.w, self.text, self.kind, self.target.pointer
        for i, sums in enumerate(self.sums):
            row = text.let(f"add i64 {first_row}, {i * ACROSS}")
            row = text.let(f"add i64 {row}, {self.row}")
            is_row = text.let(f"icmp slt i64 {row}, {w['rows']}")
            for j, place in enumerate(sums):
                column = text.let(f"add i64 {first_column}, {j * ACROSS}")
                column = text.let(f"add i64 {column}, {self.column}")
                is_column = text.let(f"icmp slt i64 {column}, {w['columns']}")
                with text.when(text.let(f"and i1 {is_row}, {is_column}")):
                    where = self.out_at(out, row, column)
                    total = text.let(f"load {kind}, ptr {place}")
                    text.line(f"store {kind} {total}, {pointer} {where}, align {self.size}")

    def do_tail(self, batch: list[str], first_row: str, first_column: str) -> None:
        """Do the ops behind the product on the elements of a tile, in a loop.

        batch: the counters of the dims of a batch
        """
        w, text, kind = self.w, self.text, self.kind
        row = text.let(f"add i64 {first_row}, {self.row}")
        column = text.let(f"add i64 {first_column}, {self.column}")
        # A loop, since the ops of some tails are long.
        room = self.entry.let(f"alloca [{SIDE * SIDE} x {kind}]", "sums")
        for k, place in enumerate(chain(*self.sums)):
            total = text.let(f"load {kind}, ptr {place}")
            where = text.let(f"getelementptr {kind}, ptr {room}, i64 {k}")
            text.line(f"store {kind} {total}, ptr {where}")
        counter = self.entry.let("alloca i64", "var")
        with text.counted(counter, "0", str(SIDE * SIDE)) as n:
            i, j = text.let(f"udiv i64 {n}, {SIDE}"), text.let(f"urem i64 {n}, {SIDE}")
            down, across = (text.let(f"mul i64 {x}, {ACROSS}") for x in (i, j))
            down, across = (
                text.let(f"add i64 {row}, {down}"),
                text.let(f"add i64 {column}, {across}"),
            )
            is_row = text.let(f"icmp slt i64 {down}, {w['rows']}")
            is_column = text.let(f"icmp slt i64 {across}, {w['columns']}")
            with text.when(text.let(f"and i1 {is_row}, {is_column}")):
                where = text.let(f"getelementptr {kind}, ptr {room}, i64 {n}")
                total = text.let(f"load {kind}, ptr {where}")
                self.tail.element(total, self.places(batch, down, across))

    # -- places ---------------------------------------------------------------------------------

    def left_at(self, left: str, row: str, step: str) -> tuple[str, str]:
        """The address of an element of the left operand, and whether the element is there.

        The latter is an i1; "" if the element is there for each row and step.
        """
        raise NotImplementedError

    def right_at(self, right: str, column: str, step: str) -> tuple[str, str]:
        """As `left_at`, of the right operand."""
        raise NotImplementedError

    def out_at(self, out: str, row: str, column: str) -> str:
        """The address of an element of the result."""
        raise NotImplementedError

    def places(self, batch: list[str], row: str, column: str) -> list[str]:
        """The counters of the loops of a tail: see `epilogue_ops.Tail`."""
        return [*batch, row, column]
