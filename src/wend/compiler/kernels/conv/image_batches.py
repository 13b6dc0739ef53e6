"""Several small images as one matrix product: their positions are its columns, side by side.

One image of few positions would fill vectors and tiles badly, and a large weight would be read
again for each. Column c is position c % positions of image c // positions. The sums of a part of
the depth are kept apart, as (filters, columns), and finished tiles are shared out among the images
that they are of.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from wend.compiler.kernels.matmul.microkernel import (
    EPILOGUE,
    TileConfig,
    lane_mask,
    masked_load,
    masked_store,
)
from wend.compiler.llvm_ir.function import Routine

__all__ = ["COLUMNS", "bundled", "most_columns", "pieces", "share_state", "share_tile"]

#: Panels of columns in a chunk of patches: they are read again for each tile of filters.
COLUMNS = 4


def most_columns(shape: TileConfig) -> int:
    """Columns in a bundle: a chunk, with the vector that it takes rather than leave it alone."""
    return COLUMNS * shape.panel + shape.lanes


def bundled(f: Routine, shape: TileConfig, positions: str, images: str, wanted: str) -> str:
    """How many images are one product: as many as fit, about the same number in each; or 1."""
    some = f.select(f.is_("eq", positions, "0"), "1", positions)
    fit = f.div(str(most_columns(shape)), some)
    fit = f.select(f.both(wanted, f.is_("sgt", fit, "1")), fit, "1")
    bundles = f.div(f.add(images, f.sub(fit, "1")), fit)
    bundles = f.select(f.is_("eq", bundles, "0"), "1", bundles)
    return f.div(f.add(images, f.sub(bundles, "1")), bundles)


@contextmanager
def pieces(
    f: Routine, positions: str, column: str, columns: str
) -> Iterator[tuple[str, str, str, str]]:
    """A loop over the images that some columns are of: image, position, columns before, columns."""
    first = f.div(column, positions)
    side = f.sub(column, f.mul(first, positions))
    with f.turns("0", columns) as loop:
        image, position = loop.carry("i64", first), loop.carry("i64", side)
        count = f.minimum(f.sub(positions, position), f.sub(columns, loop.index))
        loop.step = count
        loop.become(image, f.add(image, "1"))
        loop.become(position, "0")
        yield image, position, loop.index, count


def share_state(f: Routine, place: str, words: list[tuple[str, str]]) -> None:
    """Write down what `share_tile` needs: (type, value) of its state's words, in their order."""
    for i, (kind, value) in enumerate(words):
        f.store(kind, value, f.at(place, 8 * i), 8)


def share_tile(shape: TileConfig) -> str:
    """The epilogue of a bundle: shares a tile out among images.

    Its state: epilogue and state of the images, or null and anything; positions; where the sums of
    the first image go without an epilogue, and the bytes to the next image and the next row.
    """
    f = Routine("share_tile", EPILOGUE, internal=True)
    kinds = ("ptr", "ptr", "i64", "ptr", "i64", "i64")
    epilogue, state, positions, out, apart, line = (
        f.load(kind, f.at("%state", 8 * i), 8) for i, kind in enumerate(kinds)
    )
    handed = f.is_("ne", epilogue, "null", "ptr")
    missing = f.is_("eq", "%tile", "null", "ptr")
    f.leave_when(f.both(missing, f.let(f"xor i1 {handed}, true")))
    unit = str(shape.size)
    with pieces(f, positions, "%column", "%columns") as (image, position, before, count):
        source = f.select(missing, "null", f.at("%tile", f.mul(before, unit)), "ptr")
        with f.when(handed):
            f.line(
                f"call void {epilogue}(ptr {source}, i64 %rows, i64 {count}, i64 %row, "
                f"i64 {position}, i64 {f.add('%batch0', image)}, i64 %batch1, ptr {state})"
            )
        with f.when(f.let(f"xor i1 {handed}, true")):
            to = f.at(out, f.add(f.mul(image, apart), f.mul(position, unit)))
            with f.loop("0", count, str(shape.lanes)) as at:
                mask = lane_mask(f, shape.lanes, f.sub(count, at))
                offset = f.mul(at, unit)
                with f.loop("0", "%rows") as i:
                    sums = f.at(source, f.add(f.mul(i, str(shape.panel * shape.size)), offset))
                    row = f.add(f.mul(f.add("%row", i), line), offset)
                    x = masked_load(f, shape, sums, mask)
                    masked_store(f, shape, x, f.at(to, row), mask)
    return f.text()
