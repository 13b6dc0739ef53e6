"""Packing the patches of an image as the right operand of a matrix product.

    void pack_patches(args, image, first, columns, width, start, depth, panel)

One panel: `columns` positions of the output from `first` on, in rows of `width` elements, one for
each step of depth from `start` on. Step c * taps + tap is channel c of the image at that tap of
the kernel, or 0 where the kernel stands over the padding. No matrix of all patches is ever made.

The geometry is read from the argument block `args`, see `compiler.conv`.
"""

from __future__ import annotations

from dataclasses import dataclass

from wend.compiler.blocking import arguments
from wend.compiler.packing import Source
from wend.compiler.routine import Routine
from wend.compiler.tile import Shape, lane_mask, lane_range, masked_store

__all__ = ["pack_patches"]


@dataclass(frozen=True)
class _Run:
    """Positions of the output in one row, and where one tap finds them in the image.

    to: the first one's place in the panel     count: of positions     low, high: those that are
    not padding     source: where position 0 is, for the first channel
    channels: how many     rise, stride: bytes to the next channel, in the panel and the image
    """

    to: str
    count: str
    low: str
    high: str
    source: str
    channels: str
    rise: str
    stride: str


def pack_patches(shape: Shape, dtype: str, names: list[str]) -> str:
    """The function that packs a panel of patches."""
    words = "first columns width start depth".split()
    parameters = [("ptr", "args"), ("ptr", "image"), *(("i64", word) for word in words)]
    f = Routine("pack_patches", [*parameters, ("ptr", "panel")], internal=True)
    a = arguments(f, names, "")
    source = Source(shape, dtype)
    size = str(source.size)
    for name in ("input_channel", "input_row", "input_column"):
        a[name] = f.mul(a[name], size)
    row_bytes = f.mul("%width", str(shape.size))
    taps = f.mul(a["kernel_height"], a["kernel_width"])
    end = f.add("%start", "%depth")
    top = f.div("%first", a["out_width"])
    side = f.sub("%first", f.mul(top, a["out_width"]))
    jump = f.mul(a["stride_width"], a["input_column"])
    rise = f.mul(taps, row_bytes)
    with f.loop("0", a["kernel_height"]) as kh, f.loop("0", a["kernel_width"]) as kw:
        tap = f.add(f.mul(kh, a["kernel_width"]), kw)
        channel = _rounded_up(f, f.sub("%start", tap), taps)
        channels = f.sub(_rounded_up(f, f.sub(end, tap), taps), channel)
        line = f.sub(f.add(f.mul(channel, taps), tap), "%start")
        into = f.at("%panel", f.mul(line, row_bytes))
        plane = f.at("%image", f.mul(channel, a["input_channel"]))
        down = f.sub(f.mul(kh, a["dilation_height"]), a["pad_height"])
        across = f.sub(f.mul(kw, a["dilation_width"]), a["pad_width"])
        with f.turns("0", "%columns") as loop:
            oh, ow = loop.carry("i64", top), loop.carry("i64", side)
            count = f.minimum(f.sub(a["out_width"], ow), f.sub("%columns", loop.index))
            loop.step = count
            loop.become(oh, f.add(oh, "1"))
            loop.become(ow, "0")
            ih = f.add(f.mul(oh, a["stride_height"]), down)
            iw = f.add(f.mul(ow, a["stride_width"]), across)
            low = _rounded_up(f, f.sub("0", iw), a["stride_width"])
            high = _rounded_up(f, f.sub(a["input_width"], iw), a["stride_width"])
            inside = f.is_("ult", ih, a["input_height"])
            high = f.select(inside, f.minimum(high, count), "0")
            offset = f.add(f.mul(ih, a["input_row"]), f.mul(iw, a["input_column"]))
            run = _Run(
                f.at(into, f.mul(loop.index, str(shape.size))),
                count,
                low,
                high,
                f.at(plane, offset),
                channels,
                rise,
                a["input_channel"],
            )
            _copy(f, source, run, jump)
    return f.text()


def _rounded_up(f: Routine, x: str, y: str) -> str:
    """x / y rounded up, and 0 for x < 0."""
    positive = f.select(f.is_("slt", x, "0"), "0", x)
    return f.div(f.add(positive, f.sub(y, "1")), y)


def _copy(f: Routine, source: Source, run: _Run, jump: str) -> None:
    """A run of one tap, for all channels. jump: bytes between neighbours in the image."""
    shape, lanes = source.shape, source.shape.lanes
    beside = f.is_("eq", jump, str(source.size))
    double = f.is_("eq", jump, str(2 * source.size))
    other = f.let(f"xor i1 {f.either(beside, double)}, true")
    with f.loop("0", run.count, str(lanes)) as at:
        low, high = f.sub(run.low, at), f.sub(run.high, at)
        stored = lane_mask(f, lanes, f.sub(run.count, at))
        near = f.at(run.source, f.mul(at, jump))
        to = f.at(run.to, f.mul(at, str(shape.size)))
        with f.when(beside):
            mask = lane_range(f, lanes, low, high)
            with f.loop("0", run.channels) as c:
                x = source.vector(f, f.at(near, f.mul(c, run.stride)), mask)
                masked_store(f, shape, x, f.at(to, f.mul(c, run.rise)), stored)
        with f.when(double):
            masks = [
                lane_range(f, lanes, *(f.sub(f.mul(x, "2"), str(part)) for x in (low, high)))
                for part in (0, lanes)
            ]
            # The last element in between may lie behind the end of the memory.
            even = ", ".join(f"i1 {'false' if i % 2 else 'true'}" for i in range(lanes))
            masks = [f.let(f"and <{lanes} x i1> {mask}, <{even}>") for mask in masks]
            with f.loop("0", run.channels) as c:
                here = f.at(near, f.mul(c, run.stride))
                beyond = f.at(here, lanes * source.size)
                pair = source.vector(f, here, masks[0]), source.vector(f, beyond, masks[1])
                x = source.every_second(f, *pair)
                masked_store(f, shape, x, f.at(to, f.mul(c, run.rise)), stored)
        with f.when(other):
            mask = lane_range(f, lanes, low, high)
            with f.loop("0", run.channels) as c:
                x = source.gathered(f, f.at(near, f.mul(c, run.stride)), jump, mask)
                masked_store(f, shape, x, f.at(to, f.mul(c, run.rise)), stored)
