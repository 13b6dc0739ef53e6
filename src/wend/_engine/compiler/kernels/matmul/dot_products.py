"""Products of few rows with a right operand whose columns lie along the depth: dot products.

Packing would cost more than the product. For example, these dot products compute a linear layer for
a single example, if the layer's weight, (columns, depth), is not packed.

    void dots(left, left_row, right, right_column, depth, first_row, last_row, first_column,
              last_column, out, out_row, out_column, accumulate, epilogue, state, at0, at1, tile)

Strides are in bytes, `accumulate` is an i1, `tile` is room for FEW_ROWS rows of sums.
"""

from __future__ import annotations

from wend._engine.base.records import Record
from wend._engine.compiler.kernels.matmul.choice import FEW_ROWS, ProductChoice, ProductSite
from wend._engine.compiler.kernels.matmul.macrokernel import has_narrow_panels, panel_capacity
from wend._engine.compiler.kernels.matmul.microkernel import (
    TileConfig,
    call_epilogue,
    lane_mask,
    parameters,
)
from wend._engine.compiler.kernels.matmul.operands import Matrix
from wend._engine.compiler.kernels.matmul.packing import ElementReader, shuffled
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.integers import Bool, every
from wend._engine.compiler.llvm_ir.variants import Variant, variant

# With a vector of columns and fewer steps, adding up lanes costs more than tiles.
_STEPS = 12
# For rows side by side that are transposed for dot products: the least steps for each row, and the
# most rows where tiles are narrow.
# measured: command not recorded, 2026-11-24, 4x1346x4 tt 1.3 times as fast with AVX2
_TURNED_STEPS, _TURNED_ROWS = 16, 4
# The most rows and columns at once.
_HEIGHT, _WIDTH = 4, 8

_PARAMETERS = (
    "left left_row right right_column depth first_row last_row first_column last_column "
    "out out_row out_column accumulate epilogue state at0 at1 tile"
)


@variant("product")
class DotProducts(Variant):
    """Up to 11 rows; the right operand lies along the depth; not many columns of few steps."""

    @staticmethod
    def applies(p: ProductChoice) -> Bool:
        """Whether each sum is a dot product of a row and a column."""
        condition = p.right_along & (p.rows <= FEW_ROWS)
        condition = condition & (p.left_along | _turnable(p))
        _ = p.both_along  # computed here: the order of instructions is a part of the code's key
        return condition & ~((p.depth < _STEPS) & (p.columns >= p.shape.lanes))

    @staticmethod
    def emit(site: ProductSite) -> None:
        """Write the call of `dots`."""
        lines, right, a = _rows_along(site), site.right, site.a
        site.f.line(
            f"call void @dots(ptr {lines.base}, i64 {lines.line}, ptr {right.base}, "
            f"i64 {right.line}, i64 {a['depth']}, {site.part}, i64 {site.p.shape.size}, "
            f"{site.handing}, ptr {site.room.tile})"
        )


def _turnable(p: ProductChoice) -> Bool:
    """Whether few rows that lie side by side are transposed for dot products."""
    if p.widened:
        return p.never
    shape = p.shape
    conditions = [
        p.left_row == shape.size,
        p.depth <= panel_capacity(shape) // FEW_ROWS - shape.lanes,
        # With fewer steps, adding up lanes costs too much; narrow tiles do more rows as fast.
        p.depth >= p.rows * _TURNED_STEPS,
        p.rows <= (_TURNED_ROWS if has_narrow_panels(shape) else FEW_ROWS),
    ]
    return every(conditions)


def _rows_along(site: ProductSite) -> Matrix:
    """Return the left operand with its steps side by side: in place, or transposed in `room`."""
    f, p, a, left = site.f, site.p, site.a, site.left
    shape, room, stands = p.shape, site.room.panels, p.left_along
    size = str(shape.size)
    width = f.mul(f.ceil_div(a["depth"], shape.lanes), str(shape.lanes))
    line = f.mul(width, size)
    with f.when(~stands):
        first = f.at(left.base, f.mul(a["first_row"], left.line))
        f.line(
            f"call void @pack_right(ptr {first}, i64 {left.line}, i64 {left.step}, i64 {p.rows}, "
            f"i64 {a['depth']}, i64 {width}, ptr {room})"
        )
    base = f.at(room, f.sub("0", f.mul(a["first_row"], line)))
    return Matrix(f.select(stands, left.base, base, "ptr"), f.select(stands, left.line, line), size)


def dots(shape: TileConfig, dtype: str) -> str:
    """The text of the function `dots`."""
    f = Routine("dots", parameters(_PARAMETERS), internal=True)
    handed = f.is_("ne", "%epilogue", "null", "ptr")
    most = _HEIGHT * _WIDTH // shape.lanes + 1
    f.line(f"%sums = alloca [{most} x {shape.vector}], align {shape.bytes}")
    rows = f.sub("%last_row", "%first_row")
    tile_row = str(shape.panel * shape.size)
    into_row = f.select(handed, tile_row, "%out_row")
    into_column = f.select(handed, str(shape.size), "%out_column")
    blocks = f.ceil_div(rows, _HEIGHT)
    with f.loop("%first_column", "%last_column", str(shape.panel)) as first:
        count = f.minimum(f.sub("%last_column", first), str(shape.panel))
        offset = f.mul(first, "%out_column")
        with f.loop("0", blocks) as block:
            top = f.div(f.mul(rows, block), blocks)
            height = f.sub(f.div(f.mul(rows, f.add(block, "1")), blocks), top)
            row = f.add("%first_row", top)
            left = f.at("%left", f.mul(row, "%left_row"))
            out = f.at(f.at("%out", f.mul(row, "%out_row")), offset)
            into = f.select(handed, f.at("%tile", f.mul(top, tile_row)), out, "ptr")
            for h in range(1, _HEIGHT + 1):
                with f.when(f.is_("eq", height, str(h))):
                    goal = into, into_row, into_column
                    part = _Block(f, shape, ElementReader(shape, dtype), h, left, out, *goal)
                    part.write(first, count)
        with f.when(handed):
            there = (rows, count), ("%first_row", first), ("%at0", "%at1")
            call_epilogue(f, "%epilogue", "%tile", *there, "%state")
    return f.text()


class _Block(Record):
    """A block of rows, times all columns of a panel.

    height: the rows of the block
    left: the address of the first row
    out: the address of the sums to add to
    into, into_row, into_column: the address and the strides of the goal
    """

    f: Routine
    shape: TileConfig
    source: ElementReader
    height: int
    left: str
    out: str
    into: str
    into_row: str
    into_column: str

    def write(self, first: str, count: str) -> None:
        """Write the loop over columns. The sums of the columns at a time fill the registers.

        first, count: the first column, and the number of columns
        """
        f, shape = self.f, self.shape
        wide = min(_WIDTH, shape.rows * shape.vectors // self.height)
        with f.loop("0", count, str(wide)) as column:
            sums = self._sums(f.add(first, column), wide)
            where = self._added_up(sums)
            for i in range(wide):
                place = f.add(column, str(i))
                with f.when(f.is_("slt", place, count)):
                    for row in range(self.height):
                        x = f.load(shape.element, where[i * self.height + row], shape.size)
                        self._put(x, row, place)

    def _sums(self, first: str, wide: int) -> list[str]:
        """Return vectors of sums, column by column. The last column replaces missing ones."""
        f, shape, source = self.f, self.shape, self.source
        lanes, kind = shape.lanes, shape.vector
        last = f.sub("%last_column", "1")
        columns = [
            f.at("%right", f.mul(f.minimum(f.add(first, str(i)), last), "%right_column"))
            for i in range(wide)
        ]
        lines = [f.at(self.left, f.mul("%left_row", str(row))) for row in range(self.height)]
        whole = f.mul(f.div("%depth", str(lanes)), str(lanes))
        rest = lane_mask(f, lanes, f.sub("%depth", whole))
        sums = ["zeroinitializer"] * (wide * self.height)
        for start, stop, mask in (("0", whole, None), (whole, "%depth", rest)):
            with f.turns(start, stop, str(lanes)) as loop:
                now = [loop.carry(kind, x) for x in sums]
                offset = f.mul(loop.index, str(source.size))
                rows = [source.vector(f, f.at(line, offset), mask) for line in lines]
                for i, column in enumerate(columns):
                    y = source.vector(f, f.at(column, offset), mask)
                    for row, x in enumerate(rows):
                        total = now[i * self.height + row]
                        new = (
                            f"call {kind} @llvm.fmuladd.{shape.suffix}"
                            f"({kind} {x}, {kind} {y}, {kind} {total})"
                        )
                        loop.become(total, f.let(new))
            sums = now
        return sums

    def _added_up(self, sums: list[str]) -> list[str]:
        """Add up the lanes of each vector, and return the address of each total.

        In each round, the halves of two vectors are added, which gives a single vector for both.
        """
        f, shape = self.f, self.shape
        lanes, kind = shape.lanes, shape.vector
        owners: list[list[int]] = [[i] for i in range(len(sums))]
        half = lanes // 2
        while half:
            groups = range(lanes // half // 2)
            # Halves of 16 bytes or more stay in order, for cheap shuffles; smaller ones alternate.
            pairs = [(w, g) for w in range(2) for g in groups]
            if half * shape.size < 16:
                pairs = [(w, g) for g in groups for w in range(2)]
            lower = [w * lanes + g * 2 * half + k for w, g in pairs for k in range(half)]
            upper = [lane + half for lane in lower]
            pair_sums, whose = [], []
            for i in range(0, len(sums), 2):
                j = min(i + 1, len(sums) - 1)
                x, y = (shuffled(f, shape, sums[i], sums[j], m, lanes) for m in (lower, upper))
                pair_sums.append(f.let(f"fadd {kind} {x}, {y}"))
                whose.append([owners[j if w else i][g] for w, g in pairs])
            sums, owners, half = pair_sums, whose, half // 2
        places: dict[int, str] = {}
        for i, (x, listed) in enumerate(zip(sums, owners, strict=True)):
            room = f.at("%sums", i * shape.bytes)
            f.store(kind, x, room, shape.size)
            places |= {n: f.at(room, k * shape.size) for k, n in enumerate(listed)}
        return [places[n] for n in sorted(places)]

    def _put(self, x: str, row: int, place: str) -> None:
        """Store a sum, or add it to the sum in memory if `%accumulate`."""
        f, element, size = self.f, self.shape.element, self.shape.size
        to = f.at(self.into, f.mul(self.into_row, str(row)))
        to = f.at(to, f.mul(place, self.into_column))
        with f.when("%accumulate"):
            before = f.at(self.out, f.mul("%out_row", str(row)))
            before = f.at(before, f.mul(place, "%out_column"))
            y = f.let(f"fadd {element} {x}, {f.load(element, before, size)}")
            f.store(element, y, to, size)
        with f.when(f.let("xor i1 %accumulate, true")):
            f.store(element, x, to, size)
