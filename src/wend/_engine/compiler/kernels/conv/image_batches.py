"""Several small images as a single matrix product, a bundle: its columns are all images' positions.

One image of few positions would fill vectors and tiles badly, and a large weight would be read
again for each image. Column c is position c % positions of image c // positions. The sums of a part
of the depth are kept in memory of their own, as (filters, columns). A finished tile is shared out
among the images that its columns belong to.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from wend._engine.compiler.kernels.matmul.microkernel import (
    EPILOGUE,
    TileConfig,
    call_epilogue,
    lane_mask,
    masked_load,
    masked_store,
)
from wend._engine.compiler.llvm_ir.function import Routine

#: The panels of columns in a chunk of patches, which are read again for each tile of filters.
COLUMNS = 4


def most_columns(shape: TileConfig) -> int:
    """The most columns in a bundle: a chunk, and the single last vector that a chunk may take."""
    return COLUMNS * shape.panel + shape.lanes


def bundled(f: Routine, shape: TileConfig, positions: str, images: str, wanted: str) -> str:
    """The number of images in a bundle, about the same for all bundles: as many as fit, or 1.

    positions: the positions of an image
    wanted: an i1, whether to bundle at all
    """
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
    """A loop over the images that the columns from `column` on belong to.

    Yields an image, the position of its first column, the number of columns before, and the number
    of the image's columns.
    """
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
    """Write the state of `share_tile` at `place`. words: (type, value) of each word, in order"""
    for i, (kind, value) in enumerate(words):
        f.store(kind, value, f.at(place, 8 * i), 8)


def share_tile(shape: TileConfig) -> str:
    """The text of `share_tile`, the epilogue of a bundle: it shares a tile out among images.

    The words of its state are, in order: the images' epilogue, or null; that epilogue's state; the
    positions of an image; the address of the first image's output, used without an epilogue; the
    bytes to the next image; and the bytes to the next row.
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
            batch = f.add("%batch0", image), "%batch1"
            extents, place = ("%rows", count), ("%row", position)
            call_epilogue(f, epilogue, source, extents, place, batch, state)
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
