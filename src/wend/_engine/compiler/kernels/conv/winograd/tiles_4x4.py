"""Convolutions of 3 x 3 by still fewer multiplications: Winograd's F(4 x 4, 3 x 3).

A square is 4 x 4 outputs and depends on a window of 6 x 6 pixels. A square, channel and filter take
36 multiplications in place of 64 with squares of 2 x 2. The loops over these functions are in
`winograd.products`, and the transforms in `winograd.transforms`.

    void spread_panel(args, first, count, to, apart)
    void join_whole(args, sums, line, apart, first, count)      see `winograd.pool`
    void store_lines(tile, rows, columns, to, step)
    void single_R(left, row, plane, right, apart, depth, out, line, sums_apart)

    left + i * row, right       rows of kernels, and a panel of which one vector holds squares
    plane, apart, sums_apart    bytes to the next place's kernels, panels and sums

A vector has eight or 16 lanes, a lane for each square; the squares may lie anywhere in an image or
in several images. Eight lanes hold the even squares and then the odd ones. Two neighbours are then
at the same lane of the two halves, and four lines are transposed within each half. With 16 lanes,
each four lanes hold a neighbour out of every four. Some processors have only 16 registers, so lines
and columns are transformed singly, and are kept in memory in between.

With 16 lanes a panel is a single vector, because images have few squares.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from wend._engine.compiler.kernels.conv.image_batches import pieces
from wend._engine.compiler.kernels.conv.sizes import ConvolutionSizes
from wend._engine.compiler.kernels.conv.winograd.kernel_transform import spread_weight
from wend._engine.compiler.kernels.conv.winograd.products import winograd
from wend._engine.compiler.kernels.conv.winograd.squares import (
    LEAST_ROWS,
    NARROW,
    WIDE,
    count_squares,
    filled,
    has_tiles,
    is_large,
    multiplications,
    parameters,
    row_runs,
    squares_of,
    suited,
    together,
)
from wend._engine.compiler.kernels.conv.winograd.transforms import (
    join_even_4,
    join_line_4,
    join_odd_4,
    spread_line_4,
)
from wend._engine.compiler.kernels.matmul.macrokernel import arguments
from wend._engine.compiler.kernels.matmul.microkernel import (
    LINE,
    TileConfig,
    add_products,
    call_epilogue,
    lane_mask,
    lane_range,
    lanes_where,
    masked_store,
    row_places,
)
from wend._engine.compiler.kernels.matmul.packing import ElementReader, shuffled
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.integers import Bool
from wend._engine.compiler.llvm_ir.variants import Variant, variant

#: The filters of a tile.
FILTERS = 8
#: The most vectors of a panel: images have few squares.
WIDE_VECTORS = 1
#: The most neighbouring squares whose lines make a tile.
_GROUP = 4
#: The channels whose lines are all transformed in one direction before the second direction.
_CHANNELS = 4
# The least squares (of all images) times channels for which 4 x 4 pays. Then the most
# multiplications, in eighths of those of squares of 2 x 2.
# measured: command not recorded, 2026-11-23, a list of images takes 0.91 of the time with AVX2
_WORK, _EIGHTHS = 512, 7
# The least work where a transformed weight serves several convolutions, and the least channels
# for that limit: fewer channels gain little, for more rounding errors.
# measured: command not recorded, 2026-11-23, 13 x 13 pixels take half of the time
_SHARED_WORK, _SHARED_CHANNELS = 288, 32
# The most channels with vectors of 16 lanes. With more, a transformed chunk of squares has no room
# beside the kernels in the second-level cache. Squares of 2 x 2 are then multiplied faster.
# measured: command not recorded, 2026-11-24, four images of 64 x 28 x 28: 1.4 ms by squares of
# 2 x 2 against 1.6 ms
_MOST = 32

_PANEL = "ptr args, i64 first, i64 count"
JOINED = _PANEL.replace("args", "args, ptr sums, i64 line, i64 apart")


def has_wide(shape: TileConfig, dtype: str) -> bool:
    """Whether these functions exist for the processor and the dtype."""
    known = (2, 8) if shape.moves else (3, 16)
    return has_tiles(shape, dtype) and (shape.vectors, shape.lanes) == known


def cut(shape: TileConfig, vectors: int) -> TileConfig:
    """Return the tile configuration of these functions: panels of at most `vectors` vectors."""
    if shape.vectors <= 2:
        return shape
    return TileConfig(
        shape.element, shape.size, shape.lanes, shape.rows, vectors, shape.masks, line=shape.panel
    )


def square_of(shape: TileConfig, lane: int) -> int:
    """The number of the square that a lane holds, within its vector.

    Each four lanes hold one of every four neighbours.
    """
    return shape.lanes // 4 * (lane % 4) + lane // 4


def woven(shape: TileConfig) -> tuple[list[int], list[int]]:
    """Return two shuffle orders that interleave two vectors within each four lanes.

    The first order interleaves the first two lanes of each four, the second the last two.
    """
    low, high = (
        [
            start + k + side
            for start in range(0, shape.lanes, 4)
            for k in ks
            for side in (0, shape.lanes)
        ]
        for ks in ((0, 1), (2, 3))
    )
    return low, high


@variant("convolve")
class Winograd4x4(Variant):
    """As Winograd2x2, where it takes less arithmetic and the weight is small: 36 for 144."""

    @staticmethod
    def exists(c: ConvolutionSizes) -> bool:
        """Whether the library of the convolution has these squares."""
        return c.pools

    @staticmethod
    def applies(c: ConvolutionSizes) -> Bool:
        """Whether a convolution is computed by squares of 4 x 4, however it is cut."""
        counts = [count_squares(c, c["batch"], way) for way in (WIDE, NARROW)]
        shapes = cut(c.shape, WIDE_VECTORS), c.shape
        multiplied = [filled(*pair) for pair in zip(shapes, counts, strict=True)]
        positions = c["out_height"] * c["out_width"] * c["batch"]
        ways = zip(multiplied, (WIDE, NARROW), strict=True)
        work = [n * way.places for n, way in ways]
        several = c["shared"] != 0
        several = several & (c["channels"] >= _SHARED_CHANNELS)
        enough = several.choose(_SHARED_WORK, _WORK)
        condition = ~is_large(c["filters"], c["channels"])
        if c.shape.masks:
            condition = condition & (c["channels"] <= _MOST)
        steps = counts[0] * c["channels"]
        spent, most = multiplications(multiplied[0], positions, WIDE)
        eighths, few = work[0] * 8, work[1] * _EIGHTHS
        condition = suited(condition, c, shapes[0])
        condition = condition & (c["dilation_height"] == 1) & (c["dilation_width"] == 1)
        return condition & (steps >= enough) & (spent <= most) & (eighths <= few)

    @staticmethod
    def emit(c: ConvolutionSizes) -> None:
        """Write the call of `pool_squares`."""
        c.tell_pooled(True)
        c.f.line("call void @pool_squares(ptr %args)")


def wide_functions(shape: TileConfig, dtype: str, names: list[str]) -> list[str]:
    """The texts of these functions, for a processor where `has_wide` holds."""
    shape = cut(shape, WIDE_VECTORS)
    heights = range(LEAST_ROWS, shape.rows + 1)
    table = ", ".join(f"ptr @single_{rows}" for rows in heights)
    return [
        spread_weight(shape, dtype, names, WIDE),
        _spread_panel(shape, dtype, names),
        _store_lines(shape),
        _join_whole(shape, names),
        *(_single(shape, rows) for rows in heights),
        f"@singles = internal constant [{len(heights)} x ptr] [{table}]\n",
        winograd(shape, dtype, names, WIDE),
    ]


@contextmanager
def panel_runs(
    f: Routine, a: dict[str, str], most: int
) -> Iterator[tuple[str, str, tuple[str, str], str]]:
    """A loop over runs of up to `most` neighbouring squares of a panel or chunk.

    Yields a run's image, the number of squares before, the place of the first square (row and
    column), and the number of the run's squares.
    """
    high, wide = squares_of(f, a, WIDE)
    with (
        pieces(f, f.mul(high, wide), "%first", "%count") as (image, at, before, some),
        row_runs(f, at, some, wide, most, even=True) as (further, y, x, count),
    ):
        yield image, f.add(before, further), (y, x), count


def _turned(f: Routine, shape: TileConfig, x: list[str]) -> list[str]:
    """Transpose four vectors within each four lanes.

    Result k holds, in each four lanes, element k of all four vectors.
    """
    n = shape.lanes
    first, second = (
        [start + side + k for start in range(0, n, 4) for side in (0, n) for k in ks]
        for ks in ((0, 1), (2, 3))
    )
    vectors = []
    for order in woven(shape):
        pair = [shuffled(f, shape, x[k], x[k + 1], order, n) for k in (0, 2)]
        vectors += [shuffled(f, shape, pair[0], pair[1], picked, n) for picked in (first, second)]
    return vectors


def _spread_panel(shape: TileConfig, dtype: str, names: list[str]) -> str:
    """The text of `spread_panel`: it transforms the windows of a panel's squares, in all channels.

    The windows are of `count` squares. Columns are transformed first, on vectors of pixels as they
    lie in the image's lines. The first four numbers of each square follow those of the square
    before. The next two numbers (and two unused ones) are kept in a second area in the same way.
    Eight squares are thus four vectors in the first area and four in the second.
    """
    f = Routine("spread_panel", parameters(_PANEL + ", ptr to, i64 apart"), internal=True)
    _SpreadPanel(f, shape, ElementReader(shape, dtype), arguments(f, names, "input")).write()
    return f.text()


class _SpreadPanel:
    """The parts of the function `spread_panel`. a: the words, with strides in elements"""

    def __init__(
        self, f: Routine, shape: TileConfig, source: ElementReader, a: dict[str, str]
    ) -> None:
        self.f, self.shape, self.source, self.a = f, shape, source, a
        self.square = WIDE.side * shape.size
        # A line has room for the panel's squares, for squares that a run may overwrite, and for the
        # second area. The second area has a square in front.
        beyond = shape.lanes // WIDE.side
        self.rest = (shape.panel + beyond + 4) * self.square
        self.line = self.rest + (shape.panel + beyond) * self.square
        self.each = WIDE.seen * self.line
        self.kept = f.let(f"alloca [{_CHANNELS * self.each} x i8], align {shape.bytes}")

    def write(self) -> None:
        """Write the loop over blocks of channels."""
        f, a, shape, unit = self.f, self.a, self.shape, str(self.shape.size)
        # Lanes without a square are multiplied too, and denormal numbers in memory are very slow.
        with (
            f.when(f.is_("ne", "%count", str(shape.panel))),
            f.loop("0", str(_CHANNELS * self.each), str(shape.bytes)) as at,
        ):
            f.store(shape.vector, "zeroinitializer", f.at(self.kept, at), shape.bytes)
        image_bytes = f.mul(a["input_image"], unit)
        self.channel, self.row = f.mul(a["input_channel"], unit), f.mul(a["input_row"], unit)
        with f.loop("0", a["channels"], str(_CHANNELS)) as block:
            end = f.minimum(f.add(block, str(_CHANNELS)), a["channels"])
            with panel_runs(f, a, shape.panel) as (image, before, (y, x), count):
                top = f.sub(f.mul(y, str(WIDE.side)), a["pad_height"])
                side = f.sub(f.mul(x, str(WIDE.side)), a["pad_width"])
                corner = f.add(f.mul(top, self.row), f.mul(side, unit))
                corner = f.at(a["input"], f.add(corner, f.mul(image, image_bytes)))
                self.spread_columns(corner, top, side, before, count, (block, end))
            self.spread_rows(block, end)

    def spread_columns(
        self, corner: str, top: str, side: str, before: str, count: str, channels: tuple[str, str]
    ) -> None:
        """Write the transforms of the columns of a run of neighbouring squares.

        corner, top, side: the first pixel's address, row and column
        before, count: the number of squares before the run, and of the run's squares
        channels: the first channel of the block, and one behind its last
        """
        f, a, shape = self.f, self.a, self.shape
        lines = [f.at(corner, f.mul(self.row, str(r))) for r in range(WIDE.seen)]
        inside = [f.is_("ult", f.add(top, str(r)), a["input_height"]) for r in range(WIDE.seen)]
        within = f.every(inside)
        vectors = f.ceil_div(f.add(f.mul(count, str(WIDE.side)), "2"), shape.lanes)
        place = f.at(self.kept, f.mul(before, str(self.square)))
        for opening in (True, False):
            part = ("0", "1") if opening else ("1", vectors)
            with f.loop(*part) as v:
                ahead = f.mul(v, str(shape.lanes))
                here = f.add(side, ahead)
                last = f.sub(a["input_width"], here)
                mask = lane_range(f, shape.lanes, f.sub("0", here), last)
                chosen = [lanes_where(f, shape.lanes, i, mask) for i in inside]
                into = f.at(place, f.mul(v, str(shape.bytes)))
                for case, masks in (
                    (within, [mask] * WIDE.seen),
                    (f.let(f"xor i1 {within}, true"), chosen),
                ):
                    with f.when(case), f.loop(*channels) as c:
                        offset = f.add(f.mul(c, self.channel), f.mul(ahead, str(shape.size)))
                        places = zip(lines, masks, strict=True)
                        read = [self.source.vector(f, f.at(at, offset), m) for at, m in places]
                        to = f.at(into, f.mul(f.sub(c, channels[0]), str(self.each)))
                        self.keep(read, to, opening)

    def keep(self, read: list[str], to: str, opening: bool) -> None:
        """Transform vectors of six lines, and store the results at `to`, in both areas."""
        f, shape = self.f, self.shape
        for k, z in enumerate(spread_line_4(f, shape, read)):
            f.store(shape.vector, z, f.at(to, k * self.line), self.square)
            _store_behind(f, shape, z, f.at(to, k * self.line + self.rest), opening)

    def spread_rows(self, block: str, end: str) -> None:
        """Write the transforms of the rows of all squares, for the channels block ... end - 1."""
        f, shape, unit = self.f, self.shape, self.shape.size
        with (
            f.loop("0", f.ceil_div("%count", shape.lanes)) as q,
            f.loop(block, end) as c,
            f.loop("0", str(WIDE.seen)) as down,
        ):
            offset = f.add(f.mul(f.sub(c, block), str(self.each)), f.mul(down, str(self.line)))
            here = f.at(self.kept, f.add(offset, f.mul(q, str(shape.lanes * self.square))))
            raw = [
                [
                    f.load(shape.vector, f.at(here, start + k * shape.bytes), shape.bytes)
                    for k in range(WIDE.side)
                ]
                for start in (0, self.rest)
            ]
            numbers = _turned(f, shape, raw[0]) + _turned(f, shape, raw[1])[:2]
            offset = f.add(f.mul(c, str(shape.panel * unit)), f.mul(q, str(shape.bytes)))
            offset = f.add(offset, f.mul(down, f.mul("%apart", str(WIDE.seen))))
            to = f.at("%to", offset)
            for k, z in enumerate(spread_line_4(f, shape, numbers)):
                f.store(shape.vector, z, f.at(to, f.mul("%apart", str(k))), unit)


def _store_behind(f: Routine, shape: TileConfig, x: str, to: str, opening: bool) -> None:
    """Store a vector of the second area: each four numbers go to the square before their own.

    x: numbers that are the first four of their squares
    to: the address of the vector's first square in the second area
    opening: whether the vector is the first of its run
    """
    if not opening:
        return f.store(shape.vector, x, f.at(to, -WIDE.side * shape.size), shape.size)
    # The first square of a run has no square before it.
    upper = shuffled(f, shape, x, "poison", list(range(WIDE.side, shape.lanes)), shape.lanes)
    return f.store(f"<{shape.lanes - WIDE.side} x {shape.element}>", upper, to, shape.size)


def _store_lines(shape: TileConfig) -> str:
    """The function that stores a tile without an epilogue, of up to two vectors."""
    words = "ptr tile, i64 rows, i64 columns, ptr to, i64 step"
    f = Routine("store_lines", parameters(words), internal=True)
    # The last vector ends with the line, and may overlap the first.
    whole = f.is_("sge", "%columns", str(shape.lanes))
    last = f.mul(f.sub("%columns", str(shape.lanes)), str(shape.size))
    few = lane_mask(f, shape.lanes, "%columns")
    for way, places in (
        (whole, [("0", None), (last, None)]),
        (f.let(f"xor i1 {whole}, true"), [("0", few)]),
    ):
        with f.when(way), f.loop("0", "%rows") as i:
            source = f.at("%tile", f.mul(i, str(shape.tile_row)))
            to = f.at("%to", f.mul(i, "%step"))
            for offset, mask in places:
                x = f.load(shape.vector, f.at(source, offset), shape.size)
                masked_store(f, shape, x, f.at(to, offset), mask)
    return f.text()


def _single(shape: TileConfig, rows: int) -> str:
    """The text of the tile `single_R` of a single vector, which computes several places at a time.

    The tile keeps as many sums as a tile of a whole panel, and adds in the same order.
    """
    words = "ptr left, i64 row, i64 plane, ptr right, i64 apart, i64 depth, ptr out, i64 line"
    f = Routine(f"single_{rows}", parameters(words + ", i64 sums_apart"), internal=True)
    planes = [
        row_places(f, f.at("%left", f.mul("%plane", str(k))), "%row", rows)
        for k in range(together(shape))
    ]
    rights = [f.at("%right", f.mul("%apart", str(k))) for k in range(len(planes))]
    kind = shape.vector
    with f.turns("0", "%depth") as loop:
        sums = [[loop.carry(kind, "zeroinitializer") for _ in range(rows)] for _ in planes]
        step = f.mul(loop.index, str(shape.size))
        line = f.mul(loop.index, str(shape.panel * shape.size))
        for k, places in enumerate(planes):
            b = f.load(kind, f.at(rights[k], line), shape.bytes)
            plane_sums = add_products(f, shape, places(step), [b], sums[k])
            for old, new in zip(sums[k], plane_sums, strict=True):
                loop.become(old, new)
    for k, plane_sums in enumerate(sums):
        to = row_places(f, f.at("%out", f.mul("%sums_apart", str(k))), "%line", rows)("0")
        for place, x in zip(to, plane_sums, strict=True):
            f.store(kind, x, place, shape.size)
    return f.text()


class SquareTiles(NamedTuple):
    """The tiles for the lines of the squares of a panel or chunk, and each square's place in them.

    Each group of neighbouring squares has a tile for each line of a square. The first tiles take
    the lanes that hold no square.

    places: the address of an offset in `tiles` for each square
    tiles: the address of the tiles
    tile: the bytes of a tile
    """

    places: str
    tiles: str
    tile: int

    @staticmethod
    def of(
        f: Routine, shape: TileConfig, a: dict[str, str], most: int, group: int, side: int
    ) -> SquareTiles:
        """Write the allocation of the tiles, and the loop that fills in the places.

        most: the most squares
        group: the most neighbouring squares of a group
        side: the side of the square that each square becomes
        """
        places = f.let(f"alloca [{most + group} x i64], align 8")
        tile = FILTERS * shape.tile_row
        tiles = f.let(f"alloca [{(most + 1) * side * tile} x i8], align {LINE}")
        number = f.let("alloca i64, align 8")
        with f.loop("0", str(most)) as i:
            f.store("i64", "0", f.at(places, f.mul(i, "8")), 8)
        f.store("i64", "0", number, 8)
        with panel_runs(f, a, group) as (_, before, _, _):
            here = f.add(f.load("i64", number, 8), str(side * tile))
            f.store("i64", here, number, 8)
            for square in range(group):
                place = f.at(places, f.mul(f.add(before, str(square)), "8"))
                f.store("i64", f.add(here, str(square * side * shape.size)), place, 8)
        return SquareTiles(places, tiles, tile)

    @contextmanager
    def vectors(
        self, f: Routine, shape: TileConfig, first: str, rows: str
    ) -> Iterator[tuple[str, str, str]]:
        """A loop over the vectors of sums of `rows` filters from `first` on.

        Yields the addresses of a vector of sums, of its squares' places, and of its row in the
        first tile.
        """
        with f.loop("0", f.ceil_div("%count", shape.lanes)) as q, f.loop("0", rows) as i:
            here = f.add(f.mul(f.add(first, i), "%line"), f.mul(q, str(shape.bytes)))
            here = f.at("%sums", here)
            squares = f.at(self.places, f.mul(q, str(8 * shape.lanes)))
            yield here, squares, f.at(self.tiles, f.mul(i, str(shape.tile_row)))


def join_columns(f: Routine, shape: TileConfig, here: str, first_line: int) -> list[list[str]]:
    """Join the sums at `here` along columns, for two of the four lines of squares.

    Returns six pairs of vectors, a pair for each column of sums.

    first_line: 0 for the lines 0 and 2, 1 for the lines 1 and 3
    """
    seen, way = WIDE.seen, (join_even_4, join_odd_4)[first_line]
    columns = []
    for k in range(seen):
        wanted = range(first_line, first_line + seen - 1)
        read = [f.at(here, f.mul("%apart", str(seen * j + k))) for j in wanted]
        columns.append(way(f, shape, [f.load(shape.vector, at, shape.size) for at in read]))
    return columns


def _join_whole(shape: TileConfig, names: list[str]) -> str:
    """The text of `join_whole`: it makes the output of a panel's squares, for all filters."""
    f = Routine("join_whole", parameters(JOINED), internal=True)
    a = arguments(f, names, "out epilogue state")
    unit, side = shape.size, WIDE.side
    room = SquareTiles.of(f, shape, a, shape.panel, _GROUP, side)
    places, tiles, tile = room.places, room.tiles, room.tile
    kind = f"<{side} x {shape.element}>"
    channel = f.mul(a["out_channel"], str(unit))
    handed = f.is_("ne", a["epilogue"], "null", "ptr")
    with f.loop("0", a["filters"], str(FILTERS)) as first:
        rows = f.minimum(f.sub(a["filters"], first), str(FILTERS))
        with room.vectors(f, shape, first, rows) as (here, squares, to):
            # With 16 registers there is room for two lines of six sums.
            for first_line in (0, 1):
                columns = join_columns(f, shape, here, first_line)
                for part in (0, 1):
                    onto = f.at(to, (first_line + 2 * part) * tile)
                    outputs = join_line_4(f, shape, [column[part] for column in columns])
                    for k, z in enumerate(_turned(f, shape, outputs)):
                        for lane in range(0, shape.lanes, side):
                            lanes = list(range(lane, lane + side))
                            line_ = shuffled(f, shape, z, "poison", lanes, shape.lanes)
                            square = square_of(shape, lane + k)
                            offset = f.load("i64", f.at(squares, 8 * square), 8)
                            f.store(kind, line_, f.at(onto, offset), unit)
        with panel_runs(f, a, _GROUP) as (image, before, (y, x), count):
            top, left = f.mul(y, str(side)), f.mul(x, str(side))
            length = f.minimum(f.mul(count, str(side)), f.sub(a["out_width"], left))
            lines = f.minimum(f.sub(a["out_height"], top), str(side))
            base = f.at(tiles, f.load("i64", f.at(places, f.mul(before, "8")), 8))
            with f.loop("0", lines) as down:
                from_ = f.at(base, f.mul(down, str(tile)))
                column = f.add(f.mul(f.add(top, down), a["out_width"]), left)
                with f.when(handed):
                    there = (rows, length), (first, column), (f.add(image, a["origin"]), "0")
                    call_epilogue(f, a["epilogue"], from_, *there, a["state"])
                with f.when(f.let(f"xor i1 {handed}, true")):
                    offset = f.add(f.mul(first, channel), f.mul(column, str(unit)))
                    offset = f.add(offset, f.mul(image, f.mul(a["out_image"], str(unit))))
                    f.line(
                        f"call void @store_lines(ptr {from_}, i64 {rows}, i64 {length}, "
                        f"ptr {f.at(a['out'], offset)}, i64 {channel})"
                    )
    return f.text()
