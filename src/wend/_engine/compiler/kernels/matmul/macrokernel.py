"""The macrokernel: the loops around the tiles of a matrix product.

    for a chunk of columns:                             its panels stay in the second-level cache
        for a block of depth:
            right(block)                                finds or packs the panels of the block
            for a group of tiles:
                left(group)                             finds or packs the tiles' rows
                for a tile: for a panel:                the rows stay in the first-level cache
                    multiply; if it was the last block, hand the tile to the epilogue

The two hooks `right` and `left` supply the operands. All fields below are names of LLVM values;
sizes are i64, strides are in bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from wend._engine.base.records import Record
from wend._engine.compiler.kernels.matmul.blocks import CacheBlock, PanelAddresses, PrefetchTarget
from wend._engine.compiler.kernels.matmul.microkernel import LINE, TileConfig, call_epilogue
from wend._engine.compiler.kernels.matmul.prefetch import SOON, PrefetchStream, ahead
from wend._engine.compiler.llvm_ir.function import Routine

#: The most steps in a block of depth, so that a tile's rows fit into the first-level cache.
DEPTH = 1024
#: The bytes of a chunk's panels, for a block of depth, that the second-level cache should keep.
_CHUNK = 3 << 18
#: The tiles of a group, whose rows are packed together.
GROUP = 8
# The most steps for which the set-up of each tile counts, so that one function computes all tiles
# of some rows. (With 16 registers it does so at any depth, which was measured to gain 1 %.)
_SHALLOW = 40
# The most rows that read the right operand in place, where that is possible. A large operand is
# packed for fewer rows: its rows lie pages apart, and each tile reads them anew. So are operands of
# tiles that read only one cache line of each row.
_DIRECT, _LARGE_ROWS = 128, 16
#: The most rows where the operand's rows do not begin at cache lines, so that vectors are split.
# measured: command not recorded, 2026-11-24, 99x64x572 tn takes 0.93 of the time with AVX-512
DIRECT_SPLIT = 48
#: The least bytes of a large right operand.
LARGE = 3 << 19
# The most rows of tiles that an epilogue gets at once, where masked stores are slow.
_TALL = 64
# The panels whose tiles an epilogue gets at once, where one function computes several tiles.
_HANDED = 8


class Scratch(Record):
    """Addresses in the scratch memory: of panels, of packed rows, and of a tile of sums."""

    panels: str
    rows: str
    tile: str

    @staticmethod
    def of(f: Routine, shape: TileConfig, scratch: str) -> Scratch:
        """Divide the scratch memory. scratch: its address"""
        panels, rows, _ = _room(shape)
        return Scratch(scratch, f.at(scratch, panels), f.at(scratch, panels + rows))


class Tiles(Record):
    """Tiles that share rows evenly: 9 rows are 5 and 4, not 8 and 1.

    count: the number of tiles
    each: the rows of a tile, except in the first `more` tiles
    more: the number of tiles that have one row more
    """

    count: str
    each: str
    more: str

    @staticmethod
    def of(f: Routine, shape: TileConfig, rows: str) -> Tiles:
        """Return the fewest tiles for so many rows."""
        count = f.ceil_div(rows, shape.rows)
        each = f.div(rows, count)
        return Tiles(count, each, f.sub(rows, f.mul(each, count)))

    def height(self, f: Routine, index: str) -> str:
        """The number of rows of the tile `index`."""
        return f.add(self.each, f.select(f.is_("slt", index, self.more), "1", "0"))


class TileGroup(Record):
    """Consecutive tiles: `each` rows in a tile, and one row more in the first `more`."""

    block: CacheBlock
    row: str
    tiles: str
    each: str
    more: str


class TileRows(Record):
    """The addresses of a group's rows, for tiles of h rows.

    base: the address of the first tile
    row: the bytes from an element to the next row
    step, step_per_row: an element and the next step of depth are step + h * step_per_row bytes
        apart
    apart, row_apart: a tile and the next tile are apart + h * row_apart bytes apart
    later: the rows to prefetch
    """

    base: str
    row: str
    step: str
    step_per_row: str
    apart: str
    row_apart: str
    later: PrefetchTarget


class _Tile(Record):
    """The tiles of the same rows, a tile for each panel of a block.

    left: the left operand, as arguments of a call
    row, height: the first row, and the number of rows
    fresh: an i1, whether there are no sums yet
    handed: an i1, whether the epilogue gets the tiles
    soon: the data to prefetch
    """

    block: CacheBlock
    panels: PanelAddresses
    left: str
    row: str
    height: str
    fresh: str
    handed: str
    soon: PrefetchStream


def packed_apart(shape: TileConfig) -> int:
    """The bytes from a packed tile of the left operand to the next."""
    return shape.rows * DEPTH * shape.size + shape.bytes


def column_panels(shape: TileConfig) -> int:
    """The number of panels in a chunk: narrower panels are more."""
    return _CHUNK // (DEPTH * shape.vectors * shape.bytes)


def has_narrow_panels(shape: TileConfig) -> bool:
    """Whether a row of a panel is at most one cache line."""
    return shape.vectors * shape.bytes <= LINE


def direct_rows(shape: TileConfig, large: bool) -> int:
    """The most rows that read the right operand in place. large: whether it has LARGE bytes"""
    if has_narrow_panels(shape):
        return 2 * shape.rows
    return _LARGE_ROWS if large else _DIRECT


def panel_capacity(shape: TileConfig) -> int:
    """The number of elements that fit in the scratch memory for packed panels."""
    return DEPTH * (column_panels(shape) * shape.panel + shape.lanes)


def _room(shape: TileConfig) -> tuple[int, int, int]:
    # The room for tiles has the rows handed to an epilogue, and a transposed tile.
    tiles = (handed_rows(shape) + shape.panel) * shape.panel * shape.size
    return panel_capacity(shape) * shape.size, GROUP * packed_apart(shape), tiles


def handed_rows(shape: TileConfig) -> int:
    """The most rows that an epilogue gets at once: a call takes as long as several rows."""
    return shape.rows if shape.masks else _TALL


def scratch_size(shape: TileConfig) -> int:
    """The bytes of scratch memory, for any sizes."""
    return sum(_room(shape))


def arguments(f: Routine, names: Sequence[str], pointers: str) -> dict[str, str]:
    """Load the words of the argument block `%args`, by name. pointers: the names of pointers"""
    kinds = {name: "ptr" if name in pointers.split() else "i64" for name in names}
    return {name: f.load(kinds[name], f.at("%args", 8 * i), 8) for i, name in enumerate(names)}


@contextmanager
def panels(
    f: Routine, shape: TileConfig, first: str, last: str, columns: str
) -> Iterator[tuple[str, str]]:
    """A loop over the panels of columns first ... last - 1.

    Yields the first column of a panel, and its number of vectors.

    columns: the columns of the whole product
    """
    with f.turns(first, last) as loop:
        left = f.ceil_div(f.sub(columns, loop.index), shape.lanes)
        width = f.minimum(left, str(shape.vectors))
        if shape.vectors > 2:
            # A panel of a single vector is slow: the last two panels share the vectors instead.
            width = f.select(f.is_("eq", left, str(shape.vectors + 1)), "2", width)
        loop.step = f.mul(width, str(shape.lanes))
        yield loop.index, width


def most_rows(f: Routine, shape: TileConfig, columns: str) -> str:
    """The most rows of a tile that all panels of so many columns allow."""
    limit = str(shape.rows)
    vectors = f.ceil_div(columns, shape.lanes)
    for width in range(1, shape.vectors):
        # Four vectors are two panels of two vectors each, see `panels`.
        narrow = f.is_("eq", vectors, str(width))
        if width == 2:
            narrow = f.either(narrow, f.is_("eq", vectors, "4"))
        limit = f.select(narrow, str(shape.tallest(width)), limit)
    return limit


def is_partial(f: Routine, shape: TileConfig, column: str, width: str, columns: str) -> str:
    """Whether the last vector of a panel has fewer columns than lanes."""
    return f.is_("sgt", f.add(column, f.mul(width, str(shape.lanes))), columns)


class Multiply(Record):
    """A matrix product to be written into a function.

    right, left: the hooks that find or pack panels and rows
    room: the scratch memory
    part_rows, part_columns: the first row or column, and one behind the last
    columns, depth: the columns and the depth of the whole product
    out, out_row: the address of the sums, and the bytes to the next row
    accumulate: an i1, whether sums are added to those in memory
    epilogue, state: the pointers of an epilogue, or null
    place: two i64 that are passed to the epilogue
    chunk: the columns in a chunk; "" for the usual number
    whole: whether the depth is a single block, whatever its size
    stands: a function that says (an i1) whether rows of a block are read in place, so that tiles
        may be taller
    strips: whether the epilogue takes tiles of several panels (see `matmul.matmul`)
    """

    f: Routine
    shape: TileConfig
    right: Callable[[CacheBlock], PanelAddresses]
    left: Callable[[TileGroup], TileRows]
    room: Scratch
    part_rows: tuple[str, str]
    part_columns: tuple[str, str]
    columns: str
    depth: str
    out: str
    out_row: str
    accumulate: str
    epilogue: str
    state: str
    place: tuple[str, str]
    chunk: str = ""
    whole: bool = False
    stands: Callable[[CacheBlock], str] | None = None
    strips: bool = False

    def write(self) -> None:
        """Write the loops."""
        f, shape = self.f, self.shape
        chunk = self.chunk or str(column_panels(shape) * shape.panel)
        end = self.part_columns[1]
        with f.turns(*self.part_columns) as chunks:
            first = chunks.index
            last = f.minimum(f.add(first, chunk), end)
            # No chunk is a single vector: the chunk before takes it too.
            rest = f.is_("sle", f.sub(end, last), str(shape.lanes))
            last = f.select(rest, end, last)
            chunks.step = f.sub(last, first)
            blocks = "1"
            if not self.whole:
                blocks = f.ceil_div(self.depth, DEPTH)
                blocks = f.select(f.is_("eq", blocks, "0"), "1", blocks)
            with f.loop("0", blocks) as index:
                start = f.div(f.mul(self.depth, index), blocks)
                onward = f.add(index, "1")
                depth = f.sub(f.div(f.mul(self.depth, onward), blocks), start)
                opening, closing = f.is_("eq", index, "0"), f.is_("eq", onward, blocks)
                fresh = f.both(opening, f.let(f"xor i1 {self.accumulate}, true"))
                handed = f.both(f.is_("ne", self.epilogue, "null", "ptr"), closing)
                self._rows(CacheBlock(first, last, start, depth), fresh, handed)

    def _rows(self, block: CacheBlock, fresh: str, handed: str) -> None:
        """Write the loops over all tiles of a block.

        fresh: an i1, whether there are no sums yet
        handed: an i1, whether the epilogue gets the tiles
        """
        f, shape = self.f, self.shape
        panels_ = self.right(block)
        rows = f.sub(self.part_rows[1], self.part_rows[0])
        # Tiles share the rows evenly: 9 rows are 5 and 4, not 8 and 1.
        limit = self._limit(block)
        count = f.div(f.add(rows, f.sub(limit, "1")), limit)
        whole = self._whole_until(block)
        with f.when(f.is_("ne", count, "0")):
            each = f.div(rows, count)
            more = f.sub(rows, f.mul(each, count))
            with f.loop("0", count, str(GROUP)) as group:
                last = f.minimum(f.add(group, str(GROUP)), count)
                taller = f.minimum(group, more)  # tiles before this group that have one row more
                row = f.add(f.add(self.part_rows[0], f.mul(group, each)), taller)
                tiles = f.sub(last, group)
                tile_rows = self.left(TileGroup(block, row, tiles, each, f.sub(more, taller)))
                fetched = ahead(
                    f, shape, block, panels_, tile_rows.later, count, (self.columns, self.depth)
                )
                with f.turns(group, last) as loop:
                    row, left = loop.carry("i64", row), loop.carry("ptr", tile_rows.base)
                    later = loop.carry("ptr", tile_rows.later.base)
                    height = f.add(each, f.select(f.is_("slt", loop.index, more), "1", "0"))
                    loop.become(row, f.add(row, height))
                    loop.become(later, f.at(later, f.mul(height, tile_rows.later.row)))
                    apart = f.add(tile_rows.apart, f.mul(height, tile_rows.row_apart))
                    loop.become(left, f.at(left, apart))
                    step = f.add(tile_rows.step, f.mul(height, tile_rows.step_per_row))
                    operands = f"ptr {left}, i64 {tile_rows.row}, i64 {step}"
                    soon = fetched(later, loop.index)
                    tile = _Tile(block, panels_, operands, row, height, fresh, handed, soon)
                    self._whole_panels(tile, whole, f.is_("eq", loop.index, "0"))
                    with panels(f, shape, whole, block.last, self.columns) as at:
                        self._tile(tile, *at)

    def _whole_until(self, block: CacheBlock) -> str:
        """The end of a block's columns that fill panels of the largest width."""
        f, shape = self.f, self.shape
        panel = str(shape.panel)
        left = f.sub(self.columns, block.first)
        count = f.div(left, panel)
        if shape.vectors > 2:  # the last panel may share its vectors with the rest: see `panels`
            over = f.sub(left, f.mul(count, panel))
            shared = f.both(f.is_("ne", over, "0"), f.is_("sle", over, str(shape.lanes)))
            shared = f.both(shared, f.is_("ne", count, "0"))
            count = f.sub(count, f.select(shared, "1", "0"))
        count = f.minimum(count, f.div(f.sub(block.last, block.first), panel))
        return f.add(block.first, f.mul(count, panel))

    def _whole_panels(self, tile: _Tile, until: str, opening: str) -> None:
        """Write the loop over the tiles of the largest width, with little set-up for each.

        until: the end of the columns that these tiles cover
        opening: an i1, whether these tiles are of the block's first rows
        """
        f, shape, addresses = self.f, self.shape, tile.panels
        first = tile.block.first
        function = self._function(tile.height, str(shape.vectors))
        step = str(shape.vectors * shape.bytes)
        if addresses.direct != "false":
            step = f.select(addresses.direct, addresses.step, step)
        offset = f.add(
            f.mul(first, addresses.per_column), f.mul(str(shape.vectors), addresses.per_width)
        )
        apart = f.mul(addresses.per_column, str(shape.panel))
        first_panel = f.at(addresses.base, offset)
        soon, now = tile.soon, "false"
        if addresses.copied != "false":
            now = f.both(addresses.copied, opening)
            height = f.minimum(tile.height, str(shape.rows))
            place = f.at("@packing", f.mul(f.sub(height, "1"), "8"))
            function = f.select(now, f.load("ptr", place, 8), function, "ptr")
            # The arguments for prefetching say where to put the packed panels instead.
            goal = (first_panel, apart, until, "0", "0")
            soon = PrefetchStream(
                *(f.select(now, x, y, k) for x, y, k in zip(goal, soon, SOON, strict=True))
            )
            source = f.at(addresses.source, f.mul(first, str(shape.size)))
            first_panel = f.select(now, source, first_panel, "ptr")
            apart = f.select(now, str(shape.panel * shape.size), apart)
            step = f.select(now, addresses.step, step)
        offset = f.add(f.mul(tile.row, self.out_row), f.mul(first, str(shape.size)))
        first_out = f.at(self.out, offset)
        short = "true"
        if shape.rows == 8:
            short = f.is_("sle", f.mul(tile.block.depth, tile.height), str(8 * _SHALLOW))
        strip = f.both(short, f.let(f"xor i1 {f.either(tile.handed, now)}, true"))
        with f.when(f.both(strip, f.is_("slt", first, until))):
            into = first_out, self.out_row
            self._strip(tile, (first_panel, step, apart), into, (first, until), tile.soon)
        if self.strips and shape.hands_strips:
            handed = f.both(f.both(tile.handed, tile.fresh), f.let(f"xor i1 {now}, true"))
            with f.when(handed):
                self._handed_strips(tile, (first_panel, step, apart), (first, until))
            strip = f.either(strip, handed)
        first = f.select(strip, until, first)
        with f.turns(first, until, str(shape.panel)) as loop:
            panel, out = loop.carry("ptr", first_panel), loop.carry("ptr", first_out)
            turn, later = loop.carry("i64", "0"), loop.carry("ptr", soon.start)
            there = str(shape.panel), str(shape.lanes)
            told = soon.of(f, turn, later)
            self._call(tile, function, panel, step, out, loop.index, there, told)
            loop.become(panel, f.at(panel, apart))
            loop.become(out, f.at(out, shape.panel * shape.size))
            loop.become(turn, f.add(turn, "1"))
            loop.become(later, f.at(later, soon.apart))

    def _strip(
        self,
        tile: _Tile,
        panels: tuple[str, str, str],
        goal: tuple[str, str],
        columns: tuple[str, str],
        soon: PrefetchStream,
    ) -> None:
        """Write a call that computes the tiles of several widest panels.

        panels: the address of the first panel, the bytes between its rows, and to the next panel
        goal: the address of the sums, and the bytes to the next row
        columns: the first column, and one behind the last
        """
        f, shape = self.f, self.shape
        height = f.minimum(tile.height, str(shape.rows))
        function = f.load("ptr", f.at("@strips", f.mul(f.sub(height, "1"), "8")), 8)
        count = f.div(f.sub(columns[1], columns[0]), str(shape.panel))
        base, step, apart = panels
        out, out_row = goal
        f.line(
            f"call void {function}({tile.left}, ptr {base}, i64 {step}, i64 {apart}, "
            f"i64 {tile.block.depth}, i64 {count}, ptr {f.select(tile.fresh, 'null', out, 'ptr')}, "
            f"ptr {out}, i64 {out_row}, {soon.whole(f)})"
        )

    def _handed_strips(
        self, tile: _Tile, panels: tuple[str, str, str], columns: tuple[str, str]
    ) -> None:
        """Write the loop over strips for an epilogue, which gets several tiles as a single tile."""
        f, shape, room = self.f, self.shape, self.room.tile
        base, step, apart = panels
        with f.turns(*columns, str(_HANDED * shape.panel)) as loop:
            panel = loop.carry("ptr", base)
            start, turns = loop.carry("ptr", tile.soon.start), loop.carry("i64", tile.soon.turns)
            last = f.minimum(f.add(loop.index, loop.step), columns[1])
            wide = f.sub(last, loop.index)
            goal = room, f.mul(wide, str(shape.size))
            soon = tile.soon._replace(start=start, turns=turns)
            self._hand("null", tile, wide, loop.index)
            self._strip(tile, (panel, step, apart), goal, (loop.index, last), soon)
            self._hand(room, tile, wide, loop.index)
            loop.become(panel, f.at(panel, f.mul(apart, str(_HANDED))))
            later = f.sub(turns, str(_HANDED))
            there = f.is_("sgt", later, "0")
            onward = f.at(start, f.mul(tile.soon.apart, str(_HANDED)))
            loop.become(start, f.select(there, onward, start, "ptr"))
            loop.become(turns, f.maximum(later, "0"))

    def _hand(self, address: str, tile: _Tile, columns: str, column: str) -> None:
        """Write the call that hands a finished tile, or null before, to the epilogue."""
        there = (tile.height, columns), (tile.row, column), self.place
        call_epilogue(self.f, self.epilogue, address, *there, self.state)

    def _limit(self, block: CacheBlock) -> str:
        """The most rows in a tile: more where all panels are narrow and rows are read in place."""
        f, shape = self.f, self.shape
        limit = str(shape.rows)
        if self.stands is None:
            return limit
        most = most_rows(f, shape, f.sub(self.columns, block.first))
        return f.select(self.stands(block), most, limit)

    def _tile(self, tile: _Tile, column: str, width: str) -> None:
        """Write the call for a tile of any width."""
        f, shape, addresses = self.f, self.shape, tile.panels
        offset = f.add(f.mul(column, addresses.per_column), f.mul(width, addresses.per_width))
        panel, step = f.at(addresses.base, offset), f.mul(width, str(shape.bytes))
        if addresses.direct != "false":
            partial = is_partial(f, shape, column, width, self.columns)
            panel = f.select(f.both(addresses.direct, partial), addresses.spare, panel, "ptr")
            there = f.both(addresses.direct, f.let(f"xor i1 {partial}, true"))
            step = f.select(there, addresses.step, step)
        offset = f.add(f.mul(tile.row, self.out_row), f.mul(column, str(shape.size)))
        columns = f.minimum(f.sub(self.columns, column), f.mul(width, str(shape.lanes)))
        valid = f.sub(columns, f.mul(f.sub(width, "1"), str(shape.lanes)))
        turn = f.div(f.sub(column, tile.block.first), str(shape.panel))
        soon = tile.soon.of(f, turn, f.at(tile.soon.start, f.mul(turn, tile.soon.apart)))
        function, out = self._function(tile.height, width), f.at(self.out, offset)
        self._call(tile, function, panel, step, out, column, (columns, valid), soon)

    def _function(self, height: str, width: str) -> str:
        """The address of the function for a tile of that extent."""
        f = self.f
        number = f.add(f.mul(f.sub(height, "1"), str(self.shape.vectors)), f.sub(width, "1"))
        return f.load("ptr", f.at("@tiles", f.mul(number, "8")), 8)

    def _call(
        self,
        tile: _Tile,
        function: str,
        panel: str,
        step: str,
        out: str,
        column: str,
        there: tuple[str, str],
        soon: str,
    ) -> None:
        """Write the calls of a tile's function and of the epilogue.

        step: the bytes between the panel's rows
        there: the number of columns, and the lanes of the last vector that are columns
        soon: the arguments for prefetching
        """
        f, shape, handed = self.f, self.shape, tile.handed
        before = f.select(tile.fresh, "null", out, "ptr")
        into = f.select(handed, self.room.tile, out, "ptr")
        into_row = f.select(handed, str(shape.panel * shape.size), self.out_row)
        with f.when(handed):
            self._hand("null", tile, there[0], column)
        f.line(
            f"call void {function}({tile.left}, ptr {panel}, i64 {step}, i64 {tile.block.depth}, "
            f"ptr {before}, i64 {self.out_row}, ptr {into}, i64 {into_row}, i64 {there[1]}, {soon})"
        )
        with f.when(handed):
            self._hand(self.room.tile, tile, there[0], column)
