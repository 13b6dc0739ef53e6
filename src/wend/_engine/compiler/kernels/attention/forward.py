"""Attention, block by block: see `attention.attention`.

    void attend(ptr args)       words: ATTEND

A row keeps its largest score so far, and the sum of exponentials relative to that score. Both are
corrected when a later block of keys has a larger score.
"""

from __future__ import annotations

from wend._engine.base import dtypes
from wend._engine.compiler.codegen.instructions import VectorBuilder
from wend._engine.compiler.kernels.attention.attention import (
    BLOCK_ROWS,
    NUMBERS,
    PLAIN_ROWS,
    SIZES,
    AttentionText,
    AttentionVariant,
    ResultRows,
    Writer,
    row_elements,
    strides_of,
)
from wend._engine.compiler.kernels.matmul.microkernel import lane_mask
from wend._engine.compiler.llvm_ir.values import SsaValue

ATTEND = (
    f"query key value mask output total {SIZES} {strides_of('query key value mask output')} "
    f"{NUMBERS} scratch"
).split()


class _Forward(Writer):
    def __init__(self, form: AttentionVariant) -> None:
        super().__init__("attend", form, ATTEND, "query key value mask output total scratch")

    def write(self) -> AttentionText:
        """Return the text of the module with `attend`."""
        f, a, shape = self.f, self.a, self.shape
        self.row_bytes = str(row_elements(shape) * shape.size)
        self.scores = self.room(f.mul(self.row_bytes, str(BLOCK_ROWS)))
        self.tops = self.room(str(BLOCK_ROWS * shape.size))
        self.sums = self.room(str(BLOCK_ROWS * shape.size))
        self.packed = self.room(self.packed_bytes(a["depth"], a["columns"]))
        self.rooms_ = self.rooms(
            {
                "query": (a["rows"], a["depth"]),
                "key": (a["columns"], a["depth"]),
                "value": (a["columns"], a["width"]),
                "output": (str(BLOCK_ROWS), a["width"]),
            }
        )
        self.packs = f.is_("sgt", a["rows"], str(PLAIN_ROWS))
        self.entries(self.entry)
        return self.finish()

    def entry(self, entry: str, i: str, j: str) -> None:
        """Write the code for an entry of the batch."""
        f, a, rooms = self.f, self.a, self.rooms_
        self.entry_, self.i, self.j = entry, i, j
        self.q = self.operand("query", i, j, a["rows"], a["depth"], rooms["query"])
        self.k = self.operand("key", i, j, a["columns"], a["depth"], rooms["key"])
        self.v = self.operand("value", i, j, a["columns"], a["width"], rooms["value"])
        with f.when(self.packs):
            self.pack(self.k, a["depth"], a["columns"], self.packed)
        self.right = f.select(self.packs, self.packed, self.k[0], "ptr")
        self.flag = f.select(self.packs, "1", "0")
        with f.loop("0", a["rows"], str(BLOCK_ROWS)) as row:
            self.rows(row)

    def rows(self, row: str) -> None:
        """Write the code for a block of rows, from row `row` on."""
        f, a, shape = self.f, self.a, self.shape
        count = f.minimum(f.sub(a["rows"], row), str(BLOCK_ROWS))
        line = f.add(f.mul(self.entry_, a["rows"]), row)
        room = self.rooms_["output"]
        result = self.result("output", self.i, self.j, row, a["width"], room)
        with f.loop("0", count) as r:
            at = f.mul(r, self.size)
            low = "0xFFF0000000000000"
            f.store(shape.element, low, f.at(self.tops, at), shape.size)
            f.store(shape.element, "0.0", f.at(self.sums, at), shape.size)
        end = self.visible(f.sub(f.add(row, count), "1"))
        if self.form.is_blocked:  # which block of keys is the first is not known
            self.clear_rows(result, count, a["width"])
        else:
            with f.when(f.is_("sle", end, "0")):
                self.clear_rows(result, count, a["width"])
        self.key_blocks((row, count), end, lambda c, last: self.keys(row, count, c, last, result))
        self.close(count, f.at(a["total"], f.mul(line, self.size)))
        with f.loop("0", count) as r:
            factor = f.load(shape.element, f.at(self.sums, f.mul(r, self.size)), shape.size)
            self.scale(f.at(result.sums, f.mul(f.mul(r, result.row), self.size)), factor)
        if room is not None:
            self.write_narrow(result, count, a["width"])

    def keys(self, row: str, count: str, column: str, last: str, result: ResultRows) -> None:
        """Write the code for a block of rows and a block of keys."""
        f, a = self.f, self.a
        stride = str(row_elements(self.shape))
        q = f.at(self.q[0], f.mul(f.mul(row, self.q[1]), self.size))
        back = f.at(self.scores, f.sub("0", f.mul(column, self.size)))
        extents = (count, a["columns"], a["depth"])
        right = (self.right, self.k[2], self.k[1])
        self.multiply(
            (q, self.q[1], self.q[2]), right, (back, stride), extents,
            packed=self.flag, part=(column, last),
        )  # fmt: skip
        later = "true" if self.form.is_blocked else f.is_("ne", column, "0")
        with f.loop("0", count) as r:
            scores = f.at(self.scores, f.mul(r, self.row_bytes))
            shown = self.shown(f.add(row, r), column, last)
            out = f.at(result.sums, f.mul(f.mul(r, result.row), self.size))
            self.line(scores, r, f.add(row, r), column, shown, last, later, out)
        v = f.at(self.v[0], f.mul(f.mul(column, self.v[1]), self.size))
        depth = f.sub(last, column)
        accumulate = f.select(later, "1", "0")
        self.multiply(
            (self.scores, stride, "1"), (v, self.v[1], self.v[2]), (result.sums, result.row),
            (count, a["width"], depth), accumulate,
        )  # fmt: skip

    def line(
        self, scores: str, r: str, row: str, column: str, shown: str, last: str, later: str,
        out: str,
    ) -> None:  # fmt: skip
        """Turn a row of scores into weights whose sum is not 1 yet."""
        f, shape, wide = self.f, self.shape, self.form.wide
        lanes, low = str(shape.lanes), self.builder().number(float("-inf"), wide)
        context = self.row_context(self.i, self.j, row)
        with f.turns(column, shown, lanes) as loop:
            top = loop.carry(shape.vector, low.name)
            b = self.builder(lane_mask(f, shape.lanes, f.sub(shown, loop.index)))
            place = f.at(scores, f.mul(f.sub(loop.index, column), self.size))
            x, _ = self.score(b, b.load(place, wide), context, loop.index)
            b.store(x, place)
            assert b.mask is not None
            x = b.select(SsaValue(b.mask, dtypes.bool_), x, low)
            above = f.let(f"fcmp ogt {shape.vector} {x.name}, {top}")
            kinds = f"<{lanes} x i1> {above}, {shape.vector} {x.name}, {shape.vector} {top}"
            loop.become(top, f.let(f"select {kinds}"))
        element, at = shape.element, f.mul(r, self.size)
        best = f.let(
            f"call {element} @llvm.vector.reduce.fmax.{shape.suffix}({shape.vector} {top})"
        )
        before = f.load(element, f.at(self.tops, at), shape.size)
        more = f.let(f"fcmp ogt {element} {best}, {before}")
        best = f.select(more, best, before, element)
        f.store(element, best, f.at(self.tops, at), shape.size)
        none = f.let(f"fcmp oeq {element} {best}, 0xFFF0000000000000")
        safe = f.select(none, "0.0", best, element)
        with f.turns(column, shown, lanes) as loop:
            total = loop.carry(shape.vector, "zeroinitializer")
            b = self.builder(lane_mask(f, shape.lanes, f.sub(shown, loop.index)))
            place = f.at(scores, f.mul(f.sub(loop.index, column), self.size))
            x = b.function("exp", b.sub(b.load(place, wide), b.spread(safe, wide)))
            assert b.mask is not None
            x = b.select(SsaValue(b.mask, dtypes.bool_), x, b.number(0, wide))
            loop.become(total, b.add(SsaValue(total, wide), x).name)
            if self.form.drops:
                x = b.mul(x, self.factors(b, self.entry_, row, loop.index))
            b.store(x, place)
        self.clear(f.at(scores, f.mul(f.sub(shown, column), self.size)), f.sub(last, shown))
        row_sum = f.let(
            f"call reassoc {element} @llvm.vector.reduce.fadd.{shape.suffix}"
            f"({element} 0.0, {shape.vector} {total})"
        )
        sums = f.at(self.sums, at)
        old = f.load(element, sums)
        f.store(element, row_sum, sums)
        with f.when(later):  # sums of earlier blocks are relative to their largest score
            one = VectorBuilder(f, self.module, 1, self.target)
            shrink = one.function("exp", one.sub(SsaValue(before, wide), SsaValue(safe, wide))).name
            corrected = f.let(f"fmul {element} {old}, {shrink}")
            f.store(element, f.let(f"fadd {element} {row_sum}, {corrected}"), sums)
            with f.when(f.let(f"fcmp une {element} {shrink}, 1.0")):
                self.scale(out, shrink)

    def scale(self, place: str, factor: str) -> None:
        """Multiply a row of the output by a factor."""
        f, width = self.f, self.a["width"]
        with f.loop("0", width, str(self.shape.lanes)) as c:
            b = self.builder(lane_mask(f, self.shape.lanes, f.sub(width, c)))
            here = f.at(place, f.mul(c, self.size))
            x = b.mul(b.load(here, self.form.wide), b.spread(factor, self.form.wide))
            b.store(x, here)

    def close(self, count: str, totals: str) -> None:
        """Store the logarithms of the rows' totals, and replace each sum by its reciprocal.

        count: the number of rows
        totals: the address of the logarithms
        """
        f, wide = self.f, self.form.wide
        with f.loop("0", count, str(self.shape.lanes)) as r:
            b = self.builder(lane_mask(f, self.shape.lanes, f.sub(count, r)))
            at = f.mul(r, self.size)
            sums, top = (b.load(f.at(x, at), wide) for x in (self.sums, self.tops))
            none = b.eq(sums, b.number(0, wide))
            log = b.select(none, b.number(float("inf"), wide), b.add(b.function("log", sums), top))
            b.store(log, f.at(totals, at))
            one = b.number(1, wide)
            b.store(b.div(one, b.select(none, one, sums)), f.at(self.sums, at))


def attend_text(form: AttentionVariant) -> AttentionText:
    """Return the text of the module with `attend` for a form of attention."""
    return _Forward(form).write()
