"""The gradient of a convolution's input: convolutions of the output's gradient, one per phase.

With steps of `stride` between windows, the positions of the input fall into stride_height *
stride_width phases. All positions of a phase meet the same taps of the kernel. These taps, in
reverse order, are a kernel of their own, which steps by 1 over the gradient. No multiplications are
spent on the zeros of a spread-out gradient. The phases' kernels lie in the workspace one after
another, each as (groups, channels, filters, taps). Where a phase meets all taps, the taps keep
their order, so that whole vectors of taps are moved. The dilation is then negative instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from wend.base.records import Record
from wend.compiler.kernels.conv.depthwise import is_small
from wend.compiler.kernels.conv.winograd.tiles_2x2 import is_winograd
from wend.compiler.kernels.matmul.macrokernel import arguments
from wend.compiler.kernels.matmul.microkernel import (
    EPILOGUE,
    TileConfig,
    lane_mask,
    masked_load,
    masked_store,
)
from wend.compiler.kernels.matmul.packing import SOURCES
from wend.compiler.llvm_ir.function import Routine

__all__ = ["convolve_input", "scatter_phase", "turn_weight"]

#: The filters whose taps are written together, because they lie side by side afterwards.
_FILTERS = 16


class _Phase(Record):
    """One dim of one phase, whose taps are last, last - step, ... and so on.

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
    size = str(shape.size)
    ordered = _ordered(f, shape, dtype, a)
    single = f.both(f.is_("eq", a["stride_height"], "1"), f.is_("eq", a["stride_width"], "1"))
    epilogue = f.select(single, "0", "ptrtoint (ptr @scatter_phase to i64)")
    with f.when(f.is_("eq", a["turned"], "0")):
        f.line("call void @turn_weight(ptr %args)")
    with _phases(f, dtype, a) as (y, x, high, wide, kernel):
        place = f.add(f.mul(y, a["input_width"]), x)
        positions = f.mul(high.positions, wide.positions)
        whole = f.both(ordered, _is_whole(f, a, high, wide))
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
        f.line(f"call void @convolve(ptr {block})")
    return f.text()


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


def _ordered(f: Routine, shape: TileConfig, dtype: str, a: dict[str, str]) -> str:
    """Whether kernels of phases with all taps keep the taps' order: an i1."""
    if SOURCES[dtype][0] != shape.element:
        return "false"
    # `conv.depthwise` takes positive dilations only.
    turned = {"filters": a["channels"], "channels": a["filters"]}
    return f.let(f"xor i1 {is_small(f, turned)}, true")


def _is_whole(f: Routine, a: dict[str, str], high: _Phase, wide: _Phase) -> str:
    """Whether a phase meets all taps of the kernel."""
    down = f.is_("eq", high.count, a["kernel_height"])
    return f.both(down, f.is_("eq", wide.count, a["kernel_width"]))


def _in_order(f: Routine, whole: str, phase: _Phase) -> _Phase:
    """Return one dim of a phase, with the taps in the kernel's own order if `whole`."""
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
    with f.when(_is_winograd(f, shape, dtype, a)):
        _spread(f, shape, a)
        f.leave_when("true")
    filter_bytes, channel_bytes = f.mul(a["weight_filter"], unit), f.mul(taps, unit)
    ordered = _ordered(f, shape, dtype, a)
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
        whole = f.both(ordered, _is_whole(f, a, high, wide))
        with f.when(whole):
            _move(f, shape, moved, taps)
        with f.when(f.let(f"xor i1 {whole}, true")):
            _pick(f, dtype, a, moved, high, wide)
    return f.text()


def _is_winograd(f: Routine, shape: TileConfig, dtype: str, a: dict[str, str]) -> str:
    """Whether `convolve` will compute the gradient by `winograd`: an i1."""
    words = dict(a)
    words |= {
        "channels": a["filters"],
        "filters": a["channels"],
        "out_height": a["input_height"],
        "out_width": a["input_width"],
        "input_column": a["out_column"],
    }
    return is_winograd(f, shape, dtype, words)


def _spread(f: Routine, shape: TileConfig, a: dict[str, str]) -> None:
    """Fill the workspace with transformed kernels for `winograd`.

    The kernels are (channels, filters), of the taps in reverse order.
    """
    unit = shape.size
    row, line = f.mul(a["weight_filter"], str(unit)), f.mul(a["filters"], str(unit))
    with f.loop(a["first_filter"], a["last_filter"], str(_FILTERS)) as first:
        count = f.minimum(f.sub(a["last_filter"], first), str(_FILTERS))
        f.line(
            f"call void @spread_weight(ptr {f.at(a['weight'], f.mul(first, row))}, "
            f"i64 {9 * unit}, i64 {row}, i64 {a['channels']}, i64 {count}, "
            f"ptr {f.at(a['workspace'], f.mul(first, str(unit)))}, i64 {line}, "
            f"i64 {f.mul(line, a['channels'])}, i1 true)"
        )


class _Moved(Record):
    """The taps of some filters: addresses to read and to write, and bytes from filter to filter."""

    source: str
    source_apart: str
    to: str
    to_apart: str
    count: str


def _move(f: Routine, shape: TileConfig, moved: _Moved, taps: str) -> None:
    """Write all taps in their order, vector by vector."""
    with f.loop("0", taps, str(shape.lanes)) as first:
        mask = lane_mask(f, shape.lanes, f.sub(taps, first))
        offset = f.mul(first, str(shape.size))
        source, to = f.at(moved.source, offset), f.at(moved.to, offset)
        with f.loop("0", moved.count) as i:
            x = masked_load(f, shape, f.at(source, f.mul(i, moved.source_apart)), mask)
            masked_store(f, shape, x, f.at(to, f.mul(i, moved.to_apart)), mask)


def _pick(
    f: Routine, dtype: str, a: dict[str, str], moved: _Moved, high: _Phase, wide: _Phase
) -> None:
    """Write the taps of a phase in reverse order, each tap for all filters."""
    element, size = SOURCES[dtype]
    with f.loop("0", high.count) as i, f.loop("0", wide.count) as j:
        kh = f.sub(high.last, f.mul(i, high.step))
        kw = f.sub(wide.last, f.mul(j, wide.step))
        tap = f.mul(f.add(f.mul(kh, a["kernel_width"]), kw), str(size))
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
