"""Attention without the matrix of all pairs, for any sizes: the kernels of the op `attend`.

There is a pair of functions for each form of attention (dtype, mask, dropout, causal):

    void attend(ptr args)               output and totals       (`attention_forward`)
    void attend_backward(ptr args)      dq, dk, dv              (`attention_backward`)

`args` is an argument block: 64-bit words, a word per name in ATTEND or ATTEND_BACKWARD. Strides
count elements; results are dense. For each entry of the batch, a block of rows meets the blocks of
keys in turn. Products are those of `matmul.matmul`, and rows of scores stay in the cache. The
largest score of a row and the sum of the row's exponentials are corrected from block to block
(Milakov, Gimelshein: Online normalizer calculation for softmax, 2018).

    query key value ...     pointers; `mask` broadcasts to the scores
    batch0 batch1           extents of the batch; 1 for none
    rows columns depth width    L, S, E, V
    X0 X1 X_row X_step      strides of operand X: of the batch, of rows, and along a row
    first last              the entries of both batch dims to compute; all: 0, batch0 * batch1
    scale p factor seed offset  numbers (see `ops.attend`); integers as they are, else float64
    scratch                 memory for this call, aligned to 64 bytes

Computations use the accumulators' type. Operands of half precision are widened first, entry by
entry of the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from wend._engine.base import dtypes
from wend._engine.base.dtypes import DType
from wend._engine.base.records import Record
from wend._engine.compiler.codegen.instructions import VectorBuilder
from wend._engine.compiler.codegen.philox import uniform_run
from wend._engine.compiler.kernels.attention.pairs import (
    PairCode,
    either,
    pair_pointers,
    pair_words,
)
from wend._engine.compiler.kernels.matmul import matmul
from wend._engine.compiler.kernels.matmul.macrokernel import arguments
from wend._engine.compiler.kernels.matmul.matmul import PACK, accumulator
from wend._engine.compiler.kernels.matmul.microkernel import TileConfig, lane_mask
from wend._engine.compiler.kernels.matmul.packing import SOURCES, ElementReader
from wend._engine.compiler.kernels.matmul.sizes import PRODUCT
from wend._engine.compiler.llvm_ir.error_flags import Faults
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.jit import Target, written_for
from wend._engine.compiler.llvm_ir.text import Module
from wend._engine.compiler.llvm_ir.values import SsaValue
from wend._engine.ops.neural.pairs import PairFunction

#: The rows of queries in a block: few enough for products that read the right operand in place.
BLOCK_ROWS = 64
#: The panels in a block of keys, which the second-level cache should keep beside the rows.
BLOCK_PANELS = 6
#: The most rows for which keys are not packed first.
PLAIN_ROWS = 16

SIZES = "batch0 batch1 rows columns depth width first last"
NUMBERS = "scale p factor seed offset"


def strides_of(operands: str) -> str:
    """The names of the strides of some operands, separated by spaces."""
    return " ".join(f"{x}0 {x}1 {x}_row {x}_step" for x in operands.split())


#: The address of a matrix, the elements to the next row, and the elements from step to step.
Matrix = tuple[str, str, str]


class ResultRows(NamedTuple):
    """Rows of a result.

    place, place_row: the address in memory, and the elements to the next row
    sums, row: the address where the rows are summed up, and the elements to the next row
    """

    place: str
    place_row: str
    sums: str
    row: str


class AttentionText(NamedTuple):
    """The text of a module, and the failures that its function may note."""

    text: str
    faults: tuple[str, ...]


class AttentionVariant(Record):
    """The form of an attention, on which its code depends.

    dtype: the dtype of the operands
    mask: the mask's dtype, or None
    is_causal: whether a row looks only at the keys up to its own number
    drops: whether there is dropout
    integers: the names of the numbers that come as integers
    pairs: the function of a pair, or None
    captured: the dtypes of the captured tensors of the function
    number_dtype: the dtype of the numbers of the function
    is_blocked: whether there is a table of blocks
    """

    dtype: DType
    mask: DType | None
    is_causal: bool
    drops: bool
    integers: tuple[str, ...] = ()
    pairs: PairFunction | None = None
    captured: tuple[DType, ...] = ()
    number_dtype: DType = dtypes.float64
    is_blocked: bool = False

    @property
    def wide(self) -> DType:
        """The dtype of all computations."""
        return dtypes.float64 if self.dtype is dtypes.float64 else dtypes.float32

    def shape(self, target: Target | None = None) -> TileConfig:
        """The tile configuration of the products."""
        return TileConfig.of(target or written_for(), SOURCES[accumulator(self.dtype.name)][0])


def block_columns(shape: TileConfig) -> int:
    """The number of keys in a block."""
    return BLOCK_PANELS * shape.panel


def row_elements(shape: TileConfig) -> int:
    """The elements between rows of a block of scores, with room for wider last panels."""
    return block_columns(shape) + 2 * shape.panel + 2 * shape.lanes


class Writer:
    """Writes a function of attention: products, rows of scores, masks, draws."""

    def __init__(self, name: str, form: AttentionVariant, names: list[str], pointers: str) -> None:
        self.form = form
        self.target = written_for()
        self.shape = form.shape(self.target)
        self.module = Module()
        self.f = Routine(name, [("ptr", "args")])
        self.faults = Faults()
        self.faults_at = len(self.f.lines)
        self.f.lines.append("")
        self.block = self.f.let(f"alloca [{len(PRODUCT)} x i64], align 64")
        names, pointers = names + pair_words(form), f"{pointers} {pair_pointers(form)}"
        self.a = arguments(self.f, names, pointers)
        self.size = str(self.shape.size)
        self.source = ElementReader(self.shape, form.dtype.name)
        self.narrow = not self.source.same
        self.scratch_end = self.a["scratch"]
        self.i = self.j = "0"  # the entry of the batch
        self.product_scratch = self.room(str(matmul.scratch_bytes(form.wide.name)))
        self.numbers()
        self.pairs = None if form.pairs is None else PairCode(self, form.pairs, form.captured)

    def numbers(self) -> None:
        """Convert the run-time numbers to the dtypes in which they are used."""
        f, a = self.f, self.a
        element = self.shape.element
        for name in ("scale", "p", "factor"):
            double = "bitcast i64 {} to double"
            if name in self.form.integers:
                double = "sitofp i64 {} to double"
            a[name] = f.let(double.format(a[name]))
            if element != "double":
                a[name] = f.let(f"fptrunc double {a[name]} to {element}")

    def builder(self, mask: str | None = None) -> VectorBuilder:
        """Return a builder of instructions on vectors of accumulators."""
        return VectorBuilder(self.f, self.module, self.shape.lanes, self.target, self.faults, mask)

    def room(self, size: str) -> str:
        """Take `size` bytes of the scratch memory, and return their address."""
        f = self.f
        place = self.scratch_end
        up = f.let(f"and i64 {f.add(size, '63')}, -64")
        self.scratch_end = f.at(place, up)
        return place

    # -- operands -----------------------------------------------------------------------------

    def start(self, name: str, i: str, j: str) -> str:
        """The address of an operand for the entry i, j of the batch."""
        f, a = self.f, self.a
        size = SOURCES[self.form.dtype.name][1]
        offset = f.add(f.mul(i, a[name + "0"]), f.mul(j, a[name + "1"]))
        return f.at(a[name], f.mul(offset, str(size)))

    def operand(
        self, name: str, i: str, j: str, rows: str, length: str, room: str | None
    ) -> Matrix:
        """Return an operand as a matrix for the entry i, j of the batch.

        room: the address for the widened operand, or None if it is read in place
        """
        f, a = self.f, self.a
        place = self.start(name, i, j)
        if room is None:
            return place, a[name + "_row"], a[name + "_step"]
        b = self.builder()
        size = str(self.source.size)
        row_step, step = f.mul(a[name + "_row"], size), f.mul(a[name + "_step"], size)
        with f.loop("0", rows) as r, f.loop("0", length, str(self.shape.lanes)) as c:
            mask = lane_mask(f, self.shape.lanes, f.sub(length, c))
            here = f.at(place, f.add(f.mul(r, row_step), f.mul(c, step)))
            x = self.source.gathered(f, here, step, mask)
            b.mask = mask
            to = f.at(room, f.mul(f.add(f.mul(r, length), c), self.size))
            b.store(SsaValue(x, self.form.wide), to)
        return room, length, "1"

    def rooms(self, sizes: dict[str, tuple[str, str]]) -> dict[str, str | None]:
        """Take memory for widened operands. sizes: the (rows, length) of each operand, by name

        Returns the addresses by name, or None for operands read in place.
        """
        if not self.narrow:
            return dict.fromkeys(sizes)
        f = self.f
        return {n: self.room(f.mul(f.mul(*size), self.size)) for n, size in sizes.items()}

    def result(
        self, name: str, i: str, j: str, row: str, length: str, room: str | None
    ) -> ResultRows:
        """Return the rows of a result from row `row` on.

        room: the address where the rows are summed up, or None for the result's own memory
        """
        f, step = self.f, self.a[name + "_row"]
        place = f.at(self.start(name, i, j), f.mul(f.mul(row, step), str(self.source.size)))
        sums = (place, step) if room is None else (room, length)
        return ResultRows(place, step, *sums)

    def write_narrow(self, result: ResultRows, rows: str, length: str) -> None:
        """Convert rows that were summed up in scratch memory, and store them in the result."""
        f, small = self.f, str(self.source.size)
        with f.loop("0", rows) as r, f.loop("0", length, str(self.shape.lanes)) as c:
            b = self.builder(lane_mask(f, self.shape.lanes, f.sub(length, c)))
            here, there = f.mul(r, result.row), f.mul(r, result.place_row)
            x = b.load(f.at(result.sums, f.mul(f.add(here, c), self.size)), self.form.wide)
            b.store(
                b.convert(x, self.form.dtype), f.at(result.place, f.mul(f.add(there, c), small))
            )

    def clear_rows(self, result: ResultRows, rows: str, length: str) -> None:
        """Set rows of sums to 0."""
        with self.f.loop("0", rows) as r:
            self.clear(
                self.f.at(result.sums, self.f.mul(self.f.mul(r, result.row), self.size)), length
            )

    def clear(self, place: str, count: str) -> None:
        """Set `count` accumulators to 0."""
        f = self.f
        with f.loop("0", count, str(self.shape.lanes)) as c:
            b = self.builder(lane_mask(f, self.shape.lanes, f.sub(count, c)))
            b.store(b.number(0, self.form.wide), f.at(place, f.mul(c, self.size)))

    # -- products -----------------------------------------------------------------------------

    def put(self, names: list[str], words: dict[str, str]) -> None:
        """Fill the argument block of a product; words without a value are 0.

        names: the names of all words, in order
        words: the values of words, by name
        """
        f = self.f
        pointers = "left right out epilogue state scratch packed_to"
        for k, name in enumerate(names):
            word = words.get(name, "null" if name in ("epilogue", "state") else "0")
            pointer = name in pointers.split() or (names is PACK and name in ("right", "packed"))
            f.store("ptr" if pointer else "i64", word, f.at(self.block, 8 * k), 8)

    def pack(self, matrix: Matrix, depth: str, columns: str, to: str) -> None:
        """Write the call that packs the transpose of a matrix of `columns` rows."""
        place, row, step = matrix
        ones = {"batch0": "1", "batch1": "1"}
        words = {
            "right": place, "packed": to, "depth": depth, "columns": columns,
            "right_step": step, "right_column": row,
        }  # fmt: skip
        self.put(PACK, words | ones)
        self.f.line(f"call void @pack(ptr {self.block})")

    def multiply(
        self, left: Any, right: Any, out: Any, extents: Any, accumulate: str = "0",
        packed: str = "0", part: Any = None,
    ) -> None:  # fmt: skip
        """Write the call that computes out (+)= left @ right.

        left: (address, row stride, step stride)
        right: (address, step stride, column stride)
        out: (address, row stride)
        extents: (rows, columns, depth)
        part: the (first, last) column to compute, or None for all
        """
        first, last = part or ("0", extents[1])
        words = {
            "left": left[0], "left_row": left[1], "left_step": left[2],
            "right": right[0], "right_step": right[1], "right_column": right[2],
            "out": out[0], "out_row": out[1],
            "rows": extents[0], "columns": extents[1], "depth": extents[2],
            "batch0": "1", "batch1": "1", "packed": packed, "accumulate": accumulate,
            "last_row": extents[0], "first_column": first, "last_column": last,
            "scratch": self.product_scratch,
        }  # fmt: skip
        self.put(PRODUCT, words)
        self.f.line(f"call void @product(ptr {self.block})")

    def packed_bytes(self, depth: str, columns: str) -> str:
        """The bytes of a packed operand."""
        f, lanes = self.f, self.shape.lanes
        whole = f.mul(f.ceil_div(columns, lanes), str(lanes))
        return f.mul(f.mul(whole, depth), self.size)

    # -- blocks -------------------------------------------------------------------------------

    def key_blocks(self, rows: tuple[str, str], end: str, body: Callable[[str, str], None]) -> None:
        """Write a loop over blocks of the keys 0 ... end - 1.

        rows: the first row of the scores, and how many
        body: writes the code for a block of the keys first ... last - 1
        With a table of blocks, body is not run for keys that no row looks at.
        """
        f, step = self.f, str(block_columns(self.shape))
        with f.turns("0", end) as loop:
            last = f.minimum(f.add(loop.index, step), end)
            # The last block takes a few left-over columns too.
            few = f.is_("sle", f.sub(end, last), str(2 * self.shape.lanes))
            last = f.select(few, end, last)
            if not self.form.is_blocked:
                loop.step = f.sub(last, loop.index)
                body(loop.index, last)
                return
            shown, last = self.shown_run(rows, loop.index, last, end)
            with f.when(shown):
                body(loop.index, last)
            loop.step = f.sub(last, loop.index)

    def shown_run(self, rows: tuple[str, str], column: str, last: str, end: str) -> tuple[str, str]:
        """Whether any of the rows looks at keys from `column` on, and the end of these keys.

        The keys end before a panel of packed keys for which the answer is another, or with `last`.
        end: the end of all keys
        """
        f = self.f
        answer = self.any_shown(rows, column, self.panel_end(column, end))
        with f.turns(column, last) as loop:
            run, same = loop.carry("i64", column), loop.carry("i1", "true")
            behind = self.panel_end(loop.index, end)
            alike = f.is_("eq", self.any_shown(rows, loop.index, behind), answer, "i1")
            still = f.both(same, alike)
            loop.become(run, f.select(still, behind, run))
            loop.become(same, still)
            loop.step = f.sub(behind, loop.index)
        return answer, run

    def panel_end(self, column: str, end: str) -> str:
        """The end of the panel of packed keys that begins with `column`."""
        f = self.f
        behind = f.add(column, str(self.shape.panel))
        few = f.is_("sle", f.sub(end, behind), str(2 * self.shape.lanes))
        return f.select(few, end, behind)

    def any_shown(self, rows: tuple[str, str], first: str, last: str) -> str:
        """Whether the table has an entry other than 0 for rows and the keys first ... last - 1."""
        f, a = self.f, self.a
        above = f.div(rows[0], a["block_rows"])
        below = f.ceil_quotient(f.add(*rows), a["block_rows"])
        left = f.div(first, a["block_columns"])
        right = f.ceil_quotient(last, a["block_columns"])
        entry = f.add(f.mul(self.i, a["blocks0"]), f.mul(self.j, a["blocks1"]))
        with f.turns(above, below) as row:
            shown = row.carry("i1", "false")
            line = f.add(entry, f.mul(row.index, a["blocks_row"]))
            with f.turns(left, right) as column:
                so_far = column.carry("i1", shown)
                place = f.add(line, f.mul(column.index, a["blocks_step"]))
                state = f.load("i8", f.at(a["blocks"], place))
                column.become(so_far, f.either(so_far, f.is_("ne", state, "0", "i8")))
            row.become(shown, so_far)
        return shown

    def visible(self, row: str) -> str:
        """The number of keys that the rows up to `row` look at."""
        if not self.form.is_causal:
            return self.a["columns"]
        return self.f.minimum(self.f.add(row, "1"), self.a["columns"])

    def shown(self, row: str, column: str, last: str) -> str:
        """The end of the keys column ... last - 1 that a row looks at."""
        f = self.f
        end = f.minimum(self.visible(row), last)
        return f.select(f.is_("slt", end, column), column, end)

    def row_context(self, i: str, j: str, row: str, with_slope: bool = False) -> Any:
        """The values that `score` needs for a row of scores."""
        if self.pairs is not None:
            return self.pairs.row(self.builder(), (i, j, row), with_slope)
        return self.mask_row(i, j, row)

    def score(
        self, b: VectorBuilder, x: SsaValue, context: Any, column: str, with_slope: bool = False
    ) -> tuple[SsaValue, SsaValue | None]:
        """Return scores, which are scaled products with the mask or function; and their slope.

        context: of the row, see `row_context`
        The slope is None where it is 1, and is not wanted for pairs that are not shown.
        """
        x = b.mul(x, b.spread(self.a["scale"], self.form.wide))
        if self.pairs is None:
            return self.masked(b, x, context, column), None
        score, shown, slope = self.pairs.element(b, x, context, column, with_slope)
        assert score is not None
        score = b.convert(score, self.form.wide)
        if slope is not None:
            slope = b.convert(slope, self.form.wide)
        if shown is not None:
            shown = b.convert(shown, dtypes.bool_)
            score = b.select(shown, score, b.number(float("-inf"), self.form.wide))
            zero = b.number(0, self.form.wide)
            slope = None if slope is None else b.select(shown, slope, zero)
        return score, slope

    def masked(self, b: VectorBuilder, x: SsaValue, mask_at: str, column: str) -> SsaValue:
        """Return scores with the mask. mask_at: the address of the mask's row"""
        f, a, form = self.f, self.a, self.form
        if form.mask is None:
            return x
        size = form.mask.itemsize
        step = b.spread(a["mask_step"], dtypes.int64)
        lanes = b.value(f"<{', '.join(f'i64 {k}' for k in range(b.lanes))}>", dtypes.int64)
        places = b.mul(b.add(lanes, b.spread(column, dtypes.int64)), step)
        places = b.mul(places, b.number(size, dtypes.int64))
        far = f.let(f"getelementptr i8, ptr {mask_at}, <{b.lanes} x i64> {places.name}")
        near = f.at(mask_at, f.mul(column, str(size)))
        read = either(b, f.is_("eq", a["mask_step"], "1"), near, far, form.mask)
        if form.mask is dtypes.bool_:
            return b.select(read, x, b.number(float("-inf"), form.wide))
        return b.add(x, b.convert(read, form.wide))

    def mask_row(self, i: str, j: str, row: str) -> str:
        """The address of the mask's row for a row of scores."""
        if self.form.mask is None:
            return "null"
        f, a = self.f, self.a
        offset = f.add(f.mul(i, a["mask0"]), f.mul(j, a["mask1"]))
        offset = f.add(offset, f.mul(row, a["mask_row"]))
        return f.at(a["mask"], f.mul(offset, str(self.form.mask.itemsize)))

    def factors(self, b: VectorBuilder, entry: str, row: str, column: str) -> SsaValue:
        """Return the factors of dropout for the weights from a place on: `factor` or 0."""
        f, a = self.f, self.a
        place = f.add(f.mul(f.add(f.mul(entry, a["rows"]), row), a["columns"]), column)
        u = uniform_run(b, a["seed"], f.add(a["offset"], place), dtypes.float32)
        p = a["p"]
        if self.form.wide is dtypes.float64:
            p = f.let(f"fptrunc double {p} to float")
        kept = b.ge(u, b.spread(p, dtypes.float32))
        factor = b.spread(a["factor"], self.form.wide)
        return b.select(kept, factor, b.number(0, self.form.wide))

    def entries(self, body: Callable[[str, str, str], None]) -> None:
        """Write a loop over the entries of the batch. body: writes the code for (entry, i, j)"""
        f, a = self.f, self.a
        with f.loop(a["first"], a["last"]) as entry:
            i = f.div(entry, a["batch1"])
            body(entry, i, f.sub(entry, f.mul(i, a["batch1"])))

    def finish(self) -> AttentionText:
        """Return the text of the module, and the failures that it may note."""
        core = matmul.core_text(self.form.wide.name)
        if self.faults.messages:
            self.faults.leave(self.f, self.a["fault"])
            self.f.lines[self.faults_at] = self.faults.entry()
        text = "\n".join([core, self.f.text(), self.module.render()])
        return AttentionText(text, tuple(self.faults.messages))
