"""Products of few steps of depth: each row of the result is written once, from end to end.

Setting up and storing a tile would take as long as computing the tile. Here elements of a few rows
of the left operand stay in registers, while rows of the right operand are read from the first-level
cache.

    void outer(left, left_row, left_step, right, right_step, depth, first_row, last_row,
               first_column, last_column, out, out_row)

The right operand's columns lie side by side. Strides are in bytes.

    void upright(left, left_step, right, right_step, right_column, depth, columns, first_row,
                 last_row, out, out_row)

For products of few columns as well, if the left operand's rows lie side by side. A vector has some
rows of a column; columns are transposed in registers.

    void held(left, left_row, left_step, right, right_step, depth, first_row, last_row,
              first_column, last_column, out, out_row)

For a few more steps than `outer`: registers hold a part of the right operand, and multiply it with
all rows of the left operand.
"""

from __future__ import annotations

from collections.abc import Sequence

from wend._engine.compiler.kernels.matmul.choice import ProductChoice, ProductSite
from wend._engine.compiler.kernels.matmul.microkernel import (
    TileConfig,
    lane_mask,
    masked_load,
    masked_store,
    parameters,
    spread,
)
from wend._engine.compiler.kernels.matmul.operands import Matrix, pack_panel
from wend._engine.compiler.kernels.matmul.packing import transposed
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.integers import Bool
from wend._engine.compiler.llvm_ir.masks import store_first
from wend._engine.compiler.llvm_ir.variants import Variant, variant

#: The most steps for `outer`.
# measured: command not recorded, 2026-11-23, half of the time of tiles
STEPS = 6
#: The least vectors of a long row.
LONG = 4
#: The bytes of the right operand that stay in the first-level cache.
NEAR = 1 << 14
#: The numbers of steps for `held`, and the registers of 32 that hold the right operand.
# measured: command not recorded, 2026-11-24, 1024x8x48 nn 1.8 times as fast with AVX-512
HELD, REGISTERS = range(7, 13), 24
#: The rows of a block, where the rows of the result are written a part at a time.
ROWS = 16
#: The most columns and steps for `upright`: with more steps, sums would wait for earlier sums.
# measured: 2026-11-26, 128x1x4 tn of actor-critic programs takes a sixth of the time: decision 020
COLUMNS, DEPTH = 4, 24

_PARAMETERS = (
    "left left_row left_step right right_step depth first_row last_row first_column last_column "
    "out out_row"
)
_UPRIGHT = (
    "left left_step right right_step right_column depth columns first_row last_row out out_row"
)


@variant("product", after="Transposed")
class Outer(Variant):
    """Up to 6 steps; the right operand's columns lie side by side; sums go straight to memory."""

    @staticmethod
    def applies(p: ProductChoice) -> Bool:
        """Whether a few rows at a time are written from end to end."""
        if p.widened:
            return p.never
        beside, plain = p.beside, p.plain
        few = (p.depth >= 1) & (p.depth <= STEPS)
        return few & (p.part_columns >= p.shape.lanes) & (beside & plain)

    @staticmethod
    def emit(site: ProductSite) -> None:
        """Write the call of `outer`."""
        left, right = site.left, site.right
        site.f.line(
            f"call void @outer(ptr {left.base}, i64 {left.line}, i64 {left.step}, "
            f"ptr {right.base}, i64 {right.step}, i64 {site.a['depth']}, {site.part})"
        )


@variant("product", after="Outer")
class Held(Variant):
    """7 to 12 steps with 32 registers; a vector of rows or more; sums go straight to memory."""

    @staticmethod
    def exists(p: ProductChoice) -> bool:
        """Whether the processor has 32 registers, and elements are not widened."""
        return p.shape.rows == 8 and not p.widened

    @staticmethod
    def applies(p: ProductChoice) -> Bool:
        """Whether registers hold the right operand while all rows go by."""
        panel = (p.right_step == p.size) & ~p.packed
        panel = panel & (p.columns <= p.shape.panel)
        if not Held.exists(p):
            return p.never
        condition = (p.depth >= HELD[0]) & (p.depth <= HELD[-1]) & (p.rows >= p.shape.lanes)
        condition = condition & ((p.beside | panel) & p.plain)
        return condition & ~(p.takes("DotProducts") | p.short)

    @staticmethod
    def emit(site: ProductSite) -> None:
        """Write the call of `held`."""
        left, matrix = site.left, _columns_beside(site)
        site.f.line(
            f"call void @held(ptr {left.base}, i64 {left.line}, i64 {left.step}, "
            f"ptr {matrix.base}, i64 {matrix.step}, i64 {site.a['depth']}, {site.part})"
        )


@variant("product", after="Held")
class Upright(Variant):
    """Up to 4 columns and 24 steps; the left operand's rows lie side by side, a vector or more."""

    @staticmethod
    def applies(p: ProductChoice) -> Bool:
        """Whether vectors of rows are multiplied, and columns are transposed in registers."""
        if p.widened:
            return p.never
        few = (p.depth >= 1) & (p.depth <= DEPTH)
        columns = (p.part_columns >= 1) & (p.part_columns <= _square(p.shape))
        condition = few & columns & (p.rows >= p.shape.lanes) & p.plain
        condition = condition & (p.left_row == p.size)
        return condition & ~(p.takes("DotProducts") | p.takes("Outer"))

    @staticmethod
    def emit(site: ProductSite) -> None:
        """Write the call of `upright`."""
        f, p, a, few = site.f, site.p, site.a, site.p.few_columns
        place = f.mul(a["first_column"], few.line)
        goal = f.at(site.out, f.mul(a["first_column"], str(p.shape.size)))
        f.line(
            f"call void @upright(ptr {site.left.base}, i64 {site.left.step}, "
            f"ptr {f.at(site.right.base, place)}, i64 {few.step}, i64 {few.line}, "
            f"i64 {a['depth']}, i64 {p.part_columns}, i64 {a['first_row']}, "
            f"i64 {a['last_row']}, ptr {goal}, i64 {a['out_row']})"
        )


def _columns_beside(site: ProductSite) -> Matrix:
    """Return the right operand with its columns side by side, in place or as a panel in `room`."""
    f, shape, right, room = site.f, site.p.shape, site.right, site.room.panels
    size = str(shape.size)
    stands = f.is_("eq", right.line, size)
    width = str(shape.panel)
    with f.when(f.let(f"xor i1 {stands}, true")):
        extents = site.a["columns"], site.a["depth"], "0", str(shape.vectors)
        pack_panel(f, shape, right, *extents, room)
    step = f.select(stands, right.step, f.mul(width, size))
    return Matrix(f.select(stands, right.base, room, "ptr"), size, step)


def held(shape: TileConfig) -> str:
    """The text of the function `held`, for processors with 32 registers."""
    f = Routine("held", parameters(_PARAMETERS), internal=True)
    for depth in HELD:
        with f.when(f.is_("eq", "%depth", str(depth))):
            lines = [f.at("%right", f.mul("%right_step", str(k))) for k in range(depth)]
            most = min(shape.vectors, REGISTERS // depth)
            # Long rows are written a part at a time, in blocks of ROWS rows.
            wide = f.is_("sgt", f.sub("%last_column", "%first_column"), str(most * shape.lanes))
            each = f.select(wide, str(ROWS), f.sub("%last_row", "%first_row"))
            with (
                f.loop("%first_row", "%last_row", each) as top,
                f.turns("%first_column", "%last_column") as blocks,
            ):
                rows = top, f.minimum(f.add(top, each), "%last_row")
                rest = f.sub("%last_column", blocks.index)
                vectors = f.minimum(f.ceil_div(rest, shape.lanes), str(most))
                blocks.step = f.mul(vectors, str(shape.lanes))
                offset = f.mul(blocks.index, str(shape.size))
                for count in range(1, most + 1):
                    with f.when(f.is_("eq", vectors, str(count))):
                        mask = lane_mask(
                            f, shape.lanes, f.sub(rest, str((count - 1) * shape.lanes))
                        )
                        masks = [None] * (count - 1) + [mask]
                        panel = [f.at(line, offset) for line in lines]
                        _by_panel(f, shape, rows, panel, f.at("%out", offset), masks)
    return f.text()


def _by_panel(
    f: Routine,
    shape: TileConfig,
    rows: tuple[str, str],
    lines: list[str],
    out: str,
    masks: Sequence[str | None],
) -> None:
    """Write the product of some rows and a panel.

    rows: the first row, and one behind the last
    lines: the addresses of the right operand's rows
    out: the address of the panel's first column in the result
    masks: the mask of each vector of the panel, or None
    """
    panel = [
        [masked_load(f, shape, f.at(line, w * shape.bytes), m) for w, m in enumerate(masks)]
        for line in lines
    ]
    with f.loop(*rows) as row:
        left, goal = f.at("%left", f.mul(row, "%left_row")), f.at(out, f.mul(row, "%out_row"))
        sums = ["zeroinitializer"] * len(masks)
        for k, vectors in enumerate(panel):
            place = f.at(left, f.mul("%left_step", str(k)))
            factor = spread(f, shape, f.load(shape.element, place, shape.size))
            sums = [_more(f, shape, factor, y, x) for y, x in zip(vectors, sums, strict=True)]
        for w, (x, mask) in enumerate(zip(sums, masks, strict=True)):
            masked_store(f, shape, x, f.at(goal, w * shape.bytes), mask)


def outer(shape: TileConfig) -> str:
    """The text of the function `outer`."""
    f = Routine("outer", parameters(_PARAMETERS), internal=True)
    for depth in range(1, STEPS + 1):
        with f.when(f.is_("eq", "%depth", str(depth))):
            _steps(f, shape, depth)
    return f.text()


def _steps(f: Routine, shape: TileConfig, depth: int) -> None:
    """Write the product for a known depth, by chunks of columns."""
    most = NEAR // (depth * shape.bytes) * shape.lanes
    height = _height(shape, depth)
    wide = f.is_("sge", f.sub("%last_column", "%first_column"), str(LONG * shape.lanes))
    # Rows of the result that are `apart` rows apart begin at the same offset within a vector.
    lowest = f.let(f"and i64 %out_row, {f.sub('0', '%out_row')}")
    within = f.is_("ult", f.sub(lowest, "1"), str(shape.bytes))
    apart = f.div(str(shape.bytes), f.select(f.both(wide, within), lowest, str(shape.bytes)))
    with f.turns("%first_column", "%last_column") as chunks:
        last = f.add(chunks.index, str(most))
        # No chunk has less than a vector.
        rest = f.is_("slt", f.sub("%last_column", last), str(shape.lanes))
        last = f.select(rest, "%last_column", last)
        columns = chunks.step = f.sub(last, chunks.index)
        first = f.mul(chunks.index, str(shape.size))
        right, out = f.at("%right", first), f.at("%out", first)
        lines = [f.at(right, f.mul("%right_step", str(k))) for k in range(depth)]
        # The second round takes neighbouring rows among the rows left over from the first.
        with f.turns("0", "2") as rounds:
            start = rounds.carry("i64", "%first_row")
            step = f.select(f.is_("eq", rounds.index, "0"), apart, "1")
            block = f.mul(step, str(height))
            # `block` is a power of two, because `step` and `height` are.
            over = f.let(f"and i64 {f.sub('%last_row', start)}, {f.sub(block, '1')}")
            stop = f.sub("%last_row", over)
            with f.loop(start, stop, block) as top, f.loop("0", step) as i:
                _rows(f, shape, lines, out, f.add(top, i), (height, step), columns, wide)
            rounds.become(start, stop)
        with f.loop(start, "%last_row") as row:
            _rows(f, shape, lines, out, row, (1, "1"), columns, wide)


def _height(shape: TileConfig, depth: int) -> int:
    """The number of rows at once: their factors leave registers free for the right operand."""
    few = 2 if shape.rows < 8 else 6
    return 4 if depth <= few else 2


def _rows(
    f: Routine,
    shape: TileConfig,
    lines: list[str],
    out: str,
    row: str,
    more: tuple[int, str],
    columns: str,
    wide: str,
) -> None:
    """Write the loop over vectors of some rows of the result.

    lines: the addresses of the right operand's rows
    row: the first row
    more: the number of rows, and the distance from row to row
    wide: an i1, whether rows are long
    """
    count, apart = more

    def places_of(base: str, line: str) -> list[str]:
        first, step = f.at(base, f.mul(row, line)), f.mul(apart, line)
        return [f.at(first, f.mul(step, str(i))) for i in range(count)]

    lefts, goals = places_of("%left", "%left_row"), places_of(out, "%out_row")
    places = [[f.at(x, f.mul("%left_step", str(k))) for k in range(len(lines))] for x in lefts]
    factors = [
        [spread(f, shape, f.load(shape.element, place, shape.size)) for place in steps]
        for steps in places
    ]

    def vector(offset: str) -> None:
        vectors = [f.load(shape.vector, f.at(line, offset), shape.size) for line in lines]
        for steps, goal in zip(factors, goals, strict=True):
            total = "zeroinitializer"
            for factor, y in zip(steps, vectors, strict=True):
                total = _more(f, shape, factor, y, total)
            f.store(shape.vector, total, f.at(goal, offset), shape.size)

    # The last vector ends with the columns, so some columns are written twice. In long rows some
    # columns of the first vector are too, so that no later vector is stored across cache lines.
    last = f.mul(f.sub(columns, str(shape.lanes)), str(shape.size))
    address = f.let(f"ptrtoint ptr {goals[0]} to i64")
    over = f.let(f"and i64 {f.sub('0', address)}, {shape.bytes - 1}")
    start = f.select(wide, over, "0")
    with f.when(f.is_("ne", start, "0")):
        vector("0")
    with f.loop(start, f.add(last, str(shape.bytes)), str(shape.bytes)) as j:
        vector(f.minimum(j, last))


def _more(f: Routine, shape: TileConfig, factor: str, y: str, total: str) -> str:
    return f.let(
        f"call {shape.vector} @llvm.fmuladd.{shape.suffix}"
        f"({shape.vector} {factor}, {shape.vector} {y}, {shape.vector} {total})"
    )


def upright(shape: TileConfig) -> str:
    """The text of the function `upright`, for few columns."""
    f = Routine("upright", parameters(_UPRIGHT), internal=True)
    # The last rows fill a vector too, so some rows are written twice.
    last = f.sub("%last_row", str(shape.lanes))
    for count in range(1, _square(shape) + 1):
        with (
            f.when(f.is_("eq", "%columns", str(count))),
            f.loop("%first_row", "%last_row", str(shape.lanes)) as row,
        ):
            first = f.minimum(row, last)
            left = f.at("%left", f.mul(first, str(shape.size)))
            with f.turns("0", "%depth") as loop:
                totals = [loop.carry(shape.vector, "zeroinitializer") for _ in range(count)]
                x = f.load(shape.vector, f.at(left, f.mul(loop.index, "%left_step")), shape.size)
                line = f.at("%right", f.mul(loop.index, "%right_step"))
                for j, total in enumerate(totals):
                    place = f.at(line, f.mul("%right_column", str(j)))
                    factor = spread(f, shape, f.load(shape.element, place, shape.size))
                    loop.become(total, _more(f, shape, x, factor, total))
            _put_rows(f, shape, totals, f.at("%out", f.mul(first, "%out_row")))
    return f.text()


def _square(shape: TileConfig) -> int:
    """The number of columns whose vectors are transposed at once."""
    return min(COLUMNS, shape.lanes)


def _put_rows(f: Routine, shape: TileConfig, columns: list[str], goal: str) -> None:
    """Transpose vectors of columns, and store the rows from the address `goal` on."""
    side = _square(shape)
    turned = transposed(f, shape, columns + ["poison"] * (side - len(columns)), shape.lanes)
    # Vector i has rows i, side + i, 2 * side + i, ...
    kind = f"<{side} x {shape.element}>"
    for row in range(shape.lanes):
        lanes = ", ".join(f"i32 {row // side * side + j}" for j in range(side))
        part = f.let(
            f"shufflevector {shape.vector} {turned[row % side]}, {shape.vector} poison, "
            f"<{side} x i32> <{lanes}>"
        )
        place = f.at(goal, f.mul("%out_row", str(row)))
        if len(columns) == side:
            f.store(kind, part, place, shape.size)
        else:
            count = str(len(columns))
            store_first(f, shape.element, side, [part], [place], shape.size, count)
