"""The squares of Winograd's convolutions: their sizes, when they pay, and the loops over them.

Squares of 2 x 2 (`tiles_2x2`), squares of 4 x 4 (`tiles_4x4`) and the gradient share these parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from wend._engine.base.records import Record
from wend._engine.compiler.kernels.conv.sizes import ConvolutionSizes
from wend._engine.compiler.kernels.conv.winograd.transforms import (
    Transform,
    spread_taps_2,
    spread_taps_4,
)
from wend._engine.compiler.kernels.matmul.microkernel import TileConfig, lane_mask
from wend._engine.compiler.kernels.matmul.packing import shuffled
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.integers import Bool, Int

#: The least number of rows in a tile; `Winograd2x2` requires enough filters for that.
LEAST_ROWS = 4
#: Values of `turned` for a workspace that several calls share, and the bytes in front of it.
FIRST, LATER, FRONT = 2, 3, 64
#: The least numbers of filters, channels and squares (of all images) for which transforming pays.
#: The second triple is for panels of two vectors, which the direct kernels fill less well. The
#: least number of filters makes every tile high enough to add in the same order at any width.
# measured: command not recorded, 2026-11-23, the second triple 1.2 to 1.9 times as fast
_LEAST, _LEAST_PADDED = (48, 32, 64), (16, 16, 24)
#: The numbers of squares in a chunk, which is transformed and multiplied before the next chunk.
#: A chunk of _FEW squares stays in the second-level cache once transformed. A weight of more than
#: _LARGE elements has no room there and is read for each chunk, so its chunks have MANY squares.
#: Both numbers are whole panels on any processor.
_FEW, MANY, _LARGE = 48, 192, 1 << 15
#: The number of squares of 4 x 4 in a chunk.
_CHUNK = 32


class Squares(Record):
    """A way to cut the output into squares: F(side x side, 3 x 3).

    side: the side of a square of the output
    name: the suffix of the names of its functions
    taps: the function that transforms three taps of a line
    few, many: the squares of a chunk, for small weights and for large ones
    skipped: the elements to skip at the front of a shared workspace, per channel and filter
    flag: the offset, in the FRONT bytes before a shared workspace, of a word that is 1 once the
        kernels are transformed
    by_panel: whether images are transformed panel by panel
    """

    side: int
    name: str
    taps: Transform
    few: int
    many: int
    skipped: int = 0
    flag: int = 0
    by_panel: bool = False

    @property
    def seen(self) -> int:
        """The side of the window that a square depends on."""
        return self.side + 2

    @property
    def places(self) -> int:
        """The number of places of a square, and so of matrix products."""
        return self.seen**2

    def kernels(self, f: Routine, a: dict[str, str], row: str) -> str:
        """The address of the transformed kernels, with `row` bytes for each filter."""
        if not self.skipped:
            return a["workspace"]
        skipped = f.mul(f.mul(row, a["filters"]), str(self.skipped))
        shared = f.is_("sge", a["turned"], str(FIRST))
        return f.at(a["workspace"], f.select(shared, skipped, "0"))


#: Squares of 2 x 2.
NARROW = Squares(2, "", spread_taps_2, _FEW, MANY)
#: Squares of 4 x 4.
WIDE = Squares(4, "_wide", spread_taps_4, _CHUNK, _CHUNK, 18, 8, True)


def has_tiles(shape: TileConfig, dtype: str) -> bool:
    """Whether the processor has tiles for the dtype that all add in the same order."""
    return dtype == "float32" and shape.rows >= 6


def is_worth(c: ConvolutionSizes, images: Int, fewest: Int) -> Bool:
    """Whether the kernel is 3 x 3, with enough channels and at least `fewest` squares."""
    if not has_tiles(c.shape, c.dtype):
        return c.never
    squares = count_squares(c, images, NARROW)
    positions = c["out_height"] * c["out_width"] * images
    multiplied = filled(c.shape, squares)
    condition = c["dilation_height"] == c["dilation_width"]
    spent, most = multiplications(multiplied, positions, NARROW)
    return suited(condition, c, c.shape) & (squares >= fewest) & (spent <= most)


def suited(condition: Bool, c: ConvolutionSizes, shape: TileConfig) -> Bool:
    """`condition`, and those of a transformed convolution, but for dilations and extents."""
    filters, channels, _ = least(shape)
    condition = condition & (c["kernel_height"] == 3) & (c["kernel_width"] == 3)
    condition = condition & (c["stride_height"] == 1) & (c["stride_width"] == 1)
    condition = condition & (c["input_column"] == 1) & (c["groups"] == 1)
    return condition & (c["filters"] >= filters) & (c["channels"] >= channels)


def multiplications(multiplied: Int, positions: Int, way: Squares) -> tuple[Int, Int]:
    """The multiplications, and the most with which squares pay: 3/5 of those of plain sums.

    Squares that reach beyond the edges of the output waste multiplications. Both numbers are
    multiples.

    multiplied: the squares that are multiplied
    positions: the positions of the output, in all images
    """
    return multiplied * (5 * way.places), positions * 27


def count_squares(c: ConvolutionSizes, images: Int, way: Squares) -> Int:
    """The number of squares in `images` images."""
    return c["out_height"].ceil_div(way.side) * c["out_width"].ceil_div(way.side) * images


def filled(shape: TileConfig, squares: Int) -> Int:
    """The number of squares, rounded up to whole panels where panels are always whole."""
    if not is_padded(shape):
        return squares
    return squares.ceil_div(shape.panel) * shape.panel


def least(shape: TileConfig) -> tuple[int, int, int]:
    """The least filters, channels and squares (of all images) for which transforming pays."""
    return _LEAST_PADDED if is_padded(shape) else _LEAST


def spread_words(shape: TileConfig) -> int:
    """The accumulators that `winograd` needs per channel or filter, and per tap, to work in."""
    return 2 * (MANY + shape.lanes)


def squares_of(f: Routine, a: dict[str, str], way: Squares) -> tuple[str, str]:
    """The numbers of squares in an image, down and across."""
    return f.ceil_div(a["out_height"], way.side), f.ceil_div(a["out_width"], way.side)


def is_large(filters: Int, channels: Int) -> Bool:
    """Whether a weight is too large to stay in the cache beside the transformed image."""
    return filters * channels > _LARGE


def chunk_of(
    f: Routine, shape: TileConfig, a: dict[str, str], way: Squares, columns: str, first: str
) -> str:
    """The number of squares in the chunk that begins at square `first` of `columns`."""
    most = is_large(Int(a["filters"], f), Int(a["channels"], f)).choose(way.many, way.few)
    count = f.minimum(f.sub(columns, first), str(most))
    if is_padded(shape):
        return count
    left = f.sub(columns, f.add(first, count))
    # No chunk is a single vector: the chunk before takes those squares too.
    return f.add(count, f.select(f.is_("sle", left, str(shape.lanes)), left, "0"))


def is_padded(shape: TileConfig) -> bool:
    """Whether panels are always whole: a panel of a single vector would add in another order."""
    return shape.vectors <= 2


def together(shape: TileConfig) -> int:
    """The places that are multiplied at once where squares fill a single vector.

    Several places at once fill the registers.
    """
    return 3 if shape.vectors == 1 else shape.vectors


def is_reversed(f: Routine, a: dict[str, str]) -> str:
    """Whether the taps lie in reverse order: an i1."""
    return f.is_("slt", a["dilation_width"], "0")


def parameters(words: str) -> list[tuple[str, str]]:
    """The (type, name) pairs of parameters in a text such as "ptr args, i64 first"."""
    return [(kind, name) for kind, name in (word.split() for word in words.split(", "))]


@contextmanager
def row_runs(
    f: Routine, first: str, count: str, wide: str, most: int, even: bool
) -> Iterator[tuple[str, str, str, str]]:
    """A loop over runs of up to `most` neighbouring squares of an image, from square `first` on.

    Yields the number of squares before a run, the row and the column of the run's first square,
    and the number of the run's squares.

    wide: the squares in a row of the image
    even: whether runs share the rest of a row evenly: a short run is a narrow tile for an epilogue
    """
    top = f.div(first, wide)
    side = f.sub(first, f.mul(top, wide))
    with f.turns("0", count) as run:
        y, x = run.carry("i64", top), run.carry("i64", side)
        some = f.minimum(f.sub(wide, x), f.sub(count, run.index))
        if even:
            parts = f.ceil_div(some, most)
            some = f.div(f.add(some, f.sub(parts, "1")), parts)
        else:
            some = f.minimum(some, str(most))
        run.step = some
        right = f.add(x, some)
        over = f.is_("eq", right, wide)
        run.become(y, f.add(y, f.let(f"zext i1 {over} to i64")))
        run.become(x, f.select(over, "0", right))
        yield run.index, y, x, some


def runs(
    f: Routine, shape: TileConfig, wide: str
) -> AbstractContextManager[tuple[str, str, str, str]]:
    """A loop over the runs of the squares `%first` ... `%first + %count - 1` of an image."""
    return row_runs(f, "%first", "%count", wide, shape.lanes, not shape.masks)


def stored_ways(
    f: Routine, shape: TileConfig, at: str, count: str
) -> list[tuple[str | None, str | None]]:
    """The ways to store `count` squares at square `at` of a plane.

    Each way is (condition, mask): an i1 or None for always, and a mask or None for all lanes.
    Where a masked store is slow, a vector is stored whole if later squares overwrite the rest.
    """
    stored = lane_mask(f, shape.lanes, count)
    if shape.masks:
        return [(None, stored)]
    whole = f.is_("sle", f.add(at, str(shape.lanes)), "%count")
    return [(whole, None), (f.let(f"xor i1 {whole}, true"), stored)]


def halves(f: Routine, shape: TileConfig, pair: list[str]) -> list[str]:
    """Return the even and the odd elements of two vectors, as two vectors."""
    n = shape.lanes
    return [shuffled(f, shape, pair[0], pair[1], list(range(k, 2 * n, 2)), n) for k in (0, 1)]
