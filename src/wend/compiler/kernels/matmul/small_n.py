"""Products of few columns: dot products of the left operand's rows, or tiles of the transpose.

A tile has as many columns as two or three vectors hold, so a product of one column would use one
lane. A few columns behind whole vectors would waste lanes too. Such left-over columns are a product
of their own, unless the product is cut into parts.
"""

from __future__ import annotations

from wend.base.records import Record
from wend.compiler.kernels.matmul.macrokernel import panel_capacity
from wend.compiler.kernels.matmul.microkernel import TileConfig
from wend.compiler.kernels.matmul.operands import Matrix
from wend.compiler.kernels.matmul.packing import SOURCES
from wend.compiler.llvm_ir.function import Routine

__all__ = ["MOST", "Narrow"]

#: The most columns for dot products, and the least rows per column.
COLUMNS, TIMES = 8, 3
#: The least steps, in all and per column. In shorter dot products, adding up lanes costs more than
#: the multiplications. Tiles do many columns at once, so many columns need more steps.
DEPTH, STEPS = 32, 10
#: The least steps and rows for which a product of left-over columns pays.
REST, ROWS = 16, 12
#: The least multiplications of a product that may be cut (see `partition.WORTH`). Its left-over
#: columns stay with the rest, or parts would be computed in another way than the whole.
MOST = 3_000_000
#: The least rows per left-over column, if columns do not lie along the depth: APART, or FAR if the
#: right operand has more than NEAR bytes.
APART, FAR, NEAR = 12, 48, 1 << 18


class Narrow(Record):
    """Whether a product has few columns (i1 values), and the right operand's strides.

    dotted: an i1, whether columns are dot products: the left rows lie along the depth
    turned: an i1, whether the transpose is computed: the left rows lie side by side
    line, step: the right operand's strides in bytes, to the next column and step
    left_over: an i1, whether the few columns are those from `first` on, behind whole vectors
    first: the first of the few columns; other functions compute the columns before
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
        """Return the record for the words of a product, whose strides are in bytes.

        packed: an i1, whether the right operand is packed
        other: an i1, whether another function takes all columns, so that none are left over
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
        # With at least half a vector of a tile unused, the waste exceeds the cost of turning tiles.
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
        """Return the right operand with its columns along the depth, copied if necessary.

        base: the address of the right operand
        room: the address of memory for the copy
        """
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
