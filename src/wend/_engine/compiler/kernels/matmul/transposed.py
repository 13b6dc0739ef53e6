"""Products whose operands both lie along the depth, computed as the transpose of the product.

In left @ right, where right lies as a linear layer's weight does, the whole right operand would
have to be packed for every product. The transpose, right.T @ left.T, reads the weight in place, and
packs the left operand, which often is much smaller. Finished tiles are transposed ("turned").

    void turned(left, left_row, left_step, right, right_column, right_step, depth, first_row,
                last_row, first_column, last_column, out, out_row, accumulate, epilogue, state,
                at0, at1, scratch)

Strides are in bytes, `accumulate` is an i1, the depth is at most a block's.

Products of few columns would fill only a part of a tile. Such products are transposed too, if the
rows of their left operand lie side by side. If these rows lie along the depth, such products are
dot products (`small_n`).
"""

from __future__ import annotations

from wend._engine.base.records import Record
from wend._engine.compiler.kernels.matmul.choice import ProductChoice, ProductSite
from wend._engine.compiler.kernels.matmul.gemv import streams
from wend._engine.compiler.kernels.matmul.macrokernel import (
    DEPTH,
    LARGE,
    Multiply,
    Scratch,
    direct_rows,
    panel_capacity,
)
from wend._engine.compiler.kernels.matmul.microkernel import (
    EPILOGUE,
    TileConfig,
    call_epilogue,
    lane_mask,
    parameters,
)
from wend._engine.compiler.kernels.matmul.operands import Matrix, Operands
from wend._engine.compiler.kernels.matmul.packing import transposed
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.integers import Bool, Int
from wend._engine.compiler.llvm_ir.masks import store_counted, store_lanes
from wend._engine.compiler.llvm_ir.variants import Variant, variant

_PARAMETERS = (
    "left left_row left_step right right_column right_step depth first_row last_row "
    "first_column last_column out out_row accumulate epilogue state at0 at1 scratch"
)


@variant("product", after="DotProducts")
class Transposed(Variant):
    """More columns than rows, both along the depth; both operands transposed; or few columns."""

    @staticmethod
    def applies(p: ProductChoice) -> Bool:
        """Whether the transpose is computed, and its tiles are transposed."""
        return p.turned if p.widened else p.turned & ~p.of_few_steps

    @staticmethod
    def emit(site: ProductSite) -> None:
        """Write the calls of `turned`, a call for each block of depth."""
        f, p, a, left, few = site.f, site.p, site.a, site.left, site.p.few_columns
        blocks = f.ceil_div(a["depth"], DEPTH)
        blocks = f.select(f.is_("eq", blocks, "0"), "1", blocks)
        with f.loop("0", blocks) as index:
            onward = f.add(index, "1")
            start = f.div(f.mul(a["depth"], index), blocks)
            steps = f.sub(f.div(f.mul(a["depth"], onward), blocks), start)
            x, y = f.mul(start, left.step), f.mul(start, few.step)
            closing = f.is_("eq", onward, blocks)
            more = f.either(str(p.accumulate), f.is_("ne", index, "0"))
            f.line(
                f"call void @turned(ptr {f.at(left.base, x)}, i64 {left.line}, "
                f"i64 {left.step}, ptr {f.at(site.right.base, y)}, i64 {few.line}, "
                f"i64 {few.step}, i64 {steps}, {site.part}, i1 {more}, "
                f"ptr {f.select(closing, a['epilogue'], 'null', 'ptr')}, {site.told_words}, "
                f"ptr {a['scratch']})"
            )


def turned(shape: TileConfig, dtype: str) -> str:
    """The text of the function `turned`."""
    f = Routine("turned", parameters(_PARAMETERS), internal=True)
    size = str(shape.size)
    room = Scratch.of(f, shape, "%scratch")
    state = f.let("alloca [6 x i64], align 8")
    words = [
        ("ptr", "%out"),
        ("i64", "%out_row"),
        ("i64", f.let("zext i1 %accumulate to i64")),
        ("ptr", "%epilogue"),
        ("ptr", "%state"),
        ("ptr", f.at(room.tile, shape.rows * shape.panel * shape.size)),
    ]
    for i, (kind, word) in enumerate(words):
        f.store(kind, word, f.at(state, 8 * i), 8)
    left = Matrix("%right", "%right_column", "%right_step")
    right = Matrix("%left", "%left_row", "%left_step")
    count = f.sub("%last_column", "%first_column")
    large = f.is_("sge", f.mul("%depth", "%left_step"), str(LARGE))
    most = str(direct_rows(shape, False))
    few = f.is_("sle", count, f.select(large, f.minimum(str(shape.panel), most), most))
    few = f.both(few, f.is_("eq", "%left_row", size))  # side by side: they are read in place
    operands = Operands(f, shape, dtype, room, left, right, "%last_row", few)
    # The whole depth is a single block, for as many columns as there is room.
    each = f.select(f.is_("eq", "%depth", "0"), "1", "%depth")
    columns = f.sub(f.div(str(panel_capacity(shape)), each), str(shape.lanes))
    chunk = f.mul(f.div(columns, str(shape.panel)), str(shape.panel))
    # A chunk of a single panel lets the second operand be read in place.
    chunk = f.select(f.is_("eq", "%right_step", size), chunk, str(shape.panel))
    rows = f.sub("%last_row", "%first_row")
    extents = (Int(x, f) for x in (count, rows, "%depth", right.step))
    streamed = f.both(few, str(streams(shape, *extents)))
    with f.when(streamed):
        f.line(
            f"call void @streamed(ptr {left.base}, i64 {left.line}, i64 {left.step}, "
            f"ptr {right.base}, i64 {right.step}, i64 %depth, i64 %first_column, "
            "i64 %last_column, i64 %first_row, i64 %last_row, ptr null, i64 0, i1 false, "
            f"ptr @turn_tile, ptr {state}, i64 %at0, i64 %at1, ptr %scratch)"
        )
    f.leave_when(streamed)
    Multiply(
        f,
        shape,
        right=operands.panels,
        left=operands.left_rows,
        room=room,
        part_rows=("%first_column", "%last_column"),
        part_columns=("%first_row", "%last_row"),
        columns="%last_row",
        depth="%depth",
        out="null",
        out_row="0",
        accumulate="false",
        epilogue="@turn_tile",
        state=state,
        place=("%at0", "%at1"),
        chunk=chunk,
        whole=True,
    ).write()
    return f.text()


def turn_tile(shape: TileConfig) -> str:
    """The text of `turn_tile`, the epilogue that transposes a tile, then stores it or hands it on.

    The words of its state are, in order: the result's address; the bytes between the result's rows;
    whether to add to the result; the epilogue, or null; that epilogue's state; room for a tile.
    """
    f = Routine("turn_tile", EPILOGUE, internal=True)
    f.leave_when(f.is_("eq", "%tile", "null", "ptr"))
    kinds = ("ptr", "i64", "i64", "ptr", "ptr", "ptr")
    out, out_row, accumulate, epilogue, state, tile = (
        f.load(kind, f.at("%state", 8 * i), 8) for i, kind in enumerate(kinds)
    )
    line = str(shape.panel * shape.size)
    handed = f.is_("ne", epilogue, "null", "ptr")
    place = f.add(f.mul("%column", out_row), f.mul("%row", str(shape.size)))
    place = f.at(out, place)
    to = f.select(handed, tile, place, "ptr")
    to_row = f.select(handed, line, out_row)
    more = f.is_("ne", accumulate, "0")
    block = min(shape.lanes, 8)
    for first in range(0, shape.rows, block):
        with f.when(f.is_("sgt", "%rows", str(first))):
            _turn(f, shape, block, first, (place, out_row), (to, to_row), more)
    with f.when(handed):
        there = ("%columns", "%rows"), ("%column", "%row"), ("%batch0", "%batch1")
        call_epilogue(f, epilogue, tile, *there, state)
    return f.text()


def _turn(
    f: Routine,
    shape: TileConfig,
    block: int,
    first: int,
    before: tuple[str, str],
    to: tuple[str, str],
    more: str,
) -> None:
    """Transpose `block` rows of the tile, from row `first` on.

    before: the address and the stride of the sums that are added if `more`
    to: the address and the stride of the goal
    """
    line = str(shape.panel * shape.size)
    count = f.sub("%rows", str(first))
    mask = lane_mask(f, block, count)
    turn = _Turn(f, shape, block, first, before, to, more, count, mask)
    last = f.sub("%rows", "1")
    sources = [f.at("%tile", f.mul(f.minimum(str(first + i), last), line)) for i in range(block)]
    with f.loop("0", "%columns", str(block)) as column:
        offset = f.mul(column, str(shape.size))
        rows = [f.load(turn.kind, f.at(source, offset), shape.size) for source in sources]
        columns = transposed(f, shape, rows)
        few = "true"
        if not shape.masks:  # a whole block is stored in pieces of equal size
            few = f.is_("sgt", f.add(column, str(block)), "%columns")
            with f.when(f.let(f"xor i1 {few}, true")):
                turn.put(columns, column)
        with f.when(few):
            for i, x in enumerate(columns):
                row = f.add(column, str(i))
                with f.when(f.is_("slt", row, "%columns")):
                    turn.put([x], row)


class _Turn(Record):
    """The goal of some turned rows, see `_turn`.

    count, mask: the number of elements in a turned row, and the mask of its lanes
    """

    f: Routine
    shape: TileConfig
    block: int
    first: int
    before: tuple[str, str]
    to: tuple[str, str]
    more: str
    count: str
    mask: str

    @property
    def kind(self) -> str:
        """LLVM's name of the type of a turned row."""
        return f"<{self.block} x {self.shape.element}>"

    def put(self, values: list[str], row: str) -> None:
        """Store neighbouring rows, the first of which is `row`."""
        f, size = self.f, self.shape.size
        old, new = (
            [
                f.at(f.at(pointer, f.mul(f.add(row, str(i)), stride)), self.first * size)
                for i in range(len(values))
            ]
            for pointer, stride in (self.before, self.to)
        )
        # Without `more` nothing is read: a load would wait for the stores of the row before.
        with f.when(self.more):
            added = [
                f.let(
                    f"call {self.kind} @llvm.masked.load.v{self.block}f{8 * size}.p0(ptr {place}, "
                    f"i32 {size}, <{self.block} x i1> {self.mask}, {self.kind} zeroinitializer)"
                )
                for place in old
            ]
            pairs = zip(values, added, strict=True)
            self._store([f.let(f"fadd {self.kind} {x}, {y}") for x, y in pairs], new)
        with f.when(f.let(f"xor i1 {self.more}, true")):
            self._store(values, new)

    def _store(self, values: list[str], places: list[str]) -> None:
        f, shape, block = self.f, self.shape, self.block
        if shape.masks:
            for x, place in zip(values, places, strict=True):
                store_lanes(f, shape.element, block, x, (place, shape.size), self.mask, True)
            return
        store_counted(f, shape.element, block, values, places, shape.size, self.count)
