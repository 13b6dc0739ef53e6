"""Convolutions of 3 x 3 by half of the multiplications: Winograd's F(4, 3) along the columns.

With few channels, squares do not pay: each place of a square would be a product of a few steps, and
the transforms before and after would be as much work. So the image is transformed along a single
dim. Four rows of the output depend on six rows of the image. These rows are transformed into six
sums (see `winograd.tiles_4x4`), and the three rows of the kernel are too. Each sum of image rows is
convolved with one sum of kernel rows, as a line with three taps. Six such results are joined to
four rows of the output: 18 multiplications in place of 36. Nothing moves between lanes. Rounding
errors are up to 2.5 times those of plain sums.

    void winograd_rows(args)                `convolve`, where `Winograd4x1` applies
    void spread_rows(args, to)
    void spread_lines(args, image, top, to, line)
    void rows_RxW(kernels, panel, channels, line, plane, sums, apart)
    void join_lines(sums, rows, width, to, apart)

Four rows of the output are finished before the next four begin. The lines of the image for these
rows, of all channels, and the sums of some columns stay in the first-level cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from wend._engine.compiler.kernels.conv.sizes import ConvolutionSizes
from wend._engine.compiler.kernels.conv.winograd.pool import is_pooled, pooled_size
from wend._engine.compiler.kernels.conv.winograd.squares import WIDE, parameters
from wend._engine.compiler.kernels.conv.winograd.tiles_4x4 import cut
from wend._engine.compiler.kernels.conv.winograd.transforms import join_line_4, spread_line_4
from wend._engine.compiler.kernels.matmul.macrokernel import (
    Scratch,
    Tiles,
    arguments,
    panel_capacity,
)
from wend._engine.compiler.kernels.matmul.microkernel import (
    LINE,
    TileConfig,
    call_epilogue,
    fetch,
    lane_mask,
    lane_range,
    lanes_where,
    spread,
)
from wend._engine.compiler.kernels.matmul.packing import ElementReader
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.integers import Bool, Int
from wend._engine.compiler.llvm_ir.variants import Variant, variant

# The least filters for which this pays. The most channels, with which the sums are as accurate as
# plain sums of many channels. The least columns, so that no part of a vector is stored.
# measured: command not recorded, 2026-11-23, a list of images takes 0.93 of the time with AVX2
_FILTERS, _CHANNELS, _COLUMNS = 8, 16, 8
# The least rows of a tile, with at least _FILTERS filters.
_ROWS = 4
_SIDE, _SEEN, _TAPS = WIDE.side, WIDE.seen, 3


def _line(shape: TileConfig, width: Int) -> Int:
    """The bytes of a transformed line: whole vectors, and a vector more that panels reach into."""
    return ((width + (_TAPS - 1)).ceil_div(shape.lanes) + 1) * shape.bytes


@variant("convolve, shifted image")
class Winograd4x1(Variant):
    """3 x 3 taps, up to 16 channels, 8 filters or more: columns only, 18 products for 36."""

    @staticmethod
    def exists(c: ConvolutionSizes) -> bool:
        """Whether the library of the convolution has these tiles."""
        return c.pools

    @staticmethod
    def applies(c: ConvolutionSizes) -> Bool:
        """Whether a convolution for which `ShiftedImage` applies is transformed along columns."""
        shape = c.shape
        lines = c["channels"] * _SEEN * _line(shape, c["out_width"])
        taken = c["out_height"].ceil_div(_SIDE) * (_SEEN * 8)
        taken = taken * (c["out_width"].ceil_div(shape.lanes) * shape.lanes)
        direct = c["out_height"] * c["out_width"] * (_TAPS * 6)
        condition = c["groups"] == 1
        if shape.masks:  # here squares of 2 x 2 take fewer convolutions than elsewhere
            condition = condition & (c["channels"].at_most(c["filters"]) < _CHANNELS)
        condition = condition & (c["kernel_height"] == _TAPS) & (c["kernel_width"] == _TAPS)
        condition = condition & (c["dilation_height"] == 1) & (c["dilation_width"] == 1)
        condition = condition & (c["input_column"] == 1) & (c["filters"] >= _FILTERS)
        condition = condition & (c["out_width"] >= _COLUMNS) & (c["channels"] <= _CHANNELS)
        condition = condition & (lines <= panel_capacity(shape) * shape.size)
        # Groups of rows and vectors are filled up; at most 3/4 of the multiplications may be left.
        return condition & (taken <= direct)

    @staticmethod
    def emit(c: ConvolutionSizes) -> None:
        """Write the call of `winograd_rows`."""
        c.tell_pooled(True)
        c.f.line("call void @winograd_rows(ptr %args)")


def rows_functions(shape: TileConfig, dtype: str, names: list[str]) -> list[str]:
    """The texts of these functions, for a processor that has those of `winograd.tiles_4x4`."""
    whole, shape = shape, cut(shape, 2)
    sizes = [(rows, width) for rows in range(_ROWS, shape.rows + 1) for width in (1, shape.vectors)]
    table = ", ".join(f"ptr @rows_{rows}x{width}" for rows, width in sizes)
    return [
        *(_tile(shape, rows, width) for rows, width in sizes),
        f"@rows_tiles = internal constant [{len(sizes)} x ptr] [{table}]\n",
        _spread_rows(shape, dtype, names),
        _spread_lines(shape, dtype, names),
        _join_lines(shape),
        _winograd_rows(whole, shape, names),
    ]


def _spread_rows(shape: TileConfig, dtype: str, names: list[str]) -> str:
    """The text of `spread_rows`: it transforms the kernels.

    The result is an array for each tile, (places, channels, taps, rows).
    """
    f = Routine("spread_rows", parameters("ptr args, ptr to"), internal=True)
    a = arguments(f, names, "weight")
    source = ElementReader(shape, dtype)
    unit, each = str(shape.size), _TAPS * shape.size
    three = lane_mask(f, shape.lanes, str(_TAPS))
    row_bytes = f.mul(a["weight_filter"], unit)
    tile_row = f.mul(f.mul(a["channels"], str(each)), str(_SEEN))
    with _tiles_of(f, shape, a) as (row, height):
        line = f.mul(height, unit)
        apart = f.mul(f.mul(a["channels"], str(_TAPS)), line)
        tile = f.at("%to", f.mul(row, tile_row))
        with f.loop("0", height) as i, f.loop("0", a["channels"]) as c:
            here = f.add(f.mul(f.add(row, i), row_bytes), f.mul(c, str(_TAPS * each)))
            here = f.at(a["weight"], here)
            taps = [source.vector(f, f.at(here, r * each), three) for r in range(_TAPS)]
            to = f.at(tile, f.add(f.mul(f.mul(c, str(_TAPS)), line), f.mul(i, unit)))
            for k, x in enumerate(WIDE.taps(f, shape, taps)):
                for tap in range(_TAPS):
                    one = f.let(f"extractelement {shape.vector} {x}, i64 {tap}")
                    place = f.add(f.mul(apart, str(k)), f.mul(line, str(tap)))
                    f.store(shape.element, one, f.at(to, place), shape.size)
    return f.text()


@contextmanager
def _tiles_of(f: Routine, shape: TileConfig, a: dict[str, str]) -> Iterator[tuple[str, str]]:
    """A loop over the tiles of all filters. Yields the first row of a tile, and its height."""
    tiles = Tiles.of(f, shape, a["filters"])
    with f.turns("0", tiles.count) as loop:
        row = loop.carry("i64", "0")
        height = tiles.height(f, loop.index)
        loop.become(row, f.add(row, height))
        yield row, height


def _tile(shape: TileConfig, rows: int, width: int) -> str:
    """The text of a tile `rows_RxW`, which computes all places in order.

    A tile of a single vector computes two places at a time, and so keeps as many sums.

    rows: the filters of the tile
    width: the vectors of the tile, one or two
    """
    words = "ptr kernels, ptr panel, i64 channels, i64 line, i64 plane, ptr sums, i64 apart"
    f = Routine(f"rows_{rows}x{width}", parameters(words), internal=True)
    kind, step = shape.vector, rows * shape.size
    together = shape.vectors // width
    place_bytes = f.mul("%channels", str(_TAPS * step))
    with f.turns("0", str(_SEEN), str(together)) as places:
        kernel = places.carry("ptr", "%kernels")
        seen = f.at("%panel", f.mul(places.index, "%plane"))
        with f.turns("0", "%channels") as channels:
            sums = [channels.carry(kind, "zeroinitializer") for _ in range(rows * shape.vectors)]
            left, right = channels.carry("ptr", kernel), channels.carry("ptr", seen)
            now = sums
            for tap in range(_TAPS):
                there = [
                    f.at(f.at(right, f.mul("%plane", str(k))), tap * shape.size + w * shape.bytes)
                    for k in range(together)
                    for w in range(width)
                ]
                panel = [f.load(kind, place, shape.size) for place in there]
                new_sums = []
                for row in range(rows):
                    for k in range(together):
                        place = f.at(f.at(left, f.mul(place_bytes, str(k))), tap * step)
                        place = f.at(place, row * shape.size)
                        factor = spread(f, shape, f.load(shape.element, place, shape.size))
                        for w in range(width):
                            n = k * width + w
                            many = f"{kind} {factor}, {kind} {panel[n]}, "
                            many += f"{kind} {now[row * shape.vectors + n]}"
                            name = f"@llvm.fmuladd.{shape.suffix}"
                            new_sums.append(f.let(f"call {kind} {name}({many})"))
                now = new_sums
            for name, x in zip(sums, now, strict=True):
                channels.become(name, x)
            channels.become(left, f.at(left, _TAPS * step))
            channels.become(right, f.at(right, "%line"))
        into = f.at("%sums", f.mul(places.index, "%apart"))
        for row in range(rows):
            for n in range(shape.vectors):
                k, w = divmod(n, width)
                place = f.at(into, f.mul("%apart", str(k)))
                place = f.at(place, row * shape.tile_row + w * shape.bytes)
                f.store(kind, sums[row * shape.vectors + n], place, shape.bytes)
        places.become(kernel, f.at(kernel, f.mul(place_bytes, str(together))))
    return f.text()


def _spread_lines(shape: TileConfig, dtype: str, names: list[str]) -> str:
    """The text of `spread_lines`: it transforms six lines of the image, from line `top` on.

    The result is six planes of (channels, columns).
    """
    words = "ptr args, ptr image, i64 top, ptr to, i64 line"
    f = Routine("spread_lines", parameters(words), internal=True)
    a = arguments(f, names, "")
    source = ElementReader(shape, dtype)
    unit = str(shape.size)
    channel, row = f.mul(a["input_channel"], unit), f.mul(a["input_row"], unit)
    inside = [f.is_("ult", f.add("%top", str(r)), a["input_height"]) for r in range(_SEEN)]
    first = f.at("%image", f.sub(f.mul("%top", row), f.mul(a["pad_width"], unit)))
    apart = f.mul("%line", a["channels"])
    with f.loop("0", "%line", str(shape.bytes)) as at:
        ahead = f.div(at, unit)
        side = f.sub(ahead, a["pad_width"])
        mask = lane_range(f, shape.lanes, f.sub("0", side), f.sub(a["input_width"], side))
        masks = [lanes_where(f, shape.lanes, i, mask) for i in inside]
        with f.loop("0", a["channels"]) as c:
            here = f.at(first, f.add(f.mul(c, channel), at))
            places = [f.at(here, f.mul(row, str(r))) for r in range(_SEEN + _SIDE)]
            for place in places[_SEEN:]:
                fetch(f, place, level=1)
            read = [source.vector(f, place, m) for place, m in zip(places, masks, strict=False)]
            to = f.at("%to", f.add(f.mul(c, "%line"), at))
            for k, x in enumerate(spread_line_4(f, shape, read)):
                f.store(shape.vector, x, f.at(to, f.mul(apart, str(k))), shape.bytes)
    return f.text()


def _join_lines(shape: TileConfig) -> str:
    """The text of `join_lines`: it makes four tiles of output from six tiles of sums.

    Neighbouring tiles lie `apart` bytes apart.
    """
    words = "ptr sums, i64 rows, i64 width, ptr to, i64 apart"
    f = Routine("join_lines", parameters(words), internal=True)
    with f.loop("0", "%rows") as i, f.loop("0", "%width") as w:
        offset = f.add(f.mul(i, str(shape.tile_row)), f.mul(w, str(shape.bytes)))
        here, to = f.at("%sums", offset), f.at("%to", offset)
        sums = [
            f.load(shape.vector, f.at(here, f.mul("%apart", str(k))), shape.bytes)
            for k in range(_SEEN)
        ]
        for k, x in enumerate(join_line_4(f, shape, sums)):
            f.store(shape.vector, x, f.at(to, f.mul("%apart", str(k))), shape.bytes)
    return f.text()


def _is_over(f: Routine, shape: TileConfig, ready: str, columns: str, left: str) -> str:
    """Whether a tile with `ready` windows is handed on now: an i1.

    A tile is handed on if these columns are the last, or if the tile is more than half full. A tile
    that is just half full is handed on if the remaining windows fill more than half a tile, but not
    a whole tile: neither tile is then short of a vector.

    ready: the windows in the tile
    columns: the columns that have just been computed
    left: the columns of the row that were left before these columns
    """
    half = shape.panel // 2
    last = f.is_("eq", columns, left)
    behind = f.div(f.sub(left, columns), "2")
    enough = f.is_("ult", f.sub(behind, str(half + 1)), str(half - 1))
    over = f.either(last, f.is_("sgt", ready, str(half)))
    return f.either(over, f.both(enough, f.is_("eq", ready, str(half))))


def _winograd_rows(whole: TileConfig, shape: TileConfig, names: list[str]) -> str:
    f = Routine("winograd_rows", [("ptr", "args")], internal=True)
    rows = _Rows(f, whole, shape, arguments(f, names, "input out epilogue state scratch"))
    rows.write()
    return f.text()


class _Rows:
    """The parts of the function `winograd_rows`.

    a: the words, with strides in elements
    """

    def __init__(self, f: Routine, whole: TileConfig, shape: TileConfig, a: dict[str, str]) -> None:
        self.f, self.shape, self.a = f, shape, a
        self.unit, self.tile_row = str(shape.size), str(shape.tile_row)
        self.room = room = Scratch.of(f, whole, a["scratch"])
        self.line = str(_line(shape, Int(a["out_width"], f)))
        # Tiles are a cache line longer than their data, or all tiles would use the same cache sets.
        self.apart = f.add(f.mul(a["filters"], self.tile_row), str(LINE))
        self.plane = f.mul(a["channels"], self.line)
        # The memory at `sums` holds the sums, then the tiles, then the kernels.
        self.sums = room.rows
        self.tiles = f.at(self.sums, f.mul(self.apart, str(_SEEN)))
        self.kernels = f.at(self.tiles, f.mul(self.apart, str(_SIDE)))
        self.kernel_row = f.mul(f.mul(a["channels"], self.unit), str(_SEEN * _TAPS))

    def write(self) -> None:
        """Write the loops over images, and over groups of rows."""
        f, a = self.f, self.a
        f.line(f"call void @spread_rows(ptr %args, ptr {self.kernels})")
        wide, image_bytes = a["out_width"], f.mul(a["input_image"], self.unit)
        self.channel = f.mul(a["out_channel"], self.unit)
        self.pooled = pooled = is_pooled(f, a)
        self.unpooled = f.let(f"xor i1 {pooled}, true")
        self.handed = f.is_("ne", a["epilogue"], "null", "ptr")
        self.not_handed = f.let(f"xor i1 {self.handed}, true")
        # With pooling, columns and rows that are in no window are not computed.
        down, across = pooled_size(f, a)
        self.until = f.select(pooled, f.mul(across, "2"), wide)
        # A call may compute a part of one image: the groups of rows that begin in that part.
        four = f.mul(wide, str(_SIDE))
        begin, end = (
            f.div(f.add(a[name], f.sub(four, "1")), four)
            for name in ("first_column", "last_column")
        )
        end = f.select(pooled, f.minimum(end, f.ceil_div(down, _SIDE // 2)), end)
        with f.loop("0", a["images"]) as image, f.loop(begin, end) as group:
            top = f.mul(group, str(_SIDE))
            seen = f.sub(top, a["pad_height"])
            here = f.at(a["input"], f.mul(image, image_bytes))
            operands = f"ptr {here}, i64 {seen}, ptr {self.room.panels}, i64 {self.line}"
            f.line(f"call void @spread_lines(ptr %args, {operands})")
            high = f.minimum(f.sub(a["out_height"], top), str(_SIDE))
            out = f.at(a["out"], f.mul(image, f.mul(a["out_image"], self.unit)))
            self.four_rows(image, top, high, out)

    def four_rows(self, image: str, top: str, high: str, out: str) -> None:
        """Write the loop over the columns of four rows of the output.

        image: the number of the image
        top, high: the first row, and the number of rows
        out: the address of the image's output
        """
        f, shape = self.f, self.shape
        with f.turns("0", self.until) as run:
            waiting = run.carry("i64", "0")
            # The last columns fill at least a vector, so the columns before them may be fewer.
            left = f.sub(self.until, run.index)
            most, lanes = str(shape.panel), str(shape.lanes)
            fewer = f.is_("slt", left, str(shape.panel + shape.lanes))
            shared = f.select(f.is_("sgt", left, most), f.sub(left, lanes), left)
            columns = f.select(fewer, shared, most)
            run.step = columns
            width = f.select(f.is_("sgt", columns, lanes), "2", "1")
            self.multiply(run.index, width)
            # Windows wait for the windows of the next columns, and both together fill a tile.
            ready = f.add(waiting, f.div(columns, "2"))
            over = _is_over(f, shape, ready, columns, left)
            run.become(waiting, f.select(over, "0", ready))
            with f.when(self.pooled):
                self.pool(image, top, run.index, (waiting, ready, over))
            operands = f"ptr {self.sums}, i64 {self.a['filters']}, i64 {width}, ptr {self.tiles}"
            with f.when(self.unpooled):
                f.line(f"call void @join_lines({operands}, i64 {self.apart})")
            with f.loop("0", f.select(self.pooled, "0", high)) as down:
                self.hand(image, (top, down), run.index, columns, out)

    def multiply(self, first: str, width: str) -> None:
        """Write the products of all filters, from column `first` on, of `width` vectors."""
        f, a = self.f, self.a
        panel = f.at(self.room.panels, f.mul(first, self.unit))
        with _tiles_of(f, self.shape, a) as (row, height):
            number = f.add(f.mul(f.sub(height, str(_ROWS)), str(self.shape.vectors)), width)
            place = f.at("@rows_tiles", f.mul(f.sub(number, "1"), "8"))
            kernel = f.at(self.kernels, f.mul(row, self.kernel_row))
            into = f.at(self.sums, f.mul(row, self.tile_row))
            f.line(
                f"call void {f.load('ptr', place, 8)}(ptr {kernel}, ptr {panel}, "
                f"i64 {a['channels']}, i64 {self.line}, i64 {self.plane}, ptr {into}, "
                f"i64 {self.apart})"
            )

    def pool(self, image: str, top: str, column: str, windows: tuple[str, str, str]) -> None:
        """Write the pooling of some columns.

        windows: those in the tile before and after, and an i1: whether the tile is handed on now
        """
        f, a = self.f, self.a
        waiting, ready, over = windows
        to = f.at(self.tiles, f.mul(waiting, self.unit))
        operands = f"ptr {self.sums}, i64 {a['filters']}, ptr {to}, i64 {self.apart}"
        f.line(f"call void @pool_lines({operands})")
        with f.when(over):
            operands = f"ptr %args, ptr {self.tiles}, i64 {self.apart}, i64 {a['filters']}, i64 0"
            first = f.sub(f.div(column, "2"), waiting)
            place = f"i64 {f.div(top, '2')}, i64 {first}, i64 {ready}, i64 {image}"
            f.line(f"call void @hand_pooled({operands}, {place})")

    def hand(self, image: str, row: tuple[str, str], first: str, columns: str, out: str) -> None:
        """Write the call that hands a row's tile to the epilogue, or stores the tile.

        row: the first of four rows of the output, and the number of this row among them
        first, columns: the first column, and the number of columns
        """
        f, a = self.f, self.a
        tile = f.at(self.tiles, f.mul(row[1], self.apart))
        column = f.add(f.mul(f.add(*row), a["out_width"]), first)
        with f.when(self.handed):
            there = (a["filters"], columns), ("0", column), (f.add(image, a["origin"]), "0")
            call_epilogue(f, a["epilogue"], tile, *there, a["state"])
        with f.when(self.not_handed):
            to = f.at(out, f.mul(column, self.unit))
            operands = f"ptr {tile}, i64 {a['filters']}, i64 {columns}, ptr {to}"
            f.line(f"call void @store_lines({operands}, i64 {self.channel})")
