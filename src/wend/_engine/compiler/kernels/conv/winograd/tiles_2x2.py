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

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from wend._engine.compiler.kernels.conv.sizes import ConvolutionSizes
from wend._engine.compiler.kernels.conv.winograd.squares import (
    NARROW,
    halves,
    has_tiles,
    is_reversed,
    is_worth,
    least,
    parameters,
    runs,
    squares_of,
    stored_ways,
)
from wend._engine.compiler.kernels.conv.winograd.transforms import (
    PAIRS,
    both_ways,
    join_line_2,
    spread_line_2,
)
from wend._engine.compiler.kernels.matmul.macrokernel import arguments
from wend._engine.compiler.kernels.matmul.microkernel import (
    LINE,
    TileConfig,
    call_epilogue,
    lane_mask,
    lane_range,
    lanes_where,
    masked_load,
    masked_store,
    masked_update,
)
from wend._engine.compiler.kernels.matmul.packing import ElementReader, shuffled
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.integers import Bool, Int
from wend._engine.compiler.llvm_ir.variants import Variant, variant

Masks = list[list[str]]

#: The least number of squares where a transformed weight serves several convolutions.
_SHARED = 16
_SEEN, _PLACES = NARROW.seen, NARROW.places


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
        condition = c["dilation_height"] * c["dilation_width"] == 1
        fewest = Int(least(c.shape)[2], c["batch"].f)
        if "shared" in c:
            fewest = (c["shared"] != 0).choose(_SHARED, fewest)
        return condition & is_worth(c, c["batch"], fewest)

    @staticmethod
    def emit(c: ConvolutionSizes) -> None:
        """Write the call of `winograd`."""
        if c.pools:
            c.tell_pooled(False)
        c.f.line("call void @winograd(ptr %args)")


def spread_image(shape: TileConfig, dtype: str, names: list[str]) -> str:
    """The text of `spread_image`: it transforms the windows of `count` squares, in all channels."""
    words = "ptr args, ptr image, i64 first, i64 count, i64 line, ptr to, i64 apart"
    signature = parameters(words)
    f = Routine("spread_image", signature, internal=True)
    a = arguments(f, names, "")
    source = ElementReader(shape, dtype)
    lanes = shape.lanes
    channel = f.mul(a["input_channel"], str(shape.size))
    row = f.mul(a["input_row"], str(shape.size))
    _, wide = squares_of(f, a, NARROW)
    # Taps in reverse order begin two pixels before.
    turned = f.select(is_reversed(f, a), "2", "0")
    with runs(f, shape, wide) as (at, y, x, count):
        top = f.sub(f.mul(y, "2"), f.add(a["pad_height"], turned))
        side = f.sub(f.mul(x, "2"), f.add(a["pad_width"], turned))
        starts = [part * lanes + away for away in (0, 2) for part in (0, 1)]
        masks = []
        for start in starts:
            here = f.add(side, str(start))
            masks.append(lane_range(f, lanes, f.sub("0", here), f.sub(a["input_width"], here)))
        inside = [f.is_("ult", f.add(top, str(r)), a["input_height"]) for r in range(_SEEN)]
        within = f.both(f.both(inside[0], inside[1]), f.both(inside[2], inside[3]))
        ways = stored_ways(f, shape, at, count)
        corner = f.at("%image", f.add(f.mul(top, row), f.mul(side, str(shape.size))))
        lines = [f.at(corner, f.mul(row, str(r))) for r in range(_SEEN)]
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


def _spread_seen(
    f: Routine, shape: TileConfig, seen: Callable[[int], list[str]], to: str, stored: str | None
) -> None:
    """Transform 4 x 4 vectors, and store the results in their planes.

    seen: a function that reads line r of the window, as four vectors
    """

    def store(down: int, line: list[str]) -> None:
        for across, x in enumerate(line):
            place = f.at(to, f.mul("%apart", str(_SEEN * down + across)))
            masked_update(f, shape, x, place, stored)

    if shape.vectors > 2:
        rows = [seen(r) for r in range(_SEEN)]
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
    signature = parameters(words)
    f = Routine("join_image", [*signature, ("ptr", "out"), ("ptr", "tile")], internal=True)
    a = arguments(f, names, "epilogue state")
    lanes, unit = shape.lanes, str(shape.size)
    channel = f.mul(a["out_channel"], unit)
    _, wide = squares_of(f, a, NARROW)
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
                    places = [f.at(here, f.mul("%apart", str(k))) for k in range(_PLACES)]
                    sums = [masked_load(f, shape, place, loaded) for place in places]
                    columns = [sums[k::_SEEN] for k in range(_SEEN)]
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
                    there = (rows, columns_), (first, column), ("%at0", "0")
                    call_epilogue(f, a["epilogue"], tile, *there, a["state"])
    return f.text()
