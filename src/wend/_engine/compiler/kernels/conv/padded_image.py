"""Convolutions with stride 1 without im2col: panels are the padded image, shifted by a tap.

With stride 1, the pixels that a tap meets for neighbouring positions lie side by side in the
image. So the image is copied once with its padding, as many rows as the second-level cache has room
for. A row of a panel is then vectors of that copy, at an offset from a table with an entry for each
step of depth. Rows of the copy share their padding. A column or two of padding between rows of the
output are therefore computed in vain, and left out when a tile is stored.

    void shifted(args)                      `convolve`, where `ShiftedImage` applies
    void shifted_RxW(a, a_row, depth, offsets, b, pieces, out, out_row)

    a + i * a_row               row i of the left operand, with its steps side by side
    b + offsets[k]              W vectors of step k, one after another
    pieces                      see `_Pieces` and `_Moves`
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from wend._engine.base.records import Record
from wend._engine.compiler.kernels.conv.image_batches import most_columns
from wend._engine.compiler.kernels.conv.sizes import ConvolutionSizes, write_variants
from wend._engine.compiler.kernels.matmul.macrokernel import (
    Scratch,
    Tiles,
    arguments,
    handed_rows,
    panel_capacity,
    panels,
)
from wend._engine.compiler.kernels.matmul.microkernel import (
    TileConfig,
    add_products,
    call_epilogue,
    fetch,
    lane_mask,
    lane_range,
    masked_store,
    row_places,
    spread_integer,
)
from wend._engine.compiler.kernels.matmul.packing import ElementReader
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.integers import Bool, Int
from wend._engine.compiler.llvm_ir.masks import store_counted
from wend._engine.compiler.llvm_ir.variants import Variant, variant

#: The most steps of depth, so that the rows of a tile stay in the first-level cache.
_DEPTH = 1024
#: The most filters. More filters pay for packing, after which a step has less to read.
# measured: command not recorded, 2026-11-22, 16 to 32 channels 1.26 times as fast as packing
_FILTERS = 64
#: The bytes of an image's output that the second-level cache keeps. A larger output is prefetched
#: for the epilogue.
_FAR = 1 << 19
#: The distance, in bytes, from a copied vector of the image to the vector prefetched with it.
_AHEAD = 1024
#: The four-byte words of a vector whose lanes move.
_WORDS = 8
#: The least rows of the output that a copy must serve, unless the output has fewer. The rows that
#: the kernel reaches beyond them are copied again for the next copy.
_ROWS = 8


@variant("convolve", after="Winograd2x2")
class ShiftedImage(Variant):
    """Steps of 1, up to 64 filters and 1024 steps of depth: the padded image, shifted by taps."""

    @staticmethod
    def applies(c: ConvolutionSizes) -> Bool:
        """Whether a convolution is computed from a padded copy, however it is cut.

        c: the words of `convolve`, with strides in elements
        """
        # Parts of vectors are stored under a mask, which takes one store a lane with short vectors.
        if c.shape.bytes < 32 or c.widened:
            return c.never
        taps = c["kernel_height"] * c["kernel_width"]
        positions = c["out_height"] * c["out_width"]
        rows = _Window.of(c).rows(c)
        condition = ~c.small
        # Small images of a batch form a single product.
        alone = positions * 2 > most_columns(c.shape)
        condition = condition & (alone | (c["batch"] == 1))
        depth, least = c["channels"] * taps, c["out_height"].at_most(_ROWS)
        condition = condition & (c["stride_height"] == 1) & (c["stride_width"] == 1)
        condition = condition & (c["accumulate"] == 0) & (taps >= 2) & (depth <= _DEPTH)
        return condition & (c["filters"] >= 1) & (c["filters"] <= _FILTERS) & (rows >= least)

    @staticmethod
    def emit(c: ConvolutionSizes) -> None:
        """Write the call of `shifted`, or of a variant for such images."""
        write_variants("convolve, shifted image", c)
        if c.pools:
            c.tell_pooled(False)
        c.f.line("call void @shifted(ptr %args)")


class _Window(Record):
    """The pixels that a kernel covers, relative to its tap 0, and the rows of the copy."""

    above: Int  # rows from tap 0 to the topmost tap: 0, or less if steps go back
    before: Int  # columns from tap 0 to the leftmost tap: 0, or less if steps go back
    down: Int  # rows from the topmost tap to the lowest tap
    pad: Int  # columns of padding in front
    pitch: Int  # elements in a row of the copy

    @staticmethod
    def of(c: ConvolutionSizes) -> _Window:
        reaches = []
        for side in ("height", "width"):
            reach = (c["kernel_" + side] - 1) * c["dilation_" + side]
            back = reach.at_most(0)
            reaches += [back, reach - back - back]
        above, down, before, across = reaches
        pad = c["pad_width"] - before
        # Pixels that a window reaches beyond a row must be padding, shared with the next row.
        whole = c["out_width"] + across
        pitch = c["out_width"].at_least(whole.at_most(pad + c["input_width"]))
        pitch = pitch.at_least(whole - pad.at_least(0))
        return _Window(above, before, down, pad, pitch)

    def rows(self, c: ConvolutionSizes) -> Int:
        """The most rows of the output that a copy serves; below 1 if no row has room."""
        left = panel_capacity(c.shape) // 2 - self.slack(c.shape)
        line = (c["channels"] * self.pitch).at_least(1)
        rows = left.at_least(0) // line - (self.down + 1)
        return rows.at_most(c["out_height"])

    def slack(self, shape: TileConfig) -> Int:
        """The number of elements read beyond the copy, for lanes that are never stored."""
        return self.pitch + 2 * shape.panel


def shifted(shape: TileConfig, dtype: str, names: list[str]) -> str:
    """The texts of the function `shifted` and of its tiles."""
    # Tiles of fewer rows are the last tiles of few filters, or the only tiles of very few.
    sizes = [(rows, shape.vectors) for rows in range(1, shape.rows + 1)]
    sizes += [(shape.rows, width) for width in range(1, shape.vectors)]
    texts = [_tile(shape, *size) for size in sizes]
    table = ", ".join(
        f"ptr @shifted_{rows}x{width if rows == shape.rows else shape.vectors}"
        for rows in range(1, shape.rows + 1)
        for width in range(1, shape.vectors + 1)
    )
    count = shape.rows * shape.vectors
    texts.append(f"@shifted_tiles = internal constant [{count} x ptr] [{table}]\n")
    f = Routine("shifted", [("ptr", "args")], internal=True)
    a = arguments(f, names, "input weight out epilogue state scratch")
    _Shifted(f, shape, ElementReader(shape, dtype), a).write()
    return "\n".join([*texts, f.text()])


class _Pieces(Record):
    """A table of where the lanes of a panel are stored: pieces, each within a row of the output.

    In memory, the first words are the end of each vector's pieces, in bytes from the table's
    beginning. The table follows. A piece is a mask, in bits, and the bytes from the panel's place
    in the output to the vector's place.

    base: the address of that memory
    """

    f: Routine
    shape: TileConfig
    base: str

    @staticmethod
    def room(f: Routine, shape: TileConfig) -> str:
        """Allocate memory for the pieces of a panel: at most one for each lane. Returns it."""
        words = 2 * shape.vectors + 2 * (shape.panel + 1)
        return f.let(f"alloca [{words} x i64], align 64")

    @property
    def table(self) -> str:
        """The address of the table: behind the ends, of which twice as many may be written."""
        return self.f.at(self.base, 16 * self.shape.vectors)

    def put(self, lanes: str, side: str, wide: str, pitch: str, own: str) -> str:
        """Write the pieces of a panel into the table. Returns the number of columns to store.

        lanes: the lanes of all vectors
        side: the column of the first lane in its row of the copy
        wide: the columns of a row that are stored
        pitch: the columns of a row of the copy
        own: an i1, whether the tile is stored in the call's own memory
        """
        f, shape, each = self.f, self.shape, str(self.shape.lanes)
        for w in range(shape.vectors):
            f.store("i64", "0", f.at(self.base, 8 * w), 8)
        with f.turns("0", lanes) as run:
            x, stored, entry = (run.carry("i64", start) for start in (side, "0", "0"))
            vector = f.div(run.index, each)
            lane = f.sub(run.index, f.mul(vector, each))
            some = f.minimum(f.sub(wide, x), f.sub(each, lane))
            some = f.maximum(f.minimum(some, f.sub(lanes, run.index)), "0")
            here = f.at(self.table, entry)
            bits = f.let(f"xor i64 {f.let(f'shl i64 -1, {some}')}, -1")
            f.store("i64", f.let(f"shl i64 {bits}, {lane}"), here, 8)
            f.store("i64", f.mul(f.sub(stored, lane), str(shape.size)), f.at(here, 8), 8)
            next_ = f.add(entry, f.select(f.is_("eq", some, "0"), "0", "16"))
            end = f.at(self.base, f.mul(vector, "8"))
            for later in range(shape.vectors):
                f.store("i64", next_, f.at(end, 8 * later), 8)
            reached = f.add(x, some)
            over = f.is_("sge", reached, wide)
            run.step = f.select(over, f.sub(f.add(some, pitch), reached), some)
            run.become(x, f.select(over, "0", reached))
            run.become(stored, f.add(stored, some))
            run.become(entry, next_)
        return stored

    def store(self, width: int, sums: list[str], out: str, apart: str) -> None:
        """Store a tile at `out`.

        width: the vectors of a row
        sums: the vectors, row by row
        apart: the bytes from row to row of the output
        """
        for w in range(width):
            self._store(w, sums[w::width], out, apart)

    def _store(self, w: int, sums: list[str], out: str, apart: str) -> None:
        """Store the vectors of a column of a tile, a vector for each row."""
        f, lanes = self.f, self.shape.lanes
        first = f.load("i64", f.at(self.base, 8 * w - 8), 8) if w else "0"
        with f.loop(first, f.load("i64", f.at(self.base, 8 * w), 8), "16") as piece:
            here = f.at(self.table, piece)
            bits = f.load(f"i{lanes}", here, 8)
            mask = f.let(f"bitcast i{lanes} {bits} to <{lanes} x i1>")
            to = f.at(out, f.load("i64", f.at(here, 8), 8))
            for row, x in enumerate(sums):
                masked_store(f, self.shape, x, f.at(to, f.mul(apart, str(row))), mask)


class _Moves(Record):
    """Where the lanes of a panel come from: lanes that are stored move to the panel's front.

    This record takes the place of `_Pieces` on processors that move lanes. In memory, the first
    word is how many lanes to store, or more. The second is whether any lane moves. Then each
    four-byte word of two vectors has the number of the word that it comes from, among both.

    base: the address of that memory
    """

    f: Routine
    shape: TileConfig
    base: str

    @staticmethod
    def room(f: Routine, shape: TileConfig) -> str:
        """Allocate memory for the moves of a panel. Returns it."""
        assert shape.vectors == 2 and shape.bytes == 4 * _WORDS
        return f.let(f"alloca [{4 + _WORDS} x i64], align 64")

    def put(self, lanes: str, side: str, wide: str, pitch: str, own: str) -> str:
        """Write the moves of a panel. Returns the number of columns to store, see `_Pieces.put`."""
        f, each = self.f, self.shape.size // 4
        kind = f"<{_WORDS} x i32>"
        low = f.minimum(side, wide)
        start, begin, gap = (
            spread_integer(f, _WORDS, x) for x in (f.sub(low, side), low, f.sub(pitch, wide))
        )
        lane = [
            f"<{', '.join(f'i32 {(_WORDS * part + k) // each}' for k in range(_WORDS))}>"
            for part in (0, 1)
        ]
        places = [f.let(f"add {kind} {x}, {begin}") for x in lane]
        sources = [f.let(f"add {kind} {x}, {start}") for x in lane]
        end = f.add(low, str(self.shape.panel))
        with f.turns(wide, end, wide) as row:
            edge = spread_integer(f, _WORDS, row.index)
            now = [row.carry(kind, x) for x in sources]
            for x, place in zip(now, places, strict=True):
                beyond = f.let(f"icmp sge {kind} {place}, {edge}")
                more = f.let(
                    f"select <{_WORDS} x i1> {beyond}, {kind} {gap}, {kind} zeroinitializer"
                )
                row.become(x, f.let(f"add {kind} {x}, {more}"))
        within = f"<{', '.join(f'i32 {k % each}' for k in range(_WORDS))}>"
        for part, x in enumerate(now):
            for _ in range(each - 1):
                x = f.let(f"add {kind} {x}, {x}")
            x = f.let(f"add {kind} {x}, {within}")
            f.store(kind, x, f.at(self.base, 32 + 4 * _WORDS * part), 8)
        reached = f.add(side, lanes)
        rows = f.div(reached, pitch)
        stored = f.minimum(f.sub(reached, f.mul(rows, pitch)), wide)
        stored = f.sub(f.add(f.mul(rows, wide), stored), low)
        f.store("i64", f.select(own, str(self.shape.panel), stored), f.at(self.base, 0), 8)
        moved = f.either(f.is_("sge", side, wide), f.is_("sgt", reached, pitch))
        f.store("i64", f.let(f"zext i1 {moved} to i64"), f.at(self.base, 8), 8)
        return stored

    def store(self, width: int, sums: list[str], out: str, apart: str) -> None:
        """Store a tile, see `_Pieces.store`."""
        f, shape, before = self.f, self.shape, self.f.block
        rows = len(sums) // width
        with f.when(f.is_("ne", f.load("i64", f.at(self.base, 8), 8), "0")):
            moved = self._moved(width, sums)
            inside = f.block
        kind = shape.vector
        sums = [
            f.let(f"phi {kind} [ {x}, %{before} ], [ {y}, %{inside} ]")
            for x, y in zip(sums, moved, strict=True)
        ]
        lines = [f.at(out, f.mul(apart, str(row))) for row in range(rows)]
        valid = f.load("i64", self.base, 8)
        for w in range(width):
            left = f.sub(valid, str(w * shape.lanes))
            places = [f.at(line, w * shape.bytes) for line in lines]
            with f.when(f.is_("sgt", left, "0")):
                operands = (f, shape.element, shape.lanes, sums[w::width], places, shape.size, left)
                store_counted(*operands)

    def _moved(self, width: int, sums: list[str]) -> list[str]:
        """Return the vectors of a tile, with the lanes that are stored moved to the front."""
        f, shape = self.f, self.shape
        kind = f"<{_WORDS} x i32>"
        words = f"<{_WORDS} x float>"
        sources = [f.load(kind, f.at(self.base, 32 + 4 * _WORDS * w), 8) for w in range(width)]
        last = ", ".join([f"i32 {_WORDS - 1}"] * _WORDS)
        second = f.let(f"icmp sgt {kind} {sources[0]}, <{last}>")

        def taken(x: str, source: str) -> str:
            x = f.let(f"bitcast {shape.vector} {x} to {words}")
            return f.let(f"call {words} @llvm.x86.avx2.permps({words} {x}, {kind} {source})")

        vectors = []
        for row in range(0, len(sums), width):
            line = [taken(sums[row], sources[0])]
            for x in sums[row + 1 : row + width]:
                other = taken(x, sources[0])
                line[0] = f.let(
                    f"select <{_WORDS} x i1> {second}, {words} {other}, {words} {line[0]}"
                )
                line.append(taken(x, sources[1]))
            vectors += [f.let(f"bitcast {words} {x} to {shape.vector}") for x in line]
        return vectors


def _places_of(f: Routine, shape: TileConfig, base: str = "") -> _Pieces | _Moves:
    """Return the record of where lanes go, at the address `base`, or in newly allocated memory."""
    kind = _Moves if shape.moves else _Pieces
    return kind(f, shape, base or kind.room(f, shape))


def _tile(shape: TileConfig, rows: int, width: int) -> str:
    names = "a a_row depth offsets b pieces out out_row"
    pointers = {"a", "offsets", "b", "pieces", "out"}
    parameters = [("ptr" if name in pointers else "i64", name) for name in names.split()]
    f = Routine(f"shifted_{rows}x{width}", parameters, internal=True)
    row_at = row_places(f, "%a", "%a_row", rows)
    with f.turns("0", "%depth") as steps:
        sums = [steps.carry(shape.vector, "zeroinitializer") for _ in range(rows * width)]
        b = f.at("%b", f.load("i64", f.at("%offsets", f.mul(steps.index, "8")), 8))
        panel = [f.load(shape.vector, f.at(b, w * shape.bytes), shape.size) for w in range(width)]
        left = row_at(f.mul(steps.index, str(shape.size)))
        for name, x in zip(sums, add_products(f, shape, left, panel, sums)):
            steps.become(name, x)
    _places_of(f, shape, "%pieces").store(width, sums, "%out", "%out_row")
    return f.text()


class _Shifted:
    """The parts of the function `shifted`."""

    def __init__(
        self, f: Routine, shape: TileConfig, source: ElementReader, a: dict[str, str]
    ) -> None:
        self.f, self.shape, self.source, self.a = f, shape, source, a
        self.unit = str(shape.size)
        c = ConvolutionSizes.in_code(f, shape, source.dtype, a)
        self.window = window = _Window.of(c)
        self.rows = window.rows(c)
        for name in (
            "input_image input_channel input_row input_column weight_filter out_image out_channel"
        ).split():
            a[name] = f.mul(a[name], self.unit)
        room = Scratch.of(f, shape, a["scratch"])
        self.copy, self.offsets, self.tile = room.panels, room.rows, room.tile
        self.line = f.mul(window.pitch, self.unit)
        # A plane is an odd number of vectors, or all channels would use the same cache sets.
        rows = f.add(f.add(self.rows, window.down), "1")
        plane = f.ceil_div(f.mul(rows, self.line), shape.bytes)
        self.plane = f.mul(f.let(f"or i64 {plane}, 1"), str(shape.bytes))
        self.depth = f.mul(a["channels"], f.mul(a["kernel_height"], a["kernel_width"]))
        self.pieces = _places_of(f, shape)
        self.handed = f.is_("ne", a["epilogue"], "null", "ptr")

    def write(self) -> None:
        """Write the loop over images, groups and blocks of rows of the output."""
        f, a = self.f, self.a
        self.write_offsets()
        wide, first, last = a["out_width"], a["first_column"], a["last_column"]
        bottom = f.div(f.add(last, f.sub(wide, "1")), wide)
        with (
            f.loop("0", a["images"]) as image,
            f.loop("0", a["groups"]) as group,
            f.loop(f.div(first, wide), bottom, self.rows) as top,
        ):
            channel = f.mul(f.mul(group, a["channels"]), a["input_channel"])
            self.copy_rows(f.at(a["input"], f.add(f.mul(image, a["input_image"]), channel)), top)
            filters = f.mul(group, a["filters"])
            weight = f.at(a["weight"], f.mul(filters, a["weight_filter"]))
            out = f.add(f.mul(image, a["out_image"]), f.mul(filters, a["out_channel"]))
            out = f.at(a["out"], out)
            end = f.minimum(f.mul(f.add(top, self.rows), wide), last)
            begin = self.place(f.maximum(f.mul(top, wide), first), top)
            end = f.add(self.place(f.sub(end, "1"), top), "1")
            with panels(f, self.shape, begin, end, end) as (at, width):
                lanes = f.minimum(f.sub(end, at), f.mul(width, str(self.shape.lanes)))
                columns = self.find_pieces(at, lanes, top)
                at = f.at(self.copy, f.mul(at, self.unit))
                place = (f.add(image, a["origin"]), group)
                self.panel(at, width, columns, (weight, out), place)

    def place(self, column: str, top: str) -> str:
        """The offset in the copy of a position's window, in elements from row `top`'s start."""
        f, wide = self.f, self.a["out_width"]
        row = f.div(column, wide)
        side = f.sub(column, f.mul(row, wide))
        return f.add(f.mul(f.sub(row, top), self.window.pitch), side)

    def write_offsets(self) -> None:
        """Write the table of offsets: for each step of depth, bytes from its window's beginning."""
        f, a, window = self.f, self.a, self.window
        with (
            f.loop("0", a["channels"]) as c,
            f.loop("0", a["kernel_height"]) as kh,
            f.loop("0", a["kernel_width"]) as kw,
        ):
            row = f.sub(f.mul(kh, a["dilation_height"]), window.above)
            column = f.sub(f.mul(kw, a["dilation_width"]), window.before)
            tap = f.add(f.mul(row, self.line), f.mul(column, self.unit))
            step = f.mul(f.add(f.mul(c, a["kernel_height"]), kh), a["kernel_width"])
            place = f.at(self.offsets, f.mul(f.add(step, kw), "8"))
            f.store("i64", f.add(f.mul(c, self.plane), tap), place, 8)

    def copy_rows(self, image: str, top: str) -> None:
        """Copy the rows of all channels, padded, that the output's rows from `top` on depend on."""
        f, a, shape, window = self.f, self.a, self.shape, self.window
        first = f.sub(f.add(top, window.above), a["pad_height"])
        # One more row is copied, because the last row shares its padding.
        count = f.add(f.minimum(self.rows, f.sub(a["out_height"], top)), window.down)
        count = f.add(count, "1")
        if shape.masks:  # The masks of a vector are computed once for all rows.
            with self.vectors_across() as vector, self.lines(first, count) as line:
                self.copy_vector(image, vector, line)
        else:  # A row is stored in whole vectors, and the next row overwrites the excess.
            with self.lines(first, count) as line, self.vectors_across() as vector:
                self.copy_vector(image, vector, line)
        behind = f.mul(f.sub(a["channels"], "1"), self.plane)
        behind = f.at(self.copy, f.add(behind, f.mul(count, self.line)))
        with f.loop("0", window.slack(shape), str(shape.lanes)) as at:
            f.store(shape.vector, "zeroinitializer", f.at(behind, f.mul(at, self.unit)), shape.size)

    @contextmanager
    def vectors_across(self) -> Iterator[tuple[str, str, str | None, str]]:
        """A loop over the vectors of a row of the copy.

        Yields a vector's offset in the image's row in bytes, the mask of lanes inside the image,
        the mask of lanes to store (None: all), and the address in the copy's first row.
        """
        f, a, shape, low = self.f, self.a, self.shape, self.window.pad
        with f.loop("0", self.window.pitch, str(shape.lanes)) as at:
            seen = lane_range(
                f, shape.lanes, f.sub(low, at), f.sub(f.add(a["input_width"], low), at)
            )
            stored = None
            if shape.masks:
                stored = lane_mask(f, shape.lanes, f.sub(self.window.pitch, at))
            beyond = f.mul(f.sub(at, low), a["input_column"])
            yield beyond, seen, stored, f.at(self.copy, f.mul(at, self.unit))

    @contextmanager
    def lines(self, first: str, count: str) -> Iterator[tuple[str, str, str]]:
        """A loop over the rows of all channels.

        Yields a row's offset in the image, an i1 of whether the row is inside the image, and the
        row's offset in the copy. Offsets are in bytes.
        """
        f, a = self.f, self.a
        with f.loop("0", a["channels"]) as channel, f.loop("0", count) as row:
            ih = f.add(first, row)
            inside = f.is_("ult", ih, a["input_height"])
            offset = f.add(f.mul(channel, a["input_channel"]), f.mul(ih, a["input_row"]))
            yield offset, inside, f.add(f.mul(channel, self.plane), f.mul(row, self.line))

    def copy_vector(
        self, image: str, vector: tuple[str, str, str | None, str], line: tuple[str, str, str]
    ) -> None:
        """Copy a vector of a row.

        image: the address of the image's first channel
        vector, line: values of `vectors_across` and `lines`
        """
        f, a, shape = self.f, self.a, self.shape
        beyond, seen, stored, into = vector
        offset, inside, apart = line
        beside = f.is_("eq", a["input_column"], self.unit)
        mask = f.select(inside, seen, "zeroinitializer", f"<{shape.lanes} x i1>")
        here = f.at(image, f.add(offset, beyond))
        to = f.at(into, apart)
        if not shape.masks:  # here vectors are copied in the order in which dense images lie
            fetch(f, f.at(here, _AHEAD), level=1)
        with f.when(beside):
            masked_store(f, shape, self.source.vector(f, here, mask), to, stored)
        with f.when(f.let(f"xor i1 {beside}, true")):
            x = self.source.gathered(f, here, a["input_column"], mask)
            masked_store(f, shape, x, to, stored)

    def find_pieces(self, at: str, lanes: str, top: str) -> tuple[str, str]:
        """Write down which lanes of a panel are stored.

        Returns the first position of the output, and the number of positions.
        """
        f, wide, pitch = self.f, self.a["out_width"], str(self.window.pitch)
        row = f.div(at, pitch)
        side = f.sub(at, f.mul(row, pitch))
        column = f.add(f.mul(f.add(top, row), wide), f.minimum(side, wide))
        return column, self.pieces.put(lanes, side, wide, pitch, self.handed)

    def panel(
        self,
        at: str,
        width: str,
        columns: tuple[str, str],
        to: tuple[str, str],
        place: tuple[str, str],
    ) -> None:
        """Write the loop over the tiles of a panel, for all filters.

        at: the address of the panel in the copy
        width: the vectors of the panel
        columns: the first position of the output, and the number of positions
        to: the addresses of the weight and of the output
        place: the image and the group, see `Multiply`
        """
        f, a, shape = self.f, self.a, self.shape
        column, count = columns
        tiles = Tiles.of(f, shape, a["filters"])
        out = f.at(to[1], f.mul(column, self.unit))
        into_row = f.select(self.handed, str(shape.panel * shape.size), a["out_channel"])
        far = f.is_("sgt", f.mul(a["out_channel"], a["filters"]), str(_FAR))
        # Where all tiles of a panel have room, the epilogue gets all of them at once.
        at_once = handed_rows(shape) >= _FILTERS

        def hand_over(tile: str, height: str, row: str) -> None:
            there = (height, count), (row, column), place
            call_epilogue(f, a["epilogue"], tile, *there, a["state"])

        with f.turns("0", tiles.count) as loop:
            row = loop.carry("i64", "0")
            height = tiles.height(f, loop.index)
            loop.become(row, f.add(row, height))
            number = f.add(f.mul(f.sub(height, "1"), str(shape.vectors)), f.sub(width, "1"))
            tile = f.load("ptr", f.at("@shifted_tiles", f.mul(number, "8")), 8)
            left = f.at(to[0], f.mul(row, a["weight_filter"]))
            into = f.at(out, f.mul(row, a["out_channel"]))
            own = f.at(self.tile, f.mul(row, into_row)) if at_once else self.tile
            into = f.select(self.handed, own, into, "ptr")
            with f.when(f.both(self.handed, far)):
                hand_over("null", height, row)
            f.line(
                f"call void {tile}(ptr {left}, i64 {a['weight_filter']}, i64 {self.depth}, "
                f"ptr {self.offsets}, ptr {at}, ptr {self.pieces.base}, ptr {into}, i64 {into_row})"
            )
            if not at_once:
                with f.when(self.handed):
                    hand_over(self.tile, height, row)
        if at_once:
            with f.when(self.handed):
                hand_over(self.tile, a["filters"], "0")
