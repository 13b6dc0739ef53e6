"""Convolutions with few filters in a group, from padded planes in the first-level cache.

A tile of the output is some rows, or a piece of a row. The part of the image that the tile meets is
copied with its padding. With strides the copy consists of *phases*: phase (i, j) has the elements
of rows i, i + stride_height, ... and of columns j, j + stride_width, ... So each tap meets
neighbouring elements for neighbouring positions. Rows of the copy are longer than rows of the tile
by what the kernel reaches over; positions in between are computed in vain, and left out at the end.
Several vectors of sums take turns, so that no addition waits for the previous addition.
"""

from __future__ import annotations

from collections.abc import Callable

from wend._engine.base.records import Record
from wend._engine.compiler.kernels.matmul.microkernel import (
    call_epilogue,
    counted,
    fused,
    lane_mask,
    masked_add,
    spread,
    spread_integer,
)
from wend._engine.compiler.kernels.matmul.packing import ElementReader
from wend._engine.compiler.llvm_ir.function import Loop, Routine

#: The elements of the copy, and the sums of a tile: together these stay in the first-level cache.
_COPIED, _SUMS = 5120, 1024
#: The positions of a piece of a long row.
_PIECE = 512
#: The vectors of sums that are computed at once.
_BLOCKS = (8, 4, 2, 1)


def steps_to_zero(f: Routine, away: str, step: str) -> str:
    """The number of steps from `away` to 0 or beyond; 0 if `away` is not below 0."""
    missing = f.select(f.is_("slt", away, "0"), f.sub("0", away), "0")
    return f.div(f.add(missing, f.sub(step, "1")), step)


class Planes(Record):
    """A convolution of a single image and group. a: words, with strides in bytes

    width, height: the positions of a row of a tile, and the most rows of a tile
    line: the elements between rows of the copy     above: the rows of a phase besides those of taps
    across, down: the phases per row and column     plane: the bytes between phases
    whole, rest: per side, the quotient and the remainder of a dilation by the stride
    copied, sums, packed: addresses of the copy, of the sums, and of the sums without gaps
    """

    f: Routine
    source: ElementReader
    a: dict[str, str]
    width: str
    height: str
    line: str
    above: str
    across: str
    down: str
    plane: str
    copied: str
    sums: str
    packed: str
    whole: dict[str, str]
    rest: dict[str, str]

    @staticmethod
    def of(f: Routine, source: ElementReader, a: dict[str, str]) -> Planes:
        """Choose the sizes of tiles."""
        shape = source.shape
        reach = [  # a phase of a transposed convolution may have no taps
            f.mul(f.maximum(f.sub(a[f"kernel_{side}"], "1"), "0"), a[f"dilation_{side}"])
            for side in ("height", "width")
        ]
        width = f.minimum(a["out_width"], str(_PIECE))
        line = f.add(width, f.div(reach[1], a["stride_width"]))
        above = f.div(reach[0], a["stride_height"])
        down = f.minimum(a["stride_height"], f.add(reach[0], "1"))
        across = f.minimum(a["stride_width"], f.add(reach[1], "1"))
        planes = f.mul(f.mul(a["channels"], down), across)
        rows = f.sub(f.div(str(_COPIED), f.mul(planes, line)), above)
        rows = f.minimum(rows, f.div(str(_SUMS), line))
        undivided = f.is_("eq", width, a["out_width"])
        height = f.select(undivided, rows, f.minimum(rows, "1"))
        room = 2 * shape.lanes
        sums = f.at(a["scratch"], (_COPIED + room) * shape.size)
        packed = f.at(sums, (_SUMS + room) * shape.size)
        plane = f.mul(f.mul(f.add(height, above), line), str(shape.size))
        # LLVM leaves divisions in a loop that may have no turn.
        sides = "height", "width"
        whole = {side: f.div(a[f"dilation_{side}"], a[f"stride_{side}"]) for side in sides}
        rest = {
            side: f.sub(a[f"dilation_{side}"], f.mul(whole[side], a[f"stride_{side}"]))
            for side in sides
        }
        sizes = width, height, line, above, across, down, plane
        return Planes(f, source, a, *sizes, a["scratch"], sums, packed, whole, rest)

    def fits(self) -> str:
        """Whether there is room for a row of a tile."""
        return self.f.is_("sgt", self.height, "0")

    def bytes(self, count: str) -> str:
        """The bytes of so many accumulators."""
        return self.f.mul(count, str(self.source.shape.size))

    def write(self) -> None:
        """Write the loops over tiles."""
        f, a = self.f, self.a
        top = f.div(a["first_column"], a["out_width"])
        end = f.div(
            f.add(a["last_column"], f.sub(a["out_width"], "1")),
            a["out_width"],
        )
        with (
            f.loop(top, end, self.height) as row,
            f.loop("0", a["out_width"], self.width) as column,
        ):
            rows = f.minimum(f.sub(end, row), self.height)
            count = f.minimum(f.sub(a["out_width"], column), self.width)
            self.copy(row, column, rows)
            taps = self.rows_of_taps(row, rows)
            first = f.add(f.mul(row, a["out_width"]), column)
            with f.loop("0", a["filters"]) as filter_:
                self.add_taps(filter_, f.add(f.mul(f.sub(rows, "1"), self.line), count), taps)
                self.pack(rows, count)
                self.give(filter_, first, f.add(first, f.mul(rows, count)))

    # -- the copy ---------------------------------------------------------------------------

    def copy(self, row: str, column: str, rows: str) -> None:
        """Copy all phases of the image that a tile meets. row, column: the tile's first position"""
        f, a = self.f, self.a
        lines = f.add(rows, self.above)
        with (
            f.loop("0", a["channels"]) as channel,
            f.loop("0", self.down) as i,
            f.loop("0", self.across) as j,
        ):
            plane = f.add(f.mul(f.add(f.mul(channel, self.down), i), self.across), j)
            to = f.at(self.copied, f.mul(plane, self.plane))
            image = f.at("%image", f.mul(channel, a["input_channel"]))
            y = f.sub(f.add(f.mul(row, a["stride_height"]), i), a["pad_height"])
            x = f.sub(f.add(f.mul(column, a["stride_width"]), j), a["pad_width"])
            with f.loop("0", lines) as k:
                there = f.add(y, f.mul(k, a["stride_height"]))
                inside = f.is_("ult", there, a["input_height"])
                limit = f.select(inside, a["input_width"], "0")
                line = f.at(image, f.mul(f.select(inside, there, "0"), a["input_row"]))
                self.copy_line(line, x, limit, f.at(to, self.bytes(f.mul(k, self.line))))

    def copy_line(self, line: str, x: str, limit: str, to: str) -> None:
        """Copy every `stride_width`th element from column x on; columns from `limit` on are 0."""
        f, a, source = self.f, self.a, self.source
        size = str(source.size)
        jump = f.mul(a["stride_width"], a["input_column"])
        beside = f.is_("eq", jump, size)
        dense = f.is_("eq", a["input_column"], size)
        second = f.both(dense, f.is_("eq", a["stride_width"], "2"))
        apart = f.let(f"xor i1 {f.either(beside, second)}, true")
        with f.when(beside):
            self._copy_by(line, x, to, lambda at, x: self._inside(at, x, limit, "1"))
        with f.when(second):
            self._copy_by(line, x, to, lambda at, x: self._every_second(at, x, limit))
        with f.when(apart):
            self._copy_by(line, x, to, lambda at, x: self._gathered(at, x, limit, jump))

    def _copy_by(self, line: str, x: str, to: str, load: Callable[[str, str], str]) -> None:
        """Copy a line by a function that loads a vector from an address and a column on."""
        f, a, shape = self.f, self.a, self.source.shape
        with f.loop("0", self.line, str(shape.lanes)) as k:
            column = f.add(x, f.mul(k, a["stride_width"]))
            seen = load(f.at(line, f.mul(column, a["input_column"])), column)
            f.store(shape.vector, seen, f.at(to, self.bytes(k)), shape.size)

    def _mask(self, x: str, limit: str, step: str) -> str:
        """The lanes whose columns x, x + step, ... lie inside of the image."""
        f, lanes = self.f, self.source.shape.lanes
        kind = f"<{lanes} x i32>"
        steps = f.let(f"mul {kind} {counted(lanes)}, {spread_integer(f, lanes, step)}")
        columns = f.let(f"add {kind} {steps}, {spread_integer(f, lanes, x)}")
        return f.let(f"icmp ult {kind} {columns}, {spread_integer(f, lanes, limit)}")

    def _inside(self, pointer: str, x: str, limit: str, step: str) -> str:
        return self.source.vector(self.f, pointer, self._mask(x, limit, step))

    def _every_second(self, pointer: str, x: str, limit: str) -> str:
        f, lanes = self.f, self.source.shape.lanes
        near = self._inside(pointer, x, limit, "1")
        further = f.at(pointer, lanes * self.source.size)
        far = self._inside(further, f.add(x, str(lanes)), limit, "1")
        return self.source.every_second(f, near, far)

    def _gathered(self, pointer: str, x: str, limit: str, jump: str) -> str:
        mask = self._mask(x, limit, self.a["stride_width"])
        return self.source.gathered(self.f, pointer, jump, mask)

    # -- the sums ---------------------------------------------------------------------------

    def rows_of_taps(self, row: str, rows: str) -> tuple[str, str, str, str]:
        """The rows of taps that meet the image in some row of a tile.

        Returns the first and the last + 1, and the bytes and the phase of the first in the copy.
        """
        f, a = self.f, self.a
        stride, dilation = a["stride_height"], a["dilation_height"]
        y = f.sub(f.mul(row, stride), a["pad_height"])
        lowest = f.add(y, f.mul(f.sub(rows, "1"), stride))
        first = f.minimum(steps_to_zero(f, lowest, dilation), a["kernel_height"])
        last = steps_to_zero(f, f.sub(y, a["input_height"]), dilation)
        last = f.minimum(last, a["kernel_height"])
        below = f.mul(first, dilation)
        whole = f.div(below, stride)
        phase = f.sub(below, f.mul(whole, stride))
        beyond = f.mul(self.plane, self.across)
        place = f.add(f.mul(whole, self.bytes(self.line)), f.mul(phase, beyond))
        return first, last, place, phase

    def add_taps(self, filter_: str, positions: str, taps: tuple[str, str, str, str]) -> None:
        """Put the sums of a filter into memory, with the gaps between rows."""
        f, a, shape = self.f, self.a, self.source.shape
        vectors = f.ceil_div(positions, shape.lanes)
        kernel = f.at("%weight", f.mul(filter_, a["weight_filter"]))
        done = "0"
        for block in _BLOCKS:
            with f.turns(done, f.sub(vectors, str(block - 1)), str(block)) as loop:
                place = self.bytes(f.mul(loop.index, str(shape.lanes)))
                sums = self._block(block, f.at(self.copied, place), kernel, taps)
                for k, x in enumerate(sums):
                    to = f.at(f.at(self.sums, place), k * shape.lanes * shape.size)
                    f.store(shape.vector, x, to, shape.size)
            done = loop.index

    def _block(
        self, block: int, start: str, kernel: str, rows_of_taps: tuple[str, str, str, str]
    ) -> list[str]:
        """Return vectors of sums over channels and taps, for neighbouring positions."""
        f, a, shape = self.f, self.a, self.source.shape
        size, element = str(self.source.size), str(shape.size)
        plane = self.plane
        row, column = self.bytes(self.line), element
        beyond = f.mul(plane, self.across)
        taps = f.mul(f.mul(a["kernel_height"], a["kernel_width"]), size)
        apart = f.mul(beyond, self.down)
        top, end, offset, phase = rows_of_taps
        with f.turns("0", a["channels"]) as channels:
            totals = [channels.carry(shape.vector, "zeroinitializer") for _ in range(block)]
            first = f.at(start, f.add(offset, f.mul(channels.index, apart)))
            weights = f.at(kernel, f.mul(channels.index, taps))
            with f.turns(top, end) as rows:
                above = [rows.carry(shape.vector, x) for x in totals]
                line, i = rows.carry("ptr", first), rows.carry("i64", phase)
                tap = f.at(weights, f.mul(f.mul(rows.index, a["kernel_width"]), size))
                with f.turns("0", a["kernel_width"]) as columns:
                    now = [columns.carry(shape.vector, x) for x in above]
                    seen, j = columns.carry("ptr", line), columns.carry("i64", "0")
                    one = self.source.one(f, f.at(tap, f.mul(columns.index, size)))
                    factor = spread(f, shape, one)
                    for k, x in enumerate(now):
                        place = f.at(seen, k * shape.lanes * shape.size)
                        y = f.load(shape.vector, place, shape.size)
                        columns.become(x, fused(f, shape, y, factor, x))
                    self._next(columns, seen, j, "width", column, plane)
                for old, new in zip(above, now):
                    rows.become(old, new)
                self._next(rows, line, i, "height", row, beyond)
            for old, new in zip(totals, above):
                channels.become(old, new)
        return totals

    def _next(self, loop: Loop, pointer: str, phase: str, side: str, step: str, apart: str) -> None:
        """Let a pointer and a phase become those of the next tap along a side.

        step, apart: the bytes between neighbours of a phase, and between phases
        """
        f, a = self.f, self.a
        stride = a[f"stride_{side}"]
        moved = f.add(phase, self.rest[side])
        over = f.is_("sge", moved, stride)
        back = f.select(over, stride, "0")
        steps = f.add(self.whole[side], f.let(f"zext i1 {over} to i64"))
        phases = f.sub(self.rest[side], back)
        offset = f.add(f.mul(steps, step), f.mul(phases, apart))
        loop.become(pointer, f.at(pointer, offset))
        loop.become(phase, f.sub(moved, back))

    # -- the results ------------------------------------------------------------------------

    def pack(self, rows: str, count: str) -> None:
        """Close the gaps between the rows of a tile."""
        f, shape = self.f, self.source.shape
        with f.loop("0", rows) as row:
            line = f.at(self.sums, self.bytes(f.mul(row, self.line)))
            to = f.at(self.packed, self.bytes(f.mul(row, count)))
            # The next row overwrites the lanes that the last vector has too many.
            with f.loop("0", count, str(shape.lanes)) as k:
                offset = self.bytes(k)
                x = f.load(shape.vector, f.at(line, offset), shape.size)
                f.store(shape.vector, x, f.at(to, offset), shape.size)

    def give(self, filter_: str, first: str, end: str) -> None:
        """Hand the packed sums of positions first ... end - 1 on, those that are asked for."""
        f, a, shape = self.f, self.a, self.source.shape
        begin = f.maximum(first, a["first_column"])
        last = f.minimum(end, a["last_column"])
        tile = f.at(self.packed, self.bytes(f.sub(begin, first)))
        count = f.sub(last, begin)
        handed = f.is_("ne", a["epilogue"], "null", "ptr")
        some = f.is_("sgt", count, "0")
        with f.when(f.both(some, handed)):
            there = ("1", count), (filter_, begin), ("%at0", "%at1")
            call_epilogue(f, a["epilogue"], tile, *there, a["state"])
        with f.when(f.both(some, f.let(f"xor i1 {handed}, true"))):
            added = f.is_("ne", a["accumulate"], "0")
            place = f.add(f.mul(filter_, a["out_channel"]), self.bytes(begin))
            to = f.at("%out", place)
            with f.loop("0", count, str(shape.lanes)) as k:
                offset = self.bytes(k)
                x = f.load(shape.vector, f.at(tile, offset), shape.size)
                mask = lane_mask(f, shape.lanes, f.sub(count, k))
                masked_add(f, shape, x, f.at(to, offset), mask, added)
