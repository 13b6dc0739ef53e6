"""The gradient of a convolution's input: convolutions of the output's gradient, one per phase.

With steps of `stride` between windows, the positions of the input fall into stride_height *
stride_width phases. All positions of a phase meet the same taps of the kernel. These taps, in
reverse order, are a kernel of their own, which steps by 1 over the gradient. No multiplications are
spent on the zeros of a spread-out gradient. The phases' kernels lie in order in the workspace, each
as (groups, channels, filters, taps). Where a phase meets all taps, the taps keep their order, so
that whole vectors of taps are moved. The dilation is then negative instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

from wend._engine.base.records import Record
from wend._engine.compiler.kernels.conv.sizes import ConvolutionSizes, is_small, write_variant
from wend._engine.compiler.kernels.conv.winograd.tiles_2x2 import Winograd2x2
from wend._engine.compiler.kernels.matmul.macrokernel import arguments
from wend._engine.compiler.kernels.matmul.microkernel import (
    EPILOGUE,
    TileConfig,
    lane_mask,
    masked_load,
    masked_store,
)
from wend._engine.compiler.kernels.matmul.packing import SOURCES
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.integers import Bool, Int
from wend._engine.compiler.llvm_ir.variants import Variant, variant, variants_of

#: The filters whose taps are written together, because they lie side by side afterwards.
_FILTERS = 16


class _Phase(Record):
    """A dim of a phase, whose taps are last, last - step, ... and so on.

    last, step: the last tap of the phase, and the step between taps
    count: the number of taps
    positions: the positions of the input in this phase
    pad, dilation: the padding and the dilation of the kernel made of these taps
    """

    last: str
    step: str
    count: str
    positions: str
    pad: str
    dilation: str


def convolve_input(shape: TileConfig, dtype: str, names: list[str], inner: list[str]) -> str:
    """The text of `convolve_input`, which calls `convolve`. See `conv.forward`.

    names, inner: the words of `convolve_input`, and the words of `convolve`
    """
    f = Routine("convolve_input", [("ptr", "args")])
    pointers = "input out weight workspace partial bundle scratch spread"
    a = arguments(f, names, pointers)
    block = f.let(f"alloca [{len(inner)} x i64], align 8")
    state = f.let("alloca [8 x i64], align 8")
    c = ConvolutionSizes.in_code(f, shape, dtype, a)
    ordered = keeps_order(c)
    single = f.both(f.is_("eq", a["stride_height"], "1"), f.is_("eq", a["stride_width"], "1"))
    epilogue = f.select(single, "0", "ptrtoint (ptr @scatter_phase to i64)")
    with f.when(f.is_("eq", a["turned"], "0")):
        f.line("call void @turn_weight(ptr %args)")
    with _phases(f, dtype, a) as (y, x, high, wide, kernel):
        place = f.add(f.mul(y, a["input_width"]), x)
        positions = f.mul(high.positions, wide.positions)
        whole = str(PhaseTaps.of(c, ordered, high, wide).whole)
        high, wide = _in_order(f, whole, high), _in_order(f, whole, wide)
        # Partial sums over the depth must not overwrite the results of another phase.
        sums = f.select(single, a["input"], a["partial"], "ptr")
        words = {
            "input": _integer(f, a["out"]),
            "weight": _integer(f, kernel),
            "out": _integer(f, sums),
            "images": a["images"],
            "groups": a["groups"],
            "channels": a["filters"],
            "filters": a["channels"],
            "input_height": a["out_height"],
            "input_width": a["out_width"],
            "out_height": high.positions,
            "out_width": wide.positions,
            "kernel_height": high.count,
            "kernel_width": wide.count,
            "stride_height": "1",
            "stride_width": "1",
            "dilation_height": high.dilation,
            "dilation_width": wide.dilation,
            "pad_height": high.pad,
            "pad_width": wide.pad,
            "input_image": a["out_image"],
            "input_channel": a["out_channel"],
            "input_row": a["out_row"],
            "input_column": a["out_column"],
            "weight_filter": f.mul(a["filters"], f.mul(high.count, wide.count)),
            "out_image": f.select(single, a["input_image"], "0"),
            "out_channel": f.select(single, a["input_channel"], positions),
            "first_column": "0",
            "last_column": positions,
            "accumulate": "0",
            "epilogue": epilogue,
            "state": _integer(f, state),
            "bundle": _integer(f, a["bundle"]),
            "scratch": _integer(f, a["scratch"]),
            "origin": "0",
            "batch": a["batch"],
            "workspace": _integer(f, a["workspace"]),
            "spread": _integer(f, a["spread"]),
            "turned": "1",
            "first_filter": "0",
            "last_filter": "0",
        }
        for i, name in enumerate(inner):
            f.store("i64", words[name], f.at(block, 8 * i), 8)
        _tell_scatter(f, shape, a, state, place, wide)
        f.line(f"call void @convolve(ptr {block})")
    return f.text()


def _tell_scatter(
    f: Routine, shape: TileConfig, a: dict[str, str], state: str, place: str, wide: _Phase
) -> None:
    """Write the state of `scatter_phase`. place: the phase's first position in the gradient"""
    size = str(shape.size)
    scattered = (
        f.add(_integer(f, a["input"]), f.mul(place, size)),
        f.mul(a["input_image"], size),
        f.mul(f.mul(a["input_channel"], a["channels"]), size),
        f.mul(a["input_channel"], size),
        f.mul(f.mul(a["input_width"], a["stride_height"]), size),
        f.mul(a["stride_width"], size),
        wide.positions,
    )
    for i, word in enumerate(scattered):
        f.store("i64", word, f.at(state, 8 * i), 8)


def _integer(f: Routine, pointer: str) -> str:
    return f.let(f"ptrtoint ptr {pointer} to i64")


def _phase(f: Routine, a: dict[str, str], dim: str, phase: str) -> _Phase:
    """Find the taps that positions phase, phase + stride, ... of the input meet."""
    stride, dilation = a["stride_" + dim], a["dilation_" + dim]
    start = f.add(phase, a["pad_" + dim])
    with f.turns("0", a["kernel_" + dim]) as loop:
        count, last, before = (loop.carry("i64", "0") for _ in range(3))
        away = f.sub(start, f.mul(loop.index, dilation))
        meets = f.is_("eq", f.let(f"srem i64 {away}, {stride}"), "0")
        loop.become(count, f.add(count, f.let(f"zext i1 {meets} to i64")))
        loop.become(last, f.select(meets, loop.index, last))
        loop.become(before, f.select(meets, last, before))
    several = f.is_("sgt", count, "1")
    step = f.select(several, f.sub(last, before), "1")
    away = f.let(f"sdiv i64 {f.sub(f.mul(last, dilation), start)}, {stride}")
    spread = f.select(several, f.div(f.mul(step, dilation), stride), "1")
    behind = f.sub(f.add(a["input_" + dim], f.sub(stride, "1")), phase)
    positions = f.div(behind, stride)  # phase < stride: never below 0
    return _Phase(
        last, step, count, positions, f.select(f.is_("eq", count, "0"), "0", away), spread
    )


@contextmanager
def _phases(
    f: Routine, dtype: str, a: dict[str, str]
) -> Iterator[tuple[str, str, _Phase, _Phase, str]]:
    """A loop over phases.

    Yields a phase's first row and column of the input, its two dims, and the address of its kernel.
    """
    size = SOURCES[dtype][1]
    whole = f.mul(f.mul(a["groups"], a["filters"]), f.mul(a["channels"], str(size)))
    place = f.let("alloca ptr, align 8")
    f.store("ptr", a["workspace"], place, 8)
    with f.loop("0", a["stride_height"]) as y, f.loop("0", a["stride_width"]) as x:
        high, wide = _phase(f, a, "height", y), _phase(f, a, "width", x)
        kernel = f.load("ptr", place, 8)
        yield y, x, high, wide, kernel
        taps = f.mul(high.count, wide.count)
        f.store("ptr", f.at(kernel, f.mul(whole, taps)), place, 8)


def keeps_order(c: ConvolutionSizes) -> Bool:
    """Whether kernels of phases with all taps keep the taps' order."""
    if c.widened:
        return c.never
    # `conv.depthwise` takes positive dilations only.
    return ~is_small(c["channels"], c["filters"])


class PhaseTaps:
    """The taps of a phase, which decide how its kernel is written.

    high, wide: the numbers of taps that the phase meets, down and across
    ordered: whether kernels of phases with all taps keep the taps' order
    """

    def __init__(self, c: ConvolutionSizes, ordered: Bool, high: Int, wide: Int) -> None:
        self.c, self.ordered, self.high, self.wide = c, ordered, high, wide

    @staticmethod
    def of(c: ConvolutionSizes, ordered: Bool, high: _Phase, wide: _Phase) -> PhaseTaps:
        """Return the taps of a phase in code."""
        return PhaseTaps(c, ordered, Int(high.count, c.f), Int(wide.count, c.f))

    @cached_property
    def whole(self) -> Bool:
        """Whether the kernel is written in the taps' order: the phase meets all of them."""
        down = self.high == self.c["kernel_height"]
        return self.ordered & (down & (self.wide == self.c["kernel_width"]))


def _in_order(f: Routine, whole: str, phase: _Phase) -> _Phase:
    """Return a dim of a phase, with the taps in the kernel's own order if `whole`."""
    reach = f.mul(f.sub(phase.count, "1"), phase.dilation)
    pad = f.sub(phase.pad, f.select(whole, reach, "0"))
    back = f.sub("0", phase.dilation)
    dilation = f.select(whole, back, phase.dilation)
    return _Phase(phase.last, phase.step, phase.count, phase.positions, pad, dilation)


def turn_weight(shape: TileConfig, dtype: str, names: list[str]) -> str:
    """The text of `turn_weight`: it writes the phases' kernels.

    The kernels are of the filters first_filter ... last_filter - 1 of each group.
    """
    f = Routine("turn_weight", [("ptr", "args")])
    a = arguments(f, names, "input out weight workspace partial bundle scratch")
    unit = str(SOURCES[dtype][1])
    taps = f.mul(a["kernel_height"], a["kernel_width"])
    c = ConvolutionSizes.in_code(f, shape, dtype, a)
    write_variant(WinogradInput, c)
    filter_bytes, channel_bytes = f.mul(a["weight_filter"], unit), f.mul(taps, unit)
    ordered = keeps_order(c)
    with (
        _phases(f, dtype, a) as (_, _, high, wide, kernel),
        f.loop("0", a["groups"]) as group,
        f.loop(a["first_filter"], a["last_filter"], str(_FILTERS)) as block,
        f.loop("0", a["channels"]) as channel,
    ):
        few = f.mul(high.count, wide.count)
        end = f.minimum(f.add(block, str(_FILTERS)), a["last_filter"])
        line = f.mul(f.add(f.mul(group, a["channels"]), channel), a["filters"])
        row = f.mul(group, a["filters"])
        plane = f.at(a["weight"], f.mul(channel, channel_bytes))
        source = f.at(plane, f.mul(f.add(row, block), filter_bytes))
        to = f.at(kernel, f.mul(f.mul(f.add(line, block), few), unit))
        moved = _Moved(source, filter_bytes, to, f.mul(few, unit), f.sub(end, block))
        phase = PhaseTaps.of(c, ordered, high, wide)
        for phase_variant in variants_of("convolve_input, phase"):
            with f.when(phase_variant.applies(phase)):
                phase_variant.emit(_PhaseSite(c, moved, taps, high, wide))
    return f.text()


@variant("convolve_input")
class WinogradInput(Variant):
    """Those of Winograd2x2, with filters and channels in each other's place."""

    @staticmethod
    def applies(c: ConvolutionSizes) -> Bool:
        """Whether `convolve` will compute the gradient by squares of 2 x 2."""
        words = {
            "channels": c["filters"],
            "filters": c["channels"],
            "out_height": c["input_height"],
            "out_width": c["input_width"],
            "input_column": c["out_column"],
        }
        return Winograd2x2.applies(c.but(words))

    @staticmethod
    def emit(c: ConvolutionSizes) -> None:
        """Fill the workspace with transformed kernels for `winograd`.

        The kernels are (channels, filters), of the taps in reverse order.
        """
        f, unit = c.f, c.shape.size
        row, line = f.mul(c["weight_filter"], str(unit)), f.mul(c["filters"], str(unit))
        with f.loop(c["first_filter"], c["last_filter"], str(_FILTERS)) as first:
            count = f.minimum(f.sub(c["last_filter"], first), str(_FILTERS))
            f.line(
                f"call void @spread_weight(ptr {f.at(str(c['weight']), f.mul(first, row))}, "
                f"i64 {9 * unit}, i64 {row}, i64 {c['channels']}, i64 {count}, "
                f"ptr {f.at(str(c['workspace']), f.mul(first, str(unit)))}, i64 {line}, "
                f"i64 {f.mul(line, c['channels'])}, i1 true)"
            )


class _Moved(Record):
    """The taps of some filters: addresses to read and to write, and bytes from filter to filter."""

    source: str
    source_apart: str
    to: str
    to_apart: str
    count: str


class _PhaseSite(Record):
    """The place where the kernel of a phase is written, for some filters."""

    c: ConvolutionSizes
    moved: _Moved
    taps: str
    high: _Phase
    wide: _Phase


@variant("convolve_input, phase")
class OrderedTaps(Variant):
    """A phase that meets all taps, of groups that are not small: whole vectors of taps."""

    @staticmethod
    def applies(p: PhaseTaps) -> Bool:
        """Whether the taps keep their order."""
        return p.whole

    @staticmethod
    def emit(site: _PhaseSite) -> None:
        """Write all taps in their order, vector by vector."""
        f, shape, moved = site.c.f, site.c.shape, site.moved
        with f.loop("0", site.taps, str(shape.lanes)) as first:
            mask = lane_mask(f, shape.lanes, f.sub(site.taps, first))
            offset = f.mul(first, str(shape.size))
            source, to = f.at(moved.source, offset), f.at(moved.to, offset)
            with f.loop("0", moved.count) as i:
                x = masked_load(f, shape, f.at(source, f.mul(i, moved.source_apart)), mask)
                masked_store(f, shape, x, f.at(to, f.mul(i, moved.to_apart)), mask)


@variant("convolve_input, phase", after="OrderedTaps")
class ReversedTaps(Variant):
    """All else: the taps of the phase in reverse order, one by one."""

    @staticmethod
    def applies(p: PhaseTaps) -> Bool:
        """Whether the taps are reversed."""
        return ~p.whole

    @staticmethod
    def emit(site: _PhaseSite) -> None:
        """Write the taps of a phase in reverse order, each tap for all filters."""
        c, moved, high, wide = site.c, site.moved, site.high, site.wide
        f, (element, size) = c.f, SOURCES[c.dtype]
        with f.loop("0", high.count) as i, f.loop("0", wide.count) as j:
            kh = f.sub(high.last, f.mul(i, high.step))
            kw = f.sub(wide.last, f.mul(j, wide.step))
            tap = f.mul(f.add(f.mul(kh, c["kernel_width"]), kw), str(size))
            place = f.mul(f.add(f.mul(i, wide.count), j), str(size))
            source, to = f.at(moved.source, tap), f.at(moved.to, place)
            with f.loop("0", moved.count) as k:
                x = f.load(element, f.at(source, f.mul(k, moved.source_apart)), size)
                f.store(element, x, f.at(to, f.mul(k, moved.to_apart)), size)


def scatter_phase(shape: TileConfig) -> str:
    """The text of `scatter_phase`, an epilogue that scatters a phase's tile in the gradient.

    The words of its state are, in order: the address of the phase's first position in the gradient;
    the bytes to the next image, group, channel, row of the phase and position; and the positions in
    a row of the phase.
    """
    f = Routine("scatter_phase", EPILOGUE, internal=True)
    f.leave_when(f.is_("eq", "%tile", "null", "ptr"))
    base = f.load("ptr", "%state", 8)
    image, group, channel, line, step, width = (
        f.load("i64", f.at("%state", 8 * i), 8) for i in range(1, 7)
    )
    entry = f.at(base, f.add(f.mul("%batch0", image), f.mul("%batch1", group)))
    top = f.div("%column", width)
    side = f.sub("%column", f.mul(top, width))
    with f.loop("0", "%rows") as i:
        plane = f.at(entry, f.mul(f.add("%row", i), channel))
        sums = f.at("%tile", f.mul(i, str(shape.panel * shape.size)))
        with f.turns("0", "%columns") as loop:
            y, x = loop.carry("i64", top), loop.carry("i64", side)
            count = f.minimum(f.sub(width, x), f.sub("%columns", loop.index))
            loop.step = count
            loop.become(y, f.add(y, "1"))
            loop.become(x, "0")
            to = f.at(plane, f.add(f.mul(y, line), f.mul(x, step)))
            source = f.at(sums, f.mul(loop.index, str(shape.size)))
            with f.loop("0", count) as k:
                value = f.load(shape.element, f.at(source, f.mul(k, str(shape.size))), shape.size)
                f.store(shape.element, value, f.at(to, f.mul(k, step)), shape.size)
    return f.text()
