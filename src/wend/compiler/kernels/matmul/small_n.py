"""Products of few columns: dot products of the left operand's rows, or of the transpose's columns.

A tile has as many columns as two or three vectors hold; a product of one column would use one lane.
So would the last column of many: where whole vectors are followed by few columns, these are a
product for themselves if nothing is cut into parts.
"""

from __future__ import annotations

from wend.base.records import Record
from wend.compiler.kernels.matmul.macrokernel import panel_capacity
from wend.compiler.kernels.matmul.microkernel import TileConfig
from wend.compiler.kernels.matmul.operands import Matrix
from wend.compiler.kernels.matmul.packing import SOURCES
from wend.compiler.llvm_ir.function import Routine

__all__ = ["MOST", "Narrow"]

#: Columns that are few for dot products, and how many times as many rows there must be.
COLUMNS, TIMES = 8, 3
#: Shorter dot products cost more to add up than to make; tiles do many columns at once, so that
#: there must be so many steps for each.
DEPTH, STEPS = 32, 10
#: Steps and rows from which on columns that are left over pay.
REST, ROWS = 16, 12
#: Multiplications from which on a product may be cut (see `partition.WORTH`): what is left over of
#: a part, or beside panels packed for all, would be computed otherwise than of the whole.
MOST = 3_000_000
#: Rows for each of them if they do not lie along the depth; more if the right operand, of so many
#: bytes, is no longer near.
APART, FAR, NEAR = 12, 48, 1 << 18


class Narrow(Record):
    """When a product is one of few columns (i1 each), and the right operand's strides in bytes.

    dotted: its rows lie along the depth     turned: they lie side by side
    left_over: they are the columns from `first` on; the ones before are for others
    """

    dotted: str
    turned: str
    line: str
    step: str
    left_over: str
    first: str

    @staticmethod
    def of(
        f: Routine, shape: TileConfig, dtype: str, a: dict[str, str], packed: str, other: str
    ) -> Narrow:
        """Look at the words of a product, whose strides are in bytes.

        other: an i1, that none of the columns are left over
        """
        size = str(shape.size)
        line = f.select(packed, size, a["right_column"])
        vectors = f.ceil_div(a["columns"], shape.lanes)  # of one panel
        step = f.select(packed, f.mul(vectors, str(shape.bytes)), a["right_step"])
        if SOURCES[dtype][0] != shape.element:
            return Narrow("false", "false", line, step, "false", "0")
        rows = f.sub(a["last_row"], a["first_row"])
        along = f.is_("eq", a["left_step"], size)
        rest = f.let(f"urem i64 {a['columns']}, {shape.panel}")
        whole = f.sub(a["columns"], rest)
        over = f.let(f"urem i64 {rest}, {shape.lanes}")
        near = f.is_("ule", f.mul(a["depth"], step), str(NEAR))
        each = f.select(near, str(APART), str(FAR))
        conditions = [
            f.let(f"xor i1 {f.either(packed, other)}, true"),
            f.is_("eq", a["last_column"], a["columns"]),
            f.is_("sgt", a["columns"], str(shape.panel)),
            f.is_("ne", over, "0"),
            f.is_("sle", over, str(shape.lanes // 2)),
            f.is_("sge", rows, str(ROWS)),
            f.either(f.is_("eq", step, size), f.is_("sge", rows, f.mul(over, each))),
            f.is_("sge", a["depth"], str(REST)),
            f.is_("slt", f.mul(f.mul(a["rows"], a["columns"]), a["depth"]), str(MOST)),
        ]
        left_over = f.every(conditions)
        columns = f.select(left_over, rest, a["columns"])
        many = f.is_("sge", rows, f.mul(columns, str(TIMES)))
        few = f.both(many, f.is_("sle", columns, str(min(COLUMNS, shape.lanes))))
        # A tile's width, but for half a vector: what is left unused costs more than turning tiles.
        partly = f.both(many, f.is_("sle", columns, str(shape.panel - shape.lanes // 2)))
        deep = f.is_("sge", a["depth"], str(DEPTH))
        deep = f.both(deep, f.is_("sge", a["depth"], f.mul(columns, str(STEPS))))
        fits = f.is_("sle", f.mul(columns, a["depth"]), str(panel_capacity(shape)))
        kept = f.is_("eq", a["epilogue"], "null", "ptr")
        dotted = f.both(f.both(few, along), f.both(f.both(fits, deep), kept))
        beside = f.both(f.is_("eq", a["left_row"], size), f.let(f"xor i1 {along}, true"))
        turned = f.both(partly, beside)
        left_over = f.both(left_over, f.either(dotted, turned))
        return Narrow(dotted, turned, line, step, left_over, f.select(left_over, whole, "0"))

    def columns(
        self, f: Routine, shape: TileConfig, a: dict[str, str], base: str, room: str
    ) -> Matrix:
        """The right operand with its columns along the depth: copied if they lie otherwise."""
        size = str(shape.size)
        stands = f.is_("eq", self.step, size)
        length = f.mul(a["depth"], size)
        with f.when(f.let(f"xor i1 {stands}, true")), f.loop("0", a["depth"]) as k:
            source = f.at(base, f.mul(k, self.step))
            goal = f.at(room, f.mul(k, size))
            with f.loop(self.first, a["columns"]) as j:
                x = f.load(shape.element, f.at(source, f.mul(j, self.line)), shape.size)
                place = f.mul(f.sub(j, self.first), length)
                f.store(shape.element, x, f.at(goal, place), shape.size)
        copies = f.at(room, f.sub("0", f.mul(self.first, length)))
        found = f.select(stands, base, copies, "ptr")
        return Matrix(found, f.select(stands, self.line, length), size)
