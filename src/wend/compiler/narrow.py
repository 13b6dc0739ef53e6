"""Products of few columns: dot products of the left operand's rows, or of the transpose's columns.

A tile has as many columns as two or three vectors hold; a product of one column would use one lane.
"""

from __future__ import annotations

from wend.base.records import Record
from wend.compiler.blocking import panel_capacity
from wend.compiler.operands import Matrix
from wend.compiler.packing import SOURCES
from wend.compiler.routine import Routine
from wend.compiler.tile import Shape

__all__ = ["Narrow"]

#: Columns that are few for dot products, and how many times as many rows there must be.
COLUMNS, TIMES = 8, 3
#: Shorter dot products cost more to add up than to make; tiles do many columns at once, so that
#: there must be so many steps for each.
DEPTH, STEPS = 32, 10


class Narrow(Record):
    """When a product is one of few columns (i1 each), and the right operand's strides in bytes.

    dotted: its rows lie along the depth     turned: they lie side by side
    """

    dotted: str
    turned: str
    line: str
    step: str

    @staticmethod
    def of(f: Routine, shape: Shape, dtype: str, a: dict[str, str], packed: str) -> Narrow:
        """Look at the words of a product, whose strides are in bytes."""
        size = str(shape.size)
        line = f.select(packed, size, a["right_column"])
        vectors = f.ceil_div(a["columns"], shape.lanes)  # of one panel
        step = f.select(packed, f.mul(vectors, str(shape.bytes)), a["right_step"])
        if SOURCES[dtype][0] != shape.element:
            return Narrow("false", "false", line, step)
        rows = f.sub(a["last_row"], a["first_row"])
        many = f.is_("sge", rows, f.mul(a["columns"], str(TIMES)))
        few = f.both(many, f.is_("sle", a["columns"], str(min(COLUMNS, shape.lanes))))
        # A tile's width, but for half a vector: what is left unused costs more than turning tiles.
        partly = f.both(many, f.is_("sle", a["columns"], str(shape.panel - shape.lanes // 2)))
        along = f.is_("eq", a["left_step"], size)
        deep = f.is_("sge", a["depth"], str(DEPTH))
        deep = f.both(deep, f.is_("sge", a["depth"], f.mul(a["columns"], str(STEPS))))
        fits = f.is_("sle", f.mul(a["columns"], a["depth"]), str(panel_capacity(shape)))
        kept = f.is_("eq", a["epilogue"], "null", "ptr")
        dotted = f.both(f.both(few, along), f.both(f.both(fits, deep), kept))
        beside = f.both(f.is_("eq", a["left_row"], size), f.let(f"xor i1 {along}, true"))
        turned = f.both(partly, beside)
        return Narrow(dotted, turned, line, step)

    def columns(self, f: Routine, shape: Shape, a: dict[str, str], base: str, room: str) -> Matrix:
        """The right operand with its columns along the depth: copied if they lie otherwise."""
        size = str(shape.size)
        stands = f.is_("eq", self.step, size)
        length = f.mul(a["depth"], size)
        with f.when(f.let(f"xor i1 {stands}, true")), f.loop("0", a["columns"]) as j:
            source, goal = f.at(base, f.mul(j, self.line)), f.at(room, f.mul(j, length))
            with f.loop("0", a["depth"]) as k:
                x = f.load(shape.element, f.at(source, f.mul(k, self.step)), shape.size)
                f.store(shape.element, x, f.at(goal, f.mul(k, size)), shape.size)
        found = f.select(stands, base, room, "ptr")
        return Matrix(found, f.select(stands, self.line, length), size)
