"""Products of a few rows: the right operand is streamed once, row by row, from end to end.

Tiles would read the right operand a panel at a time: a few cache lines of each of its rows, which
lie pages apart. Here several rows of the right operand at a time are multiplied, and added to sums
that stay in the first-level cache.

    void streamed(left, left_row, left_step, right, right_step, depth, first_row, last_row,
                  first_column, last_column, out, out_row, accumulate, epilogue, state, at0, at1,
                  scratch)

The right operand's columns lie side by side. Strides are in bytes, `accumulate` is an i1.
"""

from __future__ import annotations

from wend._engine.compiler.kernels.matmul.choice import ProductChoice, ProductSite
from wend._engine.compiler.kernels.matmul.macrokernel import LARGE, Scratch, has_narrow_panels
from wend._engine.compiler.kernels.matmul.microkernel import (
    TileConfig,
    call_epilogue,
    lane_mask,
    masked_load,
    masked_store,
    parameters,
    spread,
)
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.integers import Bool, Int
from wend._engine.compiler.llvm_ir.variants import Variant, variant

#: The most rows: with more, tiles use each loaded element more often.
ROWS = 4
#: The least columns, and the least bytes of the right operand. A smaller operand fits in the
#: first-level cache, from which tiles read it as quickly.
# measured: command not recorded, 2026-11-22, 1.1 to 1.9 times as fast as tiles beyond that cache
COLUMNS, BYTES = 64, 1 << 15
#: The number of sums that stay in the first-level cache.
SUMS = 3072
#: The most steps of depth. Tiles sum more steps in blocks, so that large sums are rounded less.
DEPTH = 2048

_PARAMETERS = (
    "left left_row left_step right right_step depth first_row last_row first_column last_column "
    "out out_row accumulate epilogue state at0 at1 scratch"
)


def streams(shape: TileConfig, rows: Int, columns: Int, depth: Int, step: Int) -> Bool:
    """Whether streaming is best for a product whose right operand allows it.

    step: the bytes between the right operand's rows
    """
    few = (rows >= 1) & (rows <= ROWS)
    wide = (columns >= COLUMNS) & (depth <= DEPTH)
    least = Int(BYTES, rows.f)
    if not has_narrow_panels(shape):
        # ROWS rows fill a wide tile, which is quick while its operand is cached.
        least = (rows == ROWS).choose(LARGE, BYTES)
    return few & wide & (depth * step >= least)


@variant("product", after="Upright")
class Streamed(Variant):
    """Up to 4 rows; a right operand beyond the first-level cache, its columns side by side."""

    @staticmethod
    def applies(p: ProductChoice) -> Bool:
        """Whether the right operand is read once, row after row."""
        if p.widened:
            return p.never
        taken = p.taken
        condition = p.beside & streams(p.shape, p.rows, p.part_columns, p.depth, p.right_step)
        return condition & ~taken

    @staticmethod
    def emit(site: ProductSite) -> None:
        """Write the call of `streamed`."""
        left, right, a = site.left, site.right, site.a
        site.f.line(
            f"call void @streamed(ptr {left.base}, i64 {left.line}, i64 {left.step}, "
            f"ptr {right.base}, i64 {right.step}, i64 {a['depth']}, {site.part}, {site.handing}, "
            f"ptr {a['scratch']})"
        )


def streamed(shape: TileConfig) -> str:
    """The text of the function `streamed`."""
    f = Routine("streamed", parameters(_PARAMETERS), internal=True)
    room = Scratch.of(f, shape, "%scratch")
    rows = f.sub("%last_row", "%first_row")
    handed = f.is_("ne", "%epilogue", "null", "ptr")
    left = f.at("%left", f.mul("%first_row", "%left_row"))
    out = f.at("%out", f.mul("%first_row", "%out_row"))
    chunk = f.mul(f.div(str(SUMS // shape.panel), rows), str(shape.panel))
    # The lanes in between keep rows of sums from beginning at the same place of a page.
    line = f.mul(f.add(chunk, str(shape.lanes)), str(shape.size))
    line = f.select(handed, line, "%out_row")
    clear = f.either(handed, f.let("xor i1 %accumulate, true"))
    with f.loop("%first_column", "%last_column", chunk) as first:
        columns = f.minimum(f.sub("%last_column", first), chunk)
        offset = f.mul(first, str(shape.size))
        sums = f.select(handed, room.panels, f.at(out, offset), "ptr")
        right = f.at("%right", offset)
        for height in range(1, ROWS + 1):
            with f.when(f.is_("eq", rows, str(height))):
                lefts = [f.at(left, f.mul("%left_row", str(row))) for row in range(height)]
                totals = [f.at(sums, f.mul(line, str(row))) for row in range(height)]
                with f.when(clear):
                    _clear(f, shape, totals, columns)
                _add(f, shape, lefts, right, totals, columns)
        with f.when(handed):
            _hand(f, shape, room, (rows, first, columns), out, line)
    return f.text()


def _clear(f: Routine, shape: TileConfig, totals: list[str], columns: str) -> None:
    with f.loop("0", columns, str(shape.lanes)) as j:
        mask = lane_mask(f, shape.lanes, f.sub(columns, j))
        for total in totals:
            place = f.at(total, f.mul(j, str(shape.size)))
            masked_store(f, shape, "zeroinitializer", place, mask)


def _add(
    f: Routine, shape: TileConfig, lefts: list[str], right: str, totals: list[str], columns: str
) -> None:
    """Write the loop that adds products to sums. Rows at a time: their factors fill the registers.

    lefts: the addresses of the left operand's rows
    right: the address of the right operand's first column
    totals: the addresses of the rows of sums
    """
    many = min(8, shape.rows * shape.vectors // len(lefts))
    whole = f.mul(f.div("%depth", str(many)), str(many))
    full = f.mul(f.div(columns, str(shape.lanes)), str(shape.lanes))
    mask = lane_mask(f, shape.lanes, f.sub(columns, full))
    for start, stop, count in (("0", whole, many), (whole, "%depth", 1)):
        with f.loop(start, stop, str(count)) as k:
            steps = [f.add(k, str(i)) for i in range(count)]
            lines = [f.at(right, f.mul(step, "%right_step")) for step in steps]
            places = [f.mul(step, "%left_step") for step in steps]
            factors = [
                [spread(f, shape, f.load(shape.element, f.at(x, at), shape.size)) for at in places]
                for x in lefts
            ]
            with f.loop("0", full, str(shape.lanes)) as j:
                _step(f, shape, factors, lines, totals, f.mul(j, str(shape.size)), None)
            with f.when(f.is_("ne", full, columns)):
                _step(f, shape, factors, lines, totals, f.mul(full, str(shape.size)), mask)


def _step(
    f: Routine,
    shape: TileConfig,
    factors: list[list[str]],
    lines: list[str],
    totals: list[str],
    offset: str,
    mask: str | None,
) -> None:
    """Multiply a vector of each line with factors, and add the products to each row of sums.

    factors: for each row of sums, a factor for each line
    lines: the addresses of the right operand's rows
    """
    vectors = [masked_load(f, shape, f.at(line, offset), mask) for line in lines]
    for row, total in zip(factors, totals, strict=True):
        place = f.at(total, offset)
        x = masked_load(f, shape, place, mask)
        for factor, y in zip(row, vectors, strict=True):
            x = f.let(
                f"call {shape.vector} @llvm.fmuladd.{shape.suffix}"
                f"({shape.vector} {factor}, {shape.vector} {y}, {shape.vector} {x})"
            )
        masked_store(f, shape, x, place, mask)


def _hand(
    f: Routine, shape: TileConfig, room: Scratch, part: tuple[str, str, str], out: str, line: str
) -> None:
    """Hand the sums to the epilogue, a tile at a time. part: rows, first column, columns"""
    rows, first, columns = part
    with f.loop("0", columns, str(shape.panel)) as begin:
        count = f.minimum(f.sub(columns, begin), str(shape.panel))
        column = f.add(first, begin)
        with f.loop("0", rows) as row, f.loop("0", count, str(shape.lanes)) as j:
            there = f.add(f.mul(row, line), f.mul(f.add(begin, j), str(shape.size)))
            x = f.load(shape.vector, f.at(room.panels, there), shape.size)
            here = f.add(f.mul(row, str(shape.panel)), j)
            to = f.at(room.tile, f.mul(here, str(shape.size)))
            f.store(shape.vector, x, to, shape.size)
            with f.when("%accumulate"):
                old = f.at(out, f.mul(row, "%out_row"))
                old = f.at(old, f.mul(f.add(column, j), str(shape.size)))
                mask = lane_mask(f, shape.lanes, f.sub(count, j))
                y = f.let(f"fadd {shape.vector} {x}, {masked_load(f, shape, old, mask)}")
                f.store(shape.vector, y, to, shape.size)
        extents, place, batch = (rows, count), ("%first_row", column), ("%at0", "%at1")
        call_epilogue(f, "%epilogue", room.tile, extents, place, batch, "%state")
