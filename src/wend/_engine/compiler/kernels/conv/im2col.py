"""Packing the patches of an image as the right operand of a matrix product (im2col).

    void pack_patches(args, image, first, columns, width, start, depth, panel)

A call packs a panel: `columns` positions of the output from `first` on. The panel has a row of
`width` elements for each step of depth from `start` on. Step c * taps + tap is channel c of the
image at that tap of the kernel. Elements of the padding are 0. The matrix of all patches is never
made as a whole.

All channels are packed alike. So the moves of a channel are written to a table first. A move is a
vector of a tap, with the lanes to load and to store. Then the moves are made for each channel, so
that a channel's rows stay in the cache for all taps.

The geometry is read from the argument block `args`, see `conv.forward`.
"""

from __future__ import annotations

from wend._engine.compiler.kernels.matmul.macrokernel import arguments, column_panels
from wend._engine.compiler.kernels.matmul.microkernel import (
    LINE,
    TileConfig,
    counted,
    fetch,
    lane_mask,
    masked_update,
    spread_integer,
)
from wend._engine.compiler.kernels.matmul.packing import ElementReader
from wend._engine.compiler.llvm_ir.function import Routine

# The entries of the table of moves.
_MOVES = 512


def pack_patches(shape: TileConfig, dtype: str, names: list[str]) -> str:
    """The text of `pack_patches`, which packs a panel of patches."""
    words = "first columns width start depth".split()
    parameters = [("ptr", "args"), ("ptr", "image"), *(("i64", word) for word in words)]
    f = Routine("pack_patches", [*parameters, ("ptr", "panel")], internal=True)
    a = arguments(f, names, "")
    f.leave_when(f.is_("eq", "%depth", "0"))
    packing = _Packing(f, shape, ElementReader(shape, dtype), a)
    table = f.let(f"alloca [{_MOVES * packing.move} x i8], align 64")
    starts = f.let(f"alloca [{_MOVES + 1} x i64], align 64")
    # Runs of neighbours end with a panel's vectors and with rows of the output.
    runs = f.add(f.div("%columns", a["out_width"]), "2")
    each = f.add(runs, str(shape.vectors))
    small = f.is_("sle", f.mul(packing.taps, each), str(_MOVES))
    with f.when(small):
        packing.in_one_go(table, starts)
    with f.when(f.let(f"xor i1 {small}, true")):
        packing.tap_by_tap(table)
    return f.text()


class _Packing:
    """The parts of the function `pack_patches`."""

    def __init__(
        self, f: Routine, shape: TileConfig, source: ElementReader, a: dict[str, str]
    ) -> None:
        self.f, self.shape, self.source, self.a = f, shape, source, a
        for name in ("input_image", "input_channel", "input_row", "input_column"):
            a[name] = f.mul(a[name], str(source.size))
        # An entry is two offsets and three masks. Masks are bits, or vectors where bits are slow.
        self.mask = 8 if shape.masks else shape.bytes
        self.move = 16 + 3 * self.mask
        self.row_bytes = f.mul("%width", str(shape.size))
        self.taps = f.mul(a["kernel_height"], a["kernel_width"])
        self.end = f.add("%start", "%depth")
        self.top = f.div("%first", a["out_width"])
        self.side = f.sub("%first", f.mul(self.top, a["out_width"]))
        self.jump = f.mul(a["stride_width"], a["input_column"])
        self.kind = f"<{shape.lanes} x i32>"
        self.image_width = spread_integer(f, shape.lanes, a["input_width"])
        beside = f.is_("eq", self.jump, str(source.size))
        double = f.is_("eq", self.jump, str(2 * source.size))
        other = f.let(f"xor i1 {f.either(beside, double)}, true")
        self.ways = (
            (beside, self._beside),
            (double, self._double),
            (other, self._gathered),
        )
        # The position of each element of a vector, and its distance in the image, in columns.
        lanes = shape.lanes
        halved = ", ".join(f"i32 {i // 2}" for i in range(lanes))
        kind = self.kind
        steps = f.let(f"select i1 {double}, {kind} <{halved}>, {kind} {counted(lanes)}")
        stride = spread_integer(f, lanes, a["stride_width"])
        self.steps = f.let(f"mul {kind} {steps}, {stride}")
        self.half = f.mul(a["stride_width"], str(lanes // 2))
        self.per_position = f.select(double, "2", "1")
        even = ", ".join(f"i1 {'false' if i % 2 else 'true'}" for i in range(shape.lanes))
        every = ", ".join(["i1 true"] * shape.lanes)
        kind = f"<{shape.lanes} x i1>"
        self.wanted = f.let(f"select i1 {double}, {kind} <{even}>, {kind} <{every}>")

    def in_one_go(self, table: str, starts: str) -> None:
        """Write down the moves of all taps, then make these moves channel by channel."""
        f = self.f
        with f.turns("0", self.taps) as tap:
            number = tap.carry("i64", "0")
            f.store("i64", number, f.at(starts, f.mul(tap.index, "8")), 8)
            into = f.at(table, f.mul(number, str(self.move)))
            tap.become(number, f.add(number, self._write_down(tap.index, into)))
        f.store("i64", number, f.at(starts, f.mul(self.taps, "8")), 8)
        channel = f.div("%start", self.taps)
        last = self._channels_to(self.end)
        with f.loop(channel, last) as c:
            step = f.mul(c, self.taps)
            # The first and the last channel of a block may begin and end at any tap.
            low = f.sub("%start", step)
            low = f.select(f.is_("sgt", low, "0"), low, "0")
            high = f.minimum(f.sub(self.end, step), self.taps)
            moves = [f.load("i64", f.at(starts, f.mul(x, "8")), 8) for x in (low, high)]
            plane = f.at("%image", f.mul(c, self.a["input_channel"]))
            self._fetch_later(plane)
            panel = f.at("%panel", f.mul(f.sub(step, "%start"), self.row_bytes))
            self._make(table, moves[0], moves[1], plane, panel)

    def _fetch_later(self, plane: str) -> None:
        """Prefetch the lines of a channel that a panel in this place of the next chunk reads.

        These lines are below the lines that the kernel covers now, or are the first lines of the
        next image. A processor does not foresee a few short pieces of each channel.
        """
        f, a = self.f, self.a
        line = f.mul(a["stride_height"], a["input_row"])
        chunk = f.mul("%width", str(column_panels(self.shape)))
        later = f.add("%first", chunk)
        here = f.is_("slt", later, f.mul(a["out_height"], a["out_width"]))
        reach = f.mul(f.sub(a["kernel_height"], "1"), a["dilation_height"])
        below = f.select(f.is_("sgt", reach, "0"), reach, "0")
        above = f.mul(f.sub(below, a["pad_height"]), a["input_row"])
        again = f.sub("%first", f.mul(f.div("%first", chunk), chunk))
        start = f.div(f.mul(f.select(here, later, again), line), a["out_width"])
        start = f.add(start, f.select(here, above, a["input_image"]))
        # An image that lies upside down is not fetched.
        upright = f.select(f.is_("sgt", line, "0"), "%columns", "0")
        length = f.div(f.mul(upright, line), a["out_width"])
        with f.loop("0", f.add(length, str(LINE)), str(LINE)) as at:
            fetch(f, f.at(plane, f.add(start, at)), level=2)

    def tap_by_tap(self, table: str) -> None:
        """Do as `in_one_go` with a small table, which is written for each tap: for huge kernels."""
        f = self.f
        with f.loop("0", self.taps) as tap:
            moves = self._write_down(tap, table)
            channel = self._channels_to(f.sub("%start", tap))
            last = self._channels_to(f.sub(self.end, tap))
            with f.loop(channel, last) as c:
                plane = f.at("%image", f.mul(c, self.a["input_channel"]))
                line = f.sub(f.mul(c, self.taps), "%start")
                self._make(table, "0", moves, plane, f.at("%panel", f.mul(line, self.row_bytes)))

    def _channels_to(self, step: str) -> str:
        """The number of channels whose first step is before a step of depth."""
        f = self.f
        step = f.select(f.is_("sgt", step, "0"), step, "0")
        return f.div(f.add(step, f.sub(self.taps, "1")), self.taps)

    def _write_down(self, tap: str, table: str) -> str:
        """Write the moves of a tap to the table. Returns the number of moves.

        Offsets are relative to a channel of the image, and to the channel's first row in the panel.
        """
        f, a = self.f, self.a
        kh = f.div(tap, a["kernel_width"])
        kw = f.sub(tap, f.mul(kh, a["kernel_width"]))
        down = f.sub(f.mul(kh, a["dilation_height"]), a["pad_height"])
        across = f.sub(f.mul(kw, a["dilation_width"]), a["pad_width"])
        line = f.mul(tap, self.row_bytes)
        with f.turns("0", "%columns") as run:
            oh, ow = run.carry("i64", self.top), run.carry("i64", self.side)
            number = run.carry("i64", "0")
            count = f.minimum(f.sub(a["out_width"], ow), f.sub("%columns", run.index))
            count = f.minimum(count, str(self.shape.lanes))
            run.step = count
            right = f.add(ow, count)
            over = f.is_("eq", right, a["out_width"])
            run.become(oh, f.add(oh, f.let(f"zext i1 {over} to i64")))
            run.become(ow, f.select(over, "0", right))
            run.become(number, f.add(number, "1"))
            ih = f.add(f.mul(oh, a["stride_height"]), down)
            iw = f.add(f.mul(ow, a["stride_width"]), across)
            move = f.at(table, f.mul(number, str(self.move)))
            source = f.add(f.mul(ih, a["input_row"]), f.mul(iw, a["input_column"]))
            f.store("i64", source, f.at(move, 0), 8)
            to = f.add(line, f.mul(run.index, str(self.shape.size)))
            f.store("i64", to, f.at(move, 8), 8)
            inside = f.is_("ult", ih, a["input_height"])
            stored = count
            if not self.shape.masks:  # Whole vectors are stored; later moves overwrite the excess.
                room = f.sub("%columns", run.index)
                lanes = str(self.shape.lanes)
                stored = f.select(f.is_("sge", room, lanes), lanes, count)
            self._masks(move, iw, (count, stored), inside)
        return number

    def _masks(self, move: str, iw: str, counts: tuple[str, str], inside: str) -> None:
        """Write the three masks of a move: lanes to load of two vectors, and lanes to store."""
        f, lanes = self.f, self.shape.lanes
        count, stored = counts
        kind = f"<{lanes} x i1>"
        elements = f.mul(count, self.per_position)
        for part in (0, 1):
            first = spread_integer(f, lanes, f.add(iw, self.half) if part else iw)
            columns = f.let(f"add {self.kind} {self.steps}, {first}")
            mask = f.let(f"icmp ult {self.kind} {columns}, {self.image_width}")
            there = lane_mask(f, lanes, f.sub(elements, str(part * lanes)))
            mask = f.let(f"and {kind} {mask}, {there}")
            mask = f.let(f"and {kind} {mask}, {self.wanted}")
            mask = f.let(f"select i1 {inside}, {kind} {mask}, {kind} zeroinitializer")
            self._store_mask(mask, f.at(move, 16 + self.mask * part))
        self._store_mask(lane_mask(f, lanes, stored), f.at(move, 16 + 2 * self.mask))

    def _store_mask(self, mask: str, place: str) -> None:
        f, lanes = self.f, self.shape.lanes
        if not self.shape.masks:
            kind = f"<{lanes} x i{8 * self.shape.size}>"
            f.store(kind, f.let(f"sext <{lanes} x i1> {mask} to {kind}"), place, 8)
            return
        bits = f.let(f"bitcast <{lanes} x i1> {mask} to i{lanes}")
        f.store("i64", f.let(f"zext i{lanes} {bits} to i64"), place, 8)

    def _load_mask(self, place: str) -> str:
        f, lanes = self.f, self.shape.lanes
        if not self.shape.masks:
            kind = f"<{lanes} x i{8 * self.shape.size}>"
            return f.let(f"icmp slt {kind} {f.load(kind, place, 8)}, zeroinitializer")
        bits = f.let(f"trunc i64 {f.load('i64', place, 8)} to i{lanes}")
        return f.let(f"bitcast i{lanes} {bits} to <{lanes} x i1>")

    def _make(self, table: str, first: str, last: str, plane: str, panel: str) -> None:
        """Make the moves `first` to `last` - 1 of the table for a channel."""
        f = self.f
        for condition, load in self.ways:
            with f.when(condition), f.loop(first, last) as i:
                move = f.at(table, f.mul(i, str(self.move)))
                source = f.at(plane, f.load("i64", move, 8))
                to = f.at(panel, f.load("i64", f.at(move, 8), 8))
                x = load(source, move)
                masked_update(f, self.shape, x, to, self._load_mask(f.at(move, 16 + 2 * self.mask)))

    def _beside(self, source: str, move: str) -> str:
        return self.source.vector(self.f, source, self._load_mask(self.f.at(move, 16)))

    def _double(self, source: str, move: str) -> str:
        f, lanes = self.f, self.shape.lanes
        pair = [
            self.source.vector(
                f,
                f.at(source, part * lanes * self.source.size),
                self._load_mask(f.at(move, 16 + self.mask * part)),
            )
            for part in (0, 1)
        ]
        return self.source.every_second(f, *pair)

    def _gathered(self, source: str, move: str) -> str:
        mask = self._load_mask(self.f.at(move, 16))
        return self.source.gathered(self.f, source, self.jump, mask)
