"""Convolutions of 3 x 3 by fewer multiplications: Winograd's F(2 x 2, 3 x 3).

The output is cut into squares of 2 x 2 positions. Each square depends on a window of 4 x 4 pixels
of the image. The kernel and this window are transformed into 16 numbers each, by sums and
differences. A square, channel and filter then take 16 multiplications in place of 36. For each of
these 16 places there is a matrix product, of (filters, channels) and (channels, squares). Sums
and differences of the products are the output (Lavin and Gray, 2015).

In this package "spread" names the transforms of kernels and images. "Join" names the inverse
transform, from the products to the output.

    void winograd(args)                         `convolve` where `Winograd2x2` applies and
                                                `winograd.tiles_4x4` does not
    void spread_filters(args)                   transforms kernels first_filter ... last_filter - 1
    void spread_weight(weight, row, step, rows, depth, to, to_row, apart, flipped)
    void spread_image(args, image, first, count, line, to, apart)
    void join_image(args, sums, line, apart, first, count, at0, out, tile)

In memory each of the 16 places is a plane. The next plane begins `apart` bytes later. A plane of
kernels is (filters, channels), and a plane of sums is (filters, squares). A plane of the image
consists of panels, in which squares lie side by side. Squares of several images follow in order.
Rounding errors are about as large as those of a plain sum. An infinite pixel makes NaN of every
output in the squares whose windows include that pixel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from wend._engine.base.records import Record
from wend._engine.compiler.kernels.conv.image_batches import pieces
from wend._engine.compiler.kernels.conv.winograd.transforms import (
    PAIRS,
    Transform,
    both_ways,
    join_line_2,
    spread_line_2,
    spread_taps_2,
)
from wend._engine.compiler.kernels.matmul.blocks import CacheBlock, PanelAddresses
from wend._engine.compiler.kernels.matmul.macrokernel import (
    Multiply,
    Scratch,
    Tiles,
    arguments,
    panels,
)
from wend._engine.compiler.kernels.matmul.microkernel import (
    LINE,
    TileConfig,
    lane_mask,
    lane_range,
    lanes_where,
    masked_load,
    masked_store,
    masked_update,
)
from wend._engine.compiler.kernels.matmul.operands import Matrix, Operands
from wend._engine.compiler.kernels.matmul.packing import ElementReader, shuffled, transposed
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.integers import Bool, Int
from wend._engine.compiler.llvm_ir.variants import Variant, variant

if TYPE_CHECKING:
    from wend._engine.compiler.kernels.conv.sizes import ConvolutionSizes

Masks = list[list[str]]

#: The number of places of a square, and the side of the window that a square depends on.
PLACES, SIDE = 16, 4
#: The least number of rows in a tile; `Winograd2x2` requires enough filters for that.
LEAST_ROWS = 4
#: Values of `turned` for a workspace that several calls share, and the bytes in front of it.
FIRST, LATER, FRONT = 2, 3, 64
#: The least numbers of filters, channels and squares (of all images) for which transforming pays.
#: The second triple is for panels of two vectors, which the direct kernels fill less well. The
#: least number of filters makes every tile high enough to add in the same order at any width.
# measured: command not recorded, 2026-11-23, the second triple 1.2 to 1.9 times as fast
_WIDE, _NARROW = (48, 32, 64), (16, 16, 24)
#: The least number of squares where a transformed weight serves several convolutions.
_SHARED = 16
#: The numbers of squares in a chunk, which is transformed and multiplied before the next chunk.
#: A chunk of _FEW squares stays in the second-level cache once transformed. A weight of more than
#: _LARGE elements has no room there and is read for each chunk, so its chunks have _MANY squares.
#: Both numbers are whole panels on any processor.
_FEW, _MANY, _LARGE = 48, 192, 1 << 15


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


@variant("convolve", after="Winograd4x4")
class Winograd2x2(Variant):
    """3 x 3, steps of 1, float32, many channels, filters and squares: 16 products for 36."""

    @staticmethod
    def applies(c: ConvolutionSizes) -> Bool:
        """Whether a convolution is computed by squares of 2 x 2.

        c: the words of `convolve`, with strides in elements; `batch` is the images of all parts
        """
        if not has_tiles(c.shape, c.dtype):
            return c.never
        found = c["dilation_height"] * c["dilation_width"] == 1
        fewest = Int(least(c.shape)[2], c["batch"].f)
        if "shared" in c:
            fewest = (c["shared"] != 0).choose(_SHARED, fewest)
        return found & is_worth(c, c["batch"], fewest)

    @staticmethod
    def emit(c: ConvolutionSizes) -> None:
        """Write the call of `winograd`."""
        if c.pools:
            c.tell_pooled(False)
        c.f.line("call void @winograd(ptr %args)")


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
    found = c["dilation_height"] == c["dilation_width"]
    spent, most = multiplications(multiplied, positions, NARROW)
    return suited(found, c, c.shape) & (squares >= fewest) & (spent <= most)


def suited(found: Bool, c: ConvolutionSizes, shape: TileConfig) -> Bool:
    """`found`, and the conditions of a transformed convolution, but for dilations and extents."""
    filters, channels, _ = least(shape)
    found = found & (c["kernel_height"] == 3) & (c["kernel_width"] == 3)
    found = found & (c["stride_height"] == 1) & (c["stride_width"] == 1)
    found = found & (c["input_column"] == 1) & (c["groups"] == 1)
    return found & (c["filters"] >= filters) & (c["channels"] >= channels)


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
    return _NARROW if is_padded(shape) else _WIDE


def spread_words(shape: TileConfig) -> int:
    """The accumulators that `winograd` needs per channel or filter, and per tap, to work in."""
    return 2 * (_MANY + shape.lanes)


def squares_of(f: Routine, a: dict[str, str], side: int = 2) -> tuple[str, str]:
    """The numbers of squares in an image, down and across."""
    return f.ceil_div(a["out_height"], side), f.ceil_div(a["out_width"], side)


def is_large(filters: Int, channels: Int) -> Bool:
    """Whether a weight is too large to stay in the cache beside the transformed image."""
    return filters * channels > _LARGE


def chunk_of(
    f: Routine,
    shape: TileConfig,
    a: dict[str, str],
    columns: str,
    first: str,
    sizes: tuple[int, int] = (_FEW, _MANY),
) -> str:
    """The number of squares in the chunk that begins at square `first` of `columns`.

    sizes: the squares of a chunk, for small weights and for large ones
    """
    few, many = sizes
    most = is_large(Int(a["filters"], f), Int(a["channels"], f)).choose(many, few)
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


def _backwards(f: Routine, a: dict[str, str]) -> str:
    """Whether the taps lie in reverse order: an i1."""
    return f.is_("slt", a["dilation_width"], "0")


def winograd(shape: TileConfig, dtype: str, names: list[str], way: Squares) -> str:
    """The text of the function `winograd` + way.name, which computes a convolution."""
    f = Routine("winograd" + way.name, [("ptr", "args")], internal=True)
    a = arguments(f, names, "input out epilogue state scratch workspace spread")
    room = Scratch.of(f, shape, a["scratch"])
    unit = str(shape.size)
    filters = f"call void @spread_filters{way.name}(ptr %args)"
    with f.when(f.is_("eq", a["turned"], "0")):
        f.line(filters)
    flag = f.at(a["workspace"], way.flag - FRONT)
    with (
        f.when(f.is_("sge", a["turned"], str(FIRST))),
        f.when(f.is_("eq", f.load("i64", flag, 8), "0")),
    ):
        f.line(filters)
        f.store("i64", "1", flag, 8)
    high, wide = squares_of(f, a, way.side)
    squares = f.mul(high, wide)
    # A call may compute a part of one image: the squares whose first position is in that part.
    rows = [
        f.div(f.add(a[name], f.sub(line, "1")), line)
        for line in [f.mul(a["out_width"], str(way.side))]
        for name in ("first_column", "last_column")
    ]
    if way.by_panel:  # the positions may reach beyond the last row, see `pool_squares`
        rows = [f.minimum(row, high) for row in rows]
    begin, end = (f.mul(row, wide) for row in rows)
    columns = f.add(end, f.mul(squares, f.sub(a["images"], "1")))
    image_bytes = f.mul(a["input_image"], unit)
    depth_bytes = f.mul(a["channels"], unit)
    plane = f.mul(a["filters"], depth_bytes)
    kernels = way.kernels(f, a, depth_bytes)
    with f.turns(begin, columns) as chunks:
        first = chunks.index
        count = chunk_of(f, shape, a, columns, first, (way.few, way.many))
        chunks.step = count
        # Each plane is a vector longer than its data, or all planes would use the same cache sets.
        each = shape.panel if is_padded(shape) else shape.lanes
        blocks = f.ceil_div(count, each)
        line = f.mul(blocks, str(each * shape.size))
        padded = f.mul(blocks, str(each)) if is_padded(shape) else count
        apart = f.add(f.mul(line, a["channels"]), str(shape.bytes))
        sums_apart = f.add(f.mul(line, a["filters"]), str(shape.bytes))
        sums = f.at(a["spread"], f.mul(apart, str(way.places)))
        with panels(f, shape, "0", padded, padded) as (column, width):
            row = f.mul(width, str(shape.bytes))
            valid = f.minimum(f.sub(count, column), f.mul(width, str(shape.lanes)))
            place = f.at(a["spread"], f.mul(column, depth_bytes))
            here = f.add(first, column)
            if way.by_panel:
                given = f"i64 {here}, i64 {valid}, ptr {place}, i64 {apart}"
                f.line(f"call void @spread_panel(ptr %args, {given})")
            else:
                with pieces(f, squares, here, valid) as (image, at, before, some):
                    source = f.at(a["input"], f.mul(image, image_bytes))
                    to = f.at(place, f.mul(before, unit))
                    f.line(
                        f"call void @spread_image(ptr %args, ptr {source}, i64 {at}, i64 {some}, "
                        f"i64 {row}, ptr {to}, i64 {apart})"
                    )
        products = _Products(
            (kernels, plane), (a["spread"], apart), (sums, sums_apart), depth_bytes, line, padded
        )
        if way.by_panel:
            _multiply_panels(f, shape, a, way, products, count)
        else:
            _multiply(f, shape, dtype, room, a, products)
        if way.by_panel:
            given = f"ptr {sums}, i64 {line}, i64 {sums_apart}, i64 {first}, i64 {count}"
            f.line(f"call void @join_squares(ptr %args, {given})")
        else:
            with pieces(f, squares, first, count) as (image, at, before, some):
                out = f.at(a["out"], f.mul(image, f.mul(a["out_image"], unit)))
                f.line(
                    f"call void @join_image(ptr %args, ptr {f.at(sums, f.mul(before, unit))}, "
                    f"i64 {line}, i64 {sums_apart}, i64 {at}, i64 {some}, "
                    f"i64 {f.add(image, a['origin'])}, ptr {out}, ptr {room.tile})"
                )
    return f.text()


class _Products(Record):
    """The addresses and strides of the matrix products of a chunk.

    kernels, spread, sums: the address of the first place's plane, and the bytes to the next plane
    row, line: the bytes of a row of the kernels, and of a row of the sums
    columns: the columns of the product, which are squares
    """

    kernels: tuple[str, str]
    spread: tuple[str, str]
    sums: tuple[str, str]
    row: str
    line: str
    columns: str

    @staticmethod
    def of_place(f: Routine, base: tuple[str, str], k: str) -> str:
        """The address of plane `k`. base: any of the three pairs of this record"""
        return f.at(base[0], f.mul(k, base[1]))


def _multiply(
    f: Routine, shape: TileConfig, dtype: str, room: Scratch, a: dict[str, str], given: _Products
) -> None:
    """Write the products of all places, for squares of 2 x 2 and any weight."""
    row, columns = given.row, given.columns
    with f.loop("0", str(PLACES)) as k:
        left = Matrix(given.of_place(f, given.kernels, k), row, str(shape.size))
        base = given.of_place(f, given.spread, k)
        operands = Operands(f, shape, dtype, room, left, left, columns, "false")

        def found(block: CacheBlock, base: str = base) -> PanelAddresses:
            return PanelAddresses(base, row, f.mul(block.start, str(shape.bytes)))

        Multiply(
            f,
            shape,
            right=found,
            left=operands.left_rows,
            room=room,
            part_rows=("0", a["filters"]),
            part_columns=("0", columns),
            columns=columns,
            depth=a["channels"],
            out=given.of_place(f, given.sums, k),
            out_row=given.line,
            accumulate="false",
            epilogue="null",
            state="null",
            place=("0", "0"),
            chunk=str(_MANY + shape.lanes),
        ).write()


def _multiply_panels(
    f: Routine, shape: TileConfig, a: dict[str, str], way: Squares, given: _Products, squares: str
) -> None:
    """Write the products of all places, for few squares and a weight that is not large.

    The choices that `Multiply` makes at run time are known here. A last panel whose squares fill
    only a single vector is multiplied by a tile of its own, see `tiles_4x4`.
    """
    last = f.sub(f.div(given.columns, str(shape.panel)), "1")
    short = "true"
    if shape.vectors > 1:
        empty = f.sub(given.columns, squares)
        short = f.is_("sge", empty, str(shape.panel - shape.lanes))
        whole = f.add(last, f.let(f"zext i1 {f.let(f'xor i1 {short}, true')} to i64"))
        with f.when(f.is_("ne", whole, "0")):
            _multiply_whole(f, shape, a, way, given, whole)
    with (
        f.when(short),
        f.loop("0", str(way.places), str(together(shape))) as k,
        _tiles_of_place(f, shape, a, given, k) as (left, right, out, height, _),
        f.loop("0" if shape.vectors == 1 else last, f.add(last, "1")) as panel,
    ):
        right = f.at(right, f.mul(panel, f.mul(given.row, str(shape.panel))))
        out = f.at(out, f.mul(panel, str(shape.panel * shape.size)))
        number = f.sub(height, str(LEAST_ROWS))
        single = f.load("ptr", f.at("@singles", f.mul(number, "8")), 8)
        f.line(
            f"call void {single}(ptr {left}, i64 {given.row}, i64 {given.kernels[1]}, "
            f"ptr {right}, i64 {given.spread[1]}, i64 {a['channels']}, "
            f"ptr {out}, i64 {given.line}, i64 {given.sums[1]})"
        )


def _multiply_whole(
    f: Routine, shape: TileConfig, a: dict[str, str], way: Squares, given: _Products, panels_: str
) -> None:
    """Write the products of the first `panels_` panels.

    Each tile prefetches the kernels of the next tile, which may belong to the next place.
    """
    row_bytes = str(shape.panel * shape.size)
    part = f.add(f.div(str(shape.rows * shape.size - 1), panels_), "1")
    soon = f"i64 {f.mul(part, a['channels'])}, i64 {panels_}, i64 {part}, i64 0"
    apart = f.mul(given.row, str(shape.panel))
    with (
        f.loop("0", str(way.places)) as k,
        _tiles_of_place(f, shape, a, given, k) as (left, right, out, height, later),
    ):
        strip = f.load("ptr", f.at("@strips", f.mul(f.sub(height, "1"), "8")), 8)
        f.line(
            f"call void {strip}(ptr {left}, i64 {given.row}, i64 {shape.size}, ptr {right}, "
            f"i64 {row_bytes}, i64 {apart}, i64 {a['channels']}, i64 {panels_}, ptr null, "
            f"ptr {out}, i64 {given.line}, ptr {later}, {soon})"
        )


@contextmanager
def _tiles_of_place(
    f: Routine, shape: TileConfig, a: dict[str, str], given: _Products, k: str
) -> Iterator[tuple[str, str, str, str, str]]:
    """A loop over the tiles of all filters of place `k`.

    Yields the addresses of a tile's kernels, panels and sums, the tile's height, and the address
    of the next tile's kernels.
    """
    first, right, goal = (
        given.of_place(f, base, k) for base in (given.kernels, given.spread, given.sums)
    )
    tiles = Tiles.of(f, shape, a["filters"])
    with f.turns("0", tiles.count) as loop:
        left, out = loop.carry("ptr", first), loop.carry("ptr", goal)
        height = tiles.height(f, loop.index)
        later = f.at(left, f.mul(height, given.row))
        loop.become(left, later)
        loop.become(out, f.at(out, f.mul(height, given.line)))
        yield left, right, out, height, later


def spread_weight(shape: TileConfig, dtype: str, names: list[str], way: Squares) -> str:
    """The text of the two functions that transform kernels, `spread_filters` and `spread_weight`.

    The weight has `row` bytes to the next row, and `step` bytes to the next step of the depth.
    """
    f = Routine("spread_filters" + way.name, [("ptr", "args")], internal=True)
    a = arguments(f, names, "weight workspace")
    unit = str(shape.size)
    line = f.mul(a["channels"], unit)
    row = f.mul(a["weight_filter"], unit)
    to = way.kernels(f, a, line)
    with f.loop(a["first_filter"], a["last_filter"]) as i:
        f.line(
            f"call void @spread_weight{way.name}(ptr {f.at(a['weight'], f.mul(i, row))}, "
            f"i64 {row}, i64 {9 * shape.size}, i64 1, i64 {a['channels']}, "
            f"ptr {f.at(to, f.mul(i, line))}, i64 {line}, "
            f"i64 {f.mul(line, a['filters'])}, i1 {_backwards(f, a)})"
        )
    return f.text() + "\n" + _spread_kernels(shape, ElementReader(shape, dtype), way)


def _spread_kernels(shape: TileConfig, source: ElementReader, way: Squares) -> str:
    words = "ptr weight, i64 row, i64 step, i64 rows, i64 depth, ptr to, i64 to_row, i64 apart"
    given = parameters(words)
    f = Routine("spread_weight" + way.name, [*given, ("i1", "flipped")], internal=True)
    with f.loop("0", "%depth", str(shape.lanes)) as k, f.loop("0", "%rows") as i:
        mask = lane_mask(f, shape.lanes, f.sub("%depth", k))
        here = f.at("%weight", f.add(f.mul(i, "%row"), f.mul(k, "%step")))
        part: str | None = None
        if not shape.masks and shape.lanes == 8:
            whole = f.is_("sle", f.add(k, "8"), "%depth")
            with f.when(whole):
                _spread_kernel(f, shape, way, _turned_taps(f, shape, here), (i, k), None)
            part = f.let(f"xor i1 {whole}, true")
        with f.when(part) if part else nullcontext():
            taps = [source.gathered(f, f.at(here, t * shape.size), "%step", mask) for t in range(9)]
            _spread_kernel(f, shape, way, taps, (i, k), mask)
    return f.text()


def _turned_taps(f: Routine, shape: TileConfig, here: str) -> list[str]:
    """Return nine taps, each a vector of eight steps of the depth.

    Eight taps are transposed in registers, which is quicker than gathers. The last tap is put
    together element by element.
    """
    lines = [f.at(here, f.mul("%step", str(j))) for j in range(8)]
    taps = transposed(f, shape, [f.load(shape.vector, line, shape.size) for line in lines])
    last = "poison"
    for j, line in enumerate(lines):
        one = f.load(shape.element, f.at(line, 8 * shape.size), shape.size)
        last = f.let(f"insertelement {shape.vector} {last}, {shape.element} {one}, i64 {j}")
    return [*taps, last]


def _spread_kernel(
    f: Routine,
    shape: TileConfig,
    way: Squares,
    taps: list[str],
    at: tuple[str, str],
    mask: str | None,
) -> None:
    """Transform nine taps, and store the results in their planes. at: row and step of the depth"""
    taps = [f.select("%flipped", y, x, shape.vector) for x, y in zip(taps, taps[::-1])]
    columns = both_ways(f, shape, way.taps, [taps[3 * r : 3 * r + 3] for r in range(3)])
    to = f.at("%to", f.add(f.mul(at[0], "%to_row"), f.mul(at[1], str(shape.size))))
    by_column = list(columns)
    for down in range(way.seen):
        for across in range(way.seen):
            place = f.at(to, f.mul("%apart", str(way.seen * down + across)))
            masked_store(f, shape, by_column[across][down], place, mask)


def parameters(words: str) -> list[tuple[str, str]]:
    """The (type, name) pairs of parameters in a text such as "ptr args, i64 first"."""
    return [(kind, name) for kind, name in (word.split() for word in words.split(", "))]


#: Squares of 2 x 2.
NARROW = Squares(2, "", spread_taps_2, _FEW, _MANY)


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


def spread_image(shape: TileConfig, dtype: str, names: list[str]) -> str:
    """The text of `spread_image`: it transforms the windows of `count` squares, in all channels."""
    words = "ptr args, ptr image, i64 first, i64 count, i64 line, ptr to, i64 apart"
    given = parameters(words)
    f = Routine("spread_image", given, internal=True)
    a = arguments(f, names, "")
    source = ElementReader(shape, dtype)
    lanes = shape.lanes
    channel = f.mul(a["input_channel"], str(shape.size))
    row = f.mul(a["input_row"], str(shape.size))
    _, wide = squares_of(f, a)
    # Taps in reverse order begin two pixels before.
    turned = f.select(_backwards(f, a), "2", "0")
    with runs(f, shape, wide) as (at, y, x, count):
        top = f.sub(f.mul(y, "2"), f.add(a["pad_height"], turned))
        side = f.sub(f.mul(x, "2"), f.add(a["pad_width"], turned))
        starts = [part * lanes + away for away in (0, 2) for part in (0, 1)]
        masks = []
        for start in starts:
            here = f.add(side, str(start))
            masks.append(lane_range(f, lanes, f.sub("0", here), f.sub(a["input_width"], here)))
        inside = [f.is_("ult", f.add(top, str(r)), a["input_height"]) for r in range(SIDE)]
        within = f.both(f.both(inside[0], inside[1]), f.both(inside[2], inside[3]))
        ways = stored_ways(f, shape, at, count)
        corner = f.at("%image", f.add(f.mul(top, row), f.mul(side, str(shape.size))))
        lines = [f.at(corner, f.mul(row, str(r))) for r in range(SIDE)]
        to = f.at("%to", f.mul(at, str(shape.size)))
        edge = f.let(f"xor i1 {within}, true")
        for case in (within, edge):
            chosen = [
                masks if case is within else [lanes_where(f, lanes, i, m) for m in masks]
                for i in inside
            ]
            for way, stored in ways:
                when = case if way is None else f.both(case, way)
                with f.when(when), f.loop("0", a["channels"]) as c:
                    plane = f.mul(c, channel)

                    def seen(r: int, plane: str = plane, masks: Masks = chosen) -> list[str]:
                        here = f.at(lines[r], plane)
                        read = [
                            source.vector(f, f.at(here, start * shape.size), mask)
                            for start, mask in zip(starts, masks[r])
                        ]
                        return halves(f, shape, read[:2]) + halves(f, shape, read[2:])

                    _spread_seen(f, shape, seen, f.at(to, f.mul(c, "%line")), stored)
    return f.text()


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


def _spread_seen(
    f: Routine, shape: TileConfig, seen: Callable[[int], list[str]], to: str, stored: str | None
) -> None:
    """Transform 4 x 4 vectors, and store the results in their planes.

    seen: a function that reads line r of the window, as four vectors
    """

    def store(down: int, line: list[str]) -> None:
        for across, x in enumerate(line):
            place = f.at(to, f.mul("%apart", str(SIDE * down + across)))
            masked_update(f, shape, x, place, stored)

    if shape.vectors > 2:
        rows = [seen(r) for r in range(SIDE)]
        for down, line in enumerate(both_ways(f, shape, spread_line_2, zip(*rows, strict=True))):
            store(down, line)
        return
    # With 16 registers there is room for two lines and their sums, so lines are read singly.
    read: dict[int, list[str]] = {}
    for down, (combine, *pair) in enumerate(PAIRS):
        for r in pair:
            if r not in read:
                read[r] = seen(r)
        columns = [combine(f, shape, x, y) for x, y in zip(*(read[r] for r in pair), strict=True)]
        store(down, spread_line_2(f, shape, columns))


def join_image(shape: TileConfig, dtype: str, names: list[str]) -> str:
    """The text of `join_image`: it makes `count` squares of an image's output, for all filters."""
    words = "ptr args, ptr sums, i64 line, i64 apart, i64 first, i64 count, i64 at0"
    given = parameters(words)
    f = Routine("join_image", [*given, ("ptr", "out"), ("ptr", "tile")], internal=True)
    a = arguments(f, names, "epilogue state")
    lanes, unit = shape.lanes, str(shape.size)
    channel = f.mul(a["out_channel"], unit)
    _, wide = squares_of(f, a)
    handed = f.is_("ne", a["epilogue"], "null", "ptr")
    # An epilogue gets two tiles: a tile of the upper rows of squares, then a tile of the lower
    # rows.
    tile_row = str(shape.panel * shape.size)
    below = str(shape.rows * shape.panel * shape.size)
    line = f.select(handed, tile_row, channel)

    def some_filters() -> AbstractContextManager[str]:
        return f.loop("0", a["filters"], str(shape.rows))

    # Where two runs share a cache line of sums, both runs are joined while that line is in L1.
    line_by_line = shape.bytes < LINE
    with (
        some_filters() if line_by_line else nullcontext("") as given_first,
        runs(f, shape, wide) as (at, y, x, count),
    ):
        top, side = f.mul(y, "2"), f.mul(x, "2")
        length = f.minimum(f.mul(count, "2"), f.sub(a["out_width"], side))
        two = f.is_("slt", f.add(top, "1"), a["out_height"])
        lower = f.select(two, length, "0")
        masks = [
            lane_mask(f, lanes, f.sub(valid, str(part * lanes)))
            for valid in (length, lower)
            for part in (0, 1)
        ]
        position = f.add(f.mul(top, a["out_width"]), side)
        next_ = f.select(handed, below, f.mul(a["out_width"], unit))
        loaded = lane_mask(f, lanes, count) if shape.masks else None
        both = [i // 2 + i % 2 * lanes for i in range(2 * lanes)]
        woven = both[:lanes], both[lanes:]
        # Where masked stores are slow, tiles get whole vectors: tiles have room for them.
        aside: list[tuple[str | None, Sequence[str | None]]] = [(None, masks)]
        if not shape.masks:
            aside = [(handed, [None] * 4), (f.let(f"xor i1 {handed}, true"), masks)]
        with nullcontext(given_first) if line_by_line else some_filters() as first:
            rows = f.minimum(f.sub(a["filters"], first), str(shape.rows))
            out = f.at("%out", f.add(f.mul(first, channel), f.mul(position, unit)))
            to = f.select(handed, "%tile", out, "ptr")
            for way, wanted in aside:
                with f.when(way) if way else nullcontext(), f.loop("0", rows) as i:
                    here = f.add(f.mul(f.add(first, i), "%line"), f.mul(at, unit))
                    here = f.at("%sums", here)
                    places = [f.at(here, f.mul("%apart", str(k))) for k in range(PLACES)]
                    sums = [masked_load(f, shape, place, loaded) for place in places]
                    columns = [sums[k::SIDE] for k in range(SIDE)]
                    pairs = both_ways(f, shape, join_line_2, columns)
                    into = f.at(to, f.mul(i, line))
                    for down, pair in enumerate(pairs):
                        place = f.at(into, next_) if down else into
                        for part in (0, 1):
                            z = shuffled(f, shape, pair[0], pair[1], woven[part], lanes)
                            mask = wanted[2 * down + part]
                            masked_store(f, shape, z, f.at(place, part * shape.bytes), mask)
            for tile, columns_, column in (
                ("%tile", length, position),
                (f.at("%tile", below), lower, f.add(position, a["out_width"])),
            ):
                with f.when(f.both(handed, f.is_("ne", columns_, "0"))):
                    f.line(
                        f"call void {a['epilogue']}(ptr {tile}, i64 {rows}, i64 {columns_}, "
                        f"i64 {first}, i64 {column}, i64 %at0, i64 0, ptr {a['state']})"
                    )
    return f.text()
