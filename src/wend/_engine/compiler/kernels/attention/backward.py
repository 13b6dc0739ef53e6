"""The gradient of attention, block by block: see `attention.attention`.

    void attend_backward(ptr args)      words: ATTEND_BACKWARD

Weights are computed again from the totals. A block of rows and a block of keys need five products:
the scores, the gradient of the weights, and the block's contributions to dq, dk and dv.
"""

from __future__ import annotations

from wend._engine.compiler.kernels.attention.attention import (
    BLOCK_ROWS,
    NUMBERS,
    PLAIN_ROWS,
    SIZES,
    AttentionText,
    AttentionVariant,
    Writer,
    row_elements,
    strides_of,
)
from wend._engine.compiler.kernels.matmul.microkernel import lane_mask

_POINTERS = "query key value grad mask total delta dq dk dv"
ATTEND_BACKWARD = (
    f"{_POINTERS} {SIZES} {strides_of('query key value grad mask total delta dq dk dv')} "
    f"{NUMBERS} scratch"
).split()


class _Backward(Writer):
    def __init__(self, form: AttentionVariant) -> None:
        super().__init__("attend_backward", form, ATTEND_BACKWARD, f"{_POINTERS} scratch")

    def write(self) -> AttentionText:
        """Return the text of the module with `attend_backward`."""
        f, a, shape = self.f, self.a, self.shape
        self.row_bytes = str(row_elements(shape) * shape.size)
        self.weights = self.room(f.mul(self.row_bytes, str(BLOCK_ROWS)))
        self.changes = self.room(f.mul(self.row_bytes, str(BLOCK_ROWS)))
        self.keys_packed = self.room(self.packed_bytes(a["depth"], a["columns"]))
        self.values_packed = self.room(self.packed_bytes(a["width"], a["columns"]))
        rows, columns, depth, width = a["rows"], a["columns"], a["depth"], a["width"]
        self.extents = {
            "query": (rows, depth),
            "key": (columns, depth),
            "value": (columns, width),
            "grad": (rows, width),
            "dq": (rows, depth),
            "dk": (columns, depth),
            "dv": (columns, width),
        }
        self.rooms_ = self.rooms(self.extents)
        self.packs = f.is_("sgt", a["rows"], str(PLAIN_ROWS))
        self.entries(self.entry)
        return self.finish()

    def entry(self, entry: str, i: str, j: str) -> None:
        """Write the code for an entry of the batch."""
        f, a, rooms = self.f, self.a, self.rooms_
        self.entry_, self.i, self.j = entry, i, j
        names = ("query", "key", "value", "grad")
        operands = [self.operand(n, i, j, *self.extents[n], rooms[n]) for n in names]
        self.q, self.k, self.v, self.g = operands
        outs = {}
        for name in ("dq", "dk", "dv"):
            length = self.extents[name][1]
            outs[name] = self.result(name, i, j, "0", length, rooms[name])
            self.clear_rows(outs[name], *self.extents[name])
        self.dq, self.dk, self.dv = (outs[n] for n in ("dq", "dk", "dv"))
        with f.when(self.packs):
            self.pack(self.k, a["depth"], a["columns"], self.keys_packed)
            self.pack(self.v, a["width"], a["columns"], self.values_packed)
        self.right_k = f.select(self.packs, self.keys_packed, self.k[0], "ptr")
        self.right_v = f.select(self.packs, self.values_packed, self.v[0], "ptr")
        self.flag = f.select(self.packs, "1", "0")
        with f.loop("0", a["rows"], str(BLOCK_ROWS)) as row:
            count = f.minimum(f.sub(a["rows"], row), str(BLOCK_ROWS))
            end = self.visible(f.sub(f.add(row, count), "1"))
            self.key_blocks((row, count), end, lambda c, last: self.blocks(row, count, c, last))
        if self.narrow:
            for name, result in outs.items():
                self.write_narrow(result, *self.extents[name])

    def moved(self, matrix: tuple[str, str, str], rows: str) -> str:
        """The address of row number `rows` of a matrix."""
        return self.f.at(matrix[0], self.f.mul(self.f.mul(rows, matrix[1]), self.size))

    def blocks(self, row: str, count: str, column: str, last: str) -> None:
        """Write the code for a block of rows and a block of keys."""
        f, a = self.f, self.a
        stride = str(row_elements(self.shape))
        back = f.sub("0", f.mul(column, self.size))
        for left, right, turned, depth, out in (
            (self.q, self.right_k, self.k, a["depth"], self.weights),
            (self.g, self.right_v, self.v, a["width"], self.changes),
        ):
            self.multiply(
                (self.moved(left, row), left[1], left[2]), (right, turned[2], turned[1]),
                (f.at(out, back), stride), (count, a["columns"], depth),
                packed=self.flag, part=(column, last),
            )  # fmt: skip
        with f.loop("0", count) as r:
            self.line(f.mul(r, self.row_bytes), f.add(row, r), column, last)
        keys = f.sub(last, column)
        for block, matrix, length, result in (
            (self.weights, self.g, a["width"], self.dv),
            (self.changes, self.q, a["depth"], self.dk),
        ):
            place = f.at(result.sums, f.mul(f.mul(column, result.row), self.size))
            self.multiply(
                (block, "1", stride), (self.moved(matrix, row), matrix[1], matrix[2]),
                (place, result.row), (keys, length, count), "1",
            )  # fmt: skip
        self.multiply(
            (self.changes, stride, "1"), (self.moved(self.k, column), self.k[1], self.k[2]),
            (f.at(self.dq.sums, f.mul(f.mul(row, self.dq.row), self.size)), self.dq.row),
            (count, a["depth"], keys), "1",
        )  # fmt: skip

    def of_row(self, name: str, row: str) -> str:
        """Load an element of the statistics of a row. name: total or delta"""
        f, a = self.f, self.a
        place = f.add(f.mul(self.i, a[name + "0"]), f.mul(self.j, a[name + "1"]))
        place = f.add(place, f.mul(row, a[name + "_row"]))
        return f.load(self.shape.element, f.at(a[name], f.mul(place, self.size)), self.shape.size)

    def line(self, offset: str, row: str, column: str, last: str) -> None:
        """Turn a row of scores into weights, and of the weights' gradient into the scores'."""
        f, wide = self.f, self.form.wide
        weights, changes = f.at(self.weights, offset), f.at(self.changes, offset)
        shown = self.shown(row, column, last)
        context = self.row_context(self.i, self.j, row, with_slope=True)
        total, delta = self.of_row("total", row), self.of_row("delta", row)
        with f.loop(column, shown, str(self.shape.lanes)) as c:
            b = self.builder(lane_mask(f, self.shape.lanes, f.sub(shown, c)))
            at = f.mul(f.sub(c, column), self.size)
            x, slope = self.score(b, b.load(f.at(weights, at), wide), context, c, with_slope=True)
            p = b.function("exp", b.sub(x, b.spread(total, wide)))
            change, kept = b.load(f.at(changes, at), wide), p
            if self.form.drops:
                factors = self.factors(b, self.entry_, row, c)
                change, kept = b.mul(change, factors), b.mul(p, factors)
            ds = b.mul(p, b.sub(change, b.spread(delta, wide)))
            if slope is not None:
                # Where the weight is 0 the slope counts for nothing, even if it is no number.
                zero = b.number(0, wide)
                ds = b.select(b.eq(p, zero), zero, b.mul(ds, slope))
            b.store(kept, f.at(weights, at))
            b.store(b.mul(ds, b.spread(self.a["scale"], wide)), f.at(changes, at))
        rest, at = f.sub(last, shown), f.mul(f.sub(shown, column), self.size)
        self.clear(f.at(weights, at), rest)
        self.clear(f.at(changes, at), rest)


def backward_text(form: AttentionVariant) -> AttentionText:
    """Return the text of the module with `attend_backward` for a form of attention."""
    return _Backward(form).write()
