"""The loops around the tiles of a matrix product: chunks of columns, blocks of depth, rows.

    for a chunk of columns:                             its panels stay in the second-level cache
        for a block of depth:
            right(block)                                finds or packs the panels of this block
            for a group of tiles:
                left(group)                             finds or packs their rows
                for a tile: for a panel:                the rows stay in the first-level cache
                    multiply; if it was the last block, hand the tile to the epilogue

What is multiplied is behind the two hooks. All fields below are names of values; sizes are i64,
strides are in bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from wend.base.records import Record
from wend.compiler.kernels.matmul.microkernel import LINE, TileConfig
from wend.compiler.kernels.matmul.prefetch import SOON, PrefetchStream, ahead
from wend.compiler.llvm_ir.function import Routine

__all__ = [
    "DEPTH",
    "DIRECT_SPLIT",
    "GROUP",
    "LARGE",
    "CacheBlock",
    "Multiply",
    "PanelAddresses",
    "PrefetchTarget",
    "Scratch",
    "TileGroup",
    "TileRows",
    "Tiles",
    "arguments",
    "column_panels",
    "direct_rows",
    "handed_rows",
    "is_partial",
    "most_rows",
    "narrow",
    "packed_apart",
    "panel_capacity",
    "panels",
    "scratch_size",
]

#: Steps in a block of depth: the rows of a tile fit into the first-level cache.
DEPTH = 1024
#: Bytes of a chunk of panels with a block of depth: what the second-level cache should keep.
_CHUNK = 3 << 18
#: Tiles whose rows are packed together.
GROUP = 8
# Of so few steps what is computed for each tile counts: one function does all of some rows. (With
# 16 registers it does so of any number of steps, which was measured to gain 1 %.)
_SHALLOW = 40
# Up to so many rows read the right operand as it stands, where that is possible. A large one is
# packed for fewer: its rows lie pages apart, and each tile reads them anew. So do tiles that read
# but a cache line of each.
_DIRECT, _LARGE_ROWS = 128, 16
#: The same where the operand's rows do not begin at cache lines: vectors lie across two of them.
DIRECT_SPLIT = 48
#: Bytes of a large one.
LARGE = 3 << 19
# Rows of tiles that an epilogue gets at once, at most, where masks cost much.
_TALL = 64
# Panels whose tiles of some rows an epilogue gets at once, where one function computes them all.
_HANDED = 8


class Scratch(Record):
    """Places in the scratch memory: for panels, for packed rows, for one tile of sums."""

    panels: str
    rows: str
    tile: str

    @staticmethod
    def of(f: Routine, shape: TileConfig, scratch: str) -> Scratch:
        """Cut the scratch memory up."""
        panels, rows, _ = _room(shape)
        return Scratch(scratch, f.at(scratch, panels), f.at(scratch, panels + rows))


class Tiles(Record):
    """Tiles that share rows evenly: 9 rows are 5 and 4, not 8 and 1.

    count: of them     each: rows of a tile, one more in the first `more`
    """

    count: str
    each: str
    more: str

    @staticmethod
    def of(f: Routine, shape: TileConfig, rows: str) -> Tiles:
        """As few as there can be."""
        count = f.ceil_div(rows, shape.rows)
        each = f.div(rows, count)
        return Tiles(count, each, f.sub(rows, f.mul(each, count)))

    def height(self, f: Routine, index: str) -> str:
        """Rows of a tile."""
        return f.add(self.each, f.select(f.is_("slt", index, self.more), "1", "0"))


class CacheBlock(Record):
    """Columns first ... last - 1 of a product, and a part of its depth from `start` on."""

    first: str
    last: str
    start: str
    depth: str


class PanelAddresses(Record):
    """Where the panels of a block are, w vectors wide: base + column * per_column + w * per_width.

    whole: an i1; the panels of all columns and of all the depth are there
    copied: an i1; widest panels are not there yet: the first tiles read them at `source` + column
    elements, whose rows are `step` bytes apart, and pack them
    direct: an i1; they are read from a matrix as it stands, whose rows are `step` bytes apart,
    but for one that is not whole, which is packed at `spare`. Packed panels are dense.
    """

    base: str
    per_column: str
    per_width: str = "0"
    direct: str = "false"
    step: str = "0"
    spare: str = "null"
    whole: str = "false"
    copied: str = "false"
    source: str = "null"


class TileGroup(Record):
    """Tiles that follow each other: `each` rows in one, and one more in the first `more` ones."""

    block: CacheBlock
    row: str
    tiles: str
    each: str
    more: str


class PrefetchTarget(Record):
    """What is read of the left operand `tiles` tiles after a group's first one, and so on.

    row: bytes to the next row     step: bytes that a tile goes through in a step of depth
    shared: an i1; they follow each other, so that each panel may go through a part of them
    own: an i1; it is the tile's own operand, some steps on, for every panel
    """

    base: str
    row: str
    step: str
    shared: str
    tiles: str
    own: str


class TileRows(Record):
    """Where the rows of a group's tiles are, for tiles of h rows.

    From element to element: `row` bytes to the next row, step + h * step_per_row to the next
    step; apart + h * row_apart to the next tile.
    """

    base: str
    row: str
    step: str
    step_per_row: str
    apart: str
    row_apart: str
    later: PrefetchTarget


class _Tile(Record):
    """Tiles of the same rows: their left operand as arguments, first row, and height.

    fresh: there are no sums yet     handed: the epilogue gets them
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
    """Bytes from one packed tile of the left operand to the next."""
    return shape.rows * DEPTH * shape.size + shape.bytes


def column_panels(shape: TileConfig) -> int:
    """Panels in a chunk: the narrower they are, the more."""
    return _CHUNK // (DEPTH * shape.vectors * shape.bytes)


def narrow(shape: TileConfig) -> bool:
    """Whether a row of a panel is but a cache line."""
    return shape.vectors * shape.bytes <= LINE


def direct_rows(shape: TileConfig, large: bool) -> int:
    """Up to so many rows read the right operand as it stands. large: see LARGE"""
    if narrow(shape):
        return 2 * shape.rows
    return _LARGE_ROWS if large else _DIRECT


def panel_capacity(shape: TileConfig) -> int:
    """Elements that there is room for in a block of packed panels."""
    return DEPTH * (column_panels(shape) * shape.panel + shape.lanes)


def _room(shape: TileConfig) -> tuple[int, int, int]:
    # Tiles of sums, and one that is turned.
    tiles = (handed_rows(shape) + shape.panel) * shape.panel * shape.size
    return panel_capacity(shape) * shape.size, GROUP * packed_apart(shape), tiles


def handed_rows(shape: TileConfig) -> int:
    """Rows of tiles that an epilogue may get at once: a call takes as long as some of them."""
    return shape.rows if shape.masks else _TALL


def scratch_size(shape: TileConfig) -> int:
    """Bytes of scratch memory, whatever the sizes."""
    return sum(_room(shape))


def arguments(f: Routine, names: Sequence[str], pointers: str) -> dict[str, str]:
    """Load the words of the argument block."""
    kinds = {name: "ptr" if name in pointers.split() else "i64" for name in names}
    return {name: f.load(kinds[name], f.at("%args", 8 * i), 8) for i, name in enumerate(names)}


@contextmanager
def panels(
    f: Routine, shape: TileConfig, first: str, last: str, columns: str
) -> Iterator[tuple[str, str]]:
    """A loop over the panels of columns first ... last - 1; gives first column and vectors."""
    with f.turns(first, last) as loop:
        left = f.ceil_div(f.sub(columns, loop.index), shape.lanes)
        width = f.minimum(left, str(shape.vectors))
        if shape.vectors > 2:
            # A panel of one vector is slow: where one would be left over, two share.
            width = f.select(f.is_("eq", left, str(shape.vectors + 1)), "2", width)
        loop.step = f.mul(width, str(shape.lanes))
        yield loop.index, width


def most_rows(f: Routine, shape: TileConfig, columns: str) -> str:
    """Rows of the largest tile that all panels of so many columns allow."""
    limit = str(shape.rows)
    vectors = f.ceil_div(columns, shape.lanes)
    for width in range(1, shape.vectors):
        # What two panels share is left over of a whole one.
        narrow = f.is_("eq", vectors, str(width))
        if width == 2:
            narrow = f.either(narrow, f.is_("eq", vectors, "4"))
        limit = f.select(narrow, str(shape.tallest(width)), limit)
    return limit


def is_partial(f: Routine, shape: TileConfig, column: str, width: str, columns: str) -> str:
    """Whether the last vector of a panel has fewer columns than lanes."""
    return f.is_("sgt", f.add(column, f.mul(width, str(shape.lanes))), columns)


class Multiply(Record):
    """A product to be written into a function.

    part_rows, part_columns: first, and one behind the last
    out, out_row: where sums go     accumulate: an i1, whether they are added to what is there
    epilogue, state: pointers       place: two i64, handed to the epilogue
    chunk: columns in a chunk; "" for the usual number     whole: do not cut the depth
    stands: whether rows of a block are read where they are (an i1), and tiles may be taller
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
        """Append the loops."""
        f, shape = self.f, self.shape
        chunk = self.chunk or str(column_panels(shape) * shape.panel)
        end = self.part_columns[1]
        with f.turns(*self.part_columns) as chunks:
            first = chunks.index
            last = f.minimum(f.add(first, chunk), end)
            # No chunk of a single vector: the one before takes it.
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
        """All tiles of a block. fresh: there are no sums yet; handed: the epilogue gets them."""
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
                taller = f.minimum(group, more)  # tiles before these that have one row more
                row = f.add(f.add(self.part_rows[0], f.mul(group, each)), taller)
                tiles = f.sub(last, group)
                found = self.left(TileGroup(block, row, tiles, each, f.sub(more, taller)))
                fetched = ahead(
                    f, shape, block, panels_, found.later, count, (self.columns, self.depth)
                )
                with f.turns(group, last) as loop:
                    row, left = loop.carry("i64", row), loop.carry("ptr", found.base)
                    later = loop.carry("ptr", found.later.base)
                    height = f.add(each, f.select(f.is_("slt", loop.index, more), "1", "0"))
                    loop.become(row, f.add(row, height))
                    loop.become(later, f.at(later, f.mul(height, found.later.row)))
                    apart = f.add(found.apart, f.mul(height, found.row_apart))
                    loop.become(left, f.at(left, apart))
                    step = f.add(found.step, f.mul(height, found.step_per_row))
                    given = f"ptr {left}, i64 {found.row}, i64 {step}"
                    soon = fetched(later, loop.index)
                    tile = _Tile(block, panels_, given, row, height, fresh, handed, soon)
                    self._whole_panels(tile, whole, f.is_("eq", loop.index, "0"))
                    with panels(f, shape, whole, block.last, self.columns) as at:
                        self._tile(tile, *at)

    def _whole_until(self, block: CacheBlock) -> str:
        """Where the columns of a block end that fill widest panels."""
        f, shape = self.f, self.shape
        panel = str(shape.panel)
        left = f.sub(self.columns, block.first)
        count = f.div(left, panel)
        if shape.vectors > 2:  # the last of them may share what is left over: see `panels`
            over = f.sub(left, f.mul(count, panel))
            shared = f.both(f.is_("ne", over, "0"), f.is_("sle", over, str(shape.lanes)))
            shared = f.both(shared, f.is_("ne", count, "0"))
            count = f.sub(count, f.select(shared, "1", "0"))
        count = f.minimum(count, f.div(f.sub(block.last, block.first), panel))
        return f.add(block.first, f.mul(count, panel))

    def _whole_panels(self, tile: _Tile, until: str, opening: str) -> None:
        """The tiles of some rows that are as wide as can be: little is computed for each.

        opening: an i1, that they are the first ones
        """
        f, shape, found = self.f, self.shape, tile.panels
        first = tile.block.first
        function = self._function(tile.height, str(shape.vectors))
        step = str(shape.vectors * shape.bytes)
        if found.direct != "false":
            step = f.select(found.direct, found.step, step)
        offset = f.add(f.mul(first, found.per_column), f.mul(str(shape.vectors), found.per_width))
        apart = f.mul(found.per_column, str(shape.panel))
        first_panel = f.at(found.base, offset)
        soon, now = tile.soon, "false"
        if found.copied != "false":
            now = f.both(found.copied, opening)
            height = f.minimum(tile.height, str(shape.rows))
            place = f.at("@packing", f.mul(f.sub(height, "1"), "8"))
            function = f.select(now, f.load("ptr", place, 8), function, "ptr")
            # Where panels go to is told in the place of what is fetched.
            goal = (first_panel, apart, until, "0", "0")
            soon = PrefetchStream(
                *(f.select(now, x, y, k) for x, y, k in zip(goal, soon, SOON, strict=True))
            )
            source = f.at(found.source, f.mul(first, str(shape.size)))
            first_panel = f.select(now, source, first_panel, "ptr")
            apart = f.select(now, str(shape.panel * shape.size), apart)
            step = f.select(now, found.step, step)
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
        """Tiles of widest panels in one call.

        panels: the first, bytes to its rows, to the next     goal: where sums go, bytes to the
        next row
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
        """The same for an epilogue, which gets several tiles side by side as one."""
        f, shape, room = self.f, self.shape, self.room.tile
        base, step, apart = panels
        with f.turns(*columns, str(_HANDED * shape.panel)) as loop:
            panel = loop.carry("ptr", base)
            start, turns = loop.carry("ptr", tile.soon.start), loop.carry("i64", tile.soon.turns)
            last = f.minimum(f.add(loop.index, loop.step), columns[1])
            wide = f.sub(last, loop.index)
            goal = room, f.mul(wide, str(shape.size))
            soon = tile.soon._replace(start=start, turns=turns)
            where = self._where(tile, wide, loop.index)
            f.line(f"call void {self.epilogue}(ptr null, {where})")
            self._strip(tile, (panel, step, apart), goal, (loop.index, last), soon)
            f.line(f"call void {self.epilogue}(ptr {room}, {where})")
            loop.become(panel, f.at(panel, f.mul(apart, str(_HANDED))))
            later = f.sub(turns, str(_HANDED))
            there = f.is_("sgt", later, "0")
            onward = f.at(start, f.mul(tile.soon.apart, str(_HANDED)))
            loop.become(start, f.select(there, onward, start, "ptr"))
            loop.become(turns, f.maximum(later, "0"))

    def _where(self, tile: _Tile, columns: str, column: str) -> str:
        """What an epilogue is told of a tile."""
        return (
            f"i64 {tile.height}, i64 {columns}, i64 {tile.row}, i64 {column}, "
            f"i64 {self.place[0]}, i64 {self.place[1]}, ptr {self.state}"
        )

    def _limit(self, block: CacheBlock) -> str:
        """The most rows in a tile: more where all panels are narrow, and rows are not packed."""
        f, shape = self.f, self.shape
        limit = str(shape.rows)
        if self.stands is None:
            return limit
        most = most_rows(f, shape, f.sub(self.columns, block.first))
        return f.select(self.stands(block), most, limit)

    def _tile(self, tile: _Tile, column: str, width: str) -> None:
        """A tile of any width."""
        f, shape, found = self.f, self.shape, tile.panels
        offset = f.add(f.mul(column, found.per_column), f.mul(width, found.per_width))
        panel, step = f.at(found.base, offset), f.mul(width, str(shape.bytes))
        if found.direct != "false":
            partial = is_partial(f, shape, column, width, self.columns)
            panel = f.select(f.both(found.direct, partial), found.spare, panel, "ptr")
            there = f.both(found.direct, f.let(f"xor i1 {partial}, true"))
            step = f.select(there, found.step, step)
        offset = f.add(f.mul(tile.row, self.out_row), f.mul(column, str(shape.size)))
        columns = f.minimum(f.sub(self.columns, column), f.mul(width, str(shape.lanes)))
        valid = f.sub(columns, f.mul(f.sub(width, "1"), str(shape.lanes)))
        turn = f.div(f.sub(column, tile.block.first), str(shape.panel))
        soon = tile.soon.of(f, turn, f.at(tile.soon.start, f.mul(turn, tile.soon.apart)))
        function, out = self._function(tile.height, width), f.at(self.out, offset)
        self._call(tile, function, panel, step, out, column, (columns, valid), soon)

    def _function(self, height: str, width: str) -> str:
        """The function for a tile of that extent."""
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
        """Call the function for a tile, and the epilogue. there: columns, lanes of the last one"""
        f, shape, handed = self.f, self.shape, tile.handed
        before = f.select(tile.fresh, "null", out, "ptr")
        into = f.select(handed, self.room.tile, out, "ptr")
        into_row = f.select(handed, str(shape.panel * shape.size), self.out_row)
        where = self._where(tile, there[0], column)
        with f.when(handed):
            f.line(f"call void {self.epilogue}(ptr null, {where})")
        f.line(
            f"call void {function}({tile.left}, ptr {panel}, i64 {step}, i64 {tile.block.depth}, "
            f"ptr {before}, i64 {self.out_row}, ptr {into}, i64 {into_row}, i64 {there[1]}, {soon})"
        )
        with f.when(handed):
            f.line(f"call void {self.epilogue}(ptr {self.room.tile}, {where})")
