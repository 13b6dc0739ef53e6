"""Convolutions with few filters in a group, such as depthwise ones: no matrix products.

Vectors of neighbouring positions are added up tap by tap. Most kernels meet a padded copy of the
image (`padded_planes`).

    void convolve_direct(args, image, weight, out, at0, at1)        for one image and group
    void weight_direct(args, input, out, weight)                    for one group

The words of `args` are those of `convolve` and `convolve_weight`, see `conv.forward`.
"""

from __future__ import annotations

from wend._engine.compiler.kernels.conv.padded_planes import Planes, steps_to_zero
from wend._engine.compiler.kernels.conv.patches import ImageSite
from wend._engine.compiler.kernels.conv.sizes import ConvolutionSizes
from wend._engine.compiler.kernels.matmul.macrokernel import arguments
from wend._engine.compiler.kernels.matmul.microkernel import (
    TileConfig,
    call_epilogue,
    counted,
    fused,
    lane_mask,
    masked_add,
    spread,
    spread_integer,
)
from wend._engine.compiler.kernels.matmul.packing import ElementReader
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.integers import Bool
from wend._engine.compiler.llvm_ir.variants import Variant, variant

# The sums of a gradient, which take turns so that no addition waits for the previous addition.
_TURNS = 4


@variant("convolve, image by image")
class DirectImage(Variant):
    """Up to 3 filters and 4 channels in a group: vector by vector, no tiles."""

    @staticmethod
    def applies(c: ConvolutionSizes) -> Bool:
        """Whether groups are so small that tiles would be mostly empty."""
        return c.small

    @staticmethod
    def emit(site: ImageSite) -> None:
        """Write the call of `convolve_direct`."""
        site.bundles.f.line(
            f"call void @convolve_direct(ptr %args, ptr {site.source}, ptr {site.weight}, "
            f"ptr {site.out}, i64 {site.place[0]}, i64 {site.place[1]})"
        )


@variant("convolve_weight", after="WinogradWeight")
class DirectWeight(Variant):
    """Up to 3 filters and 4 channels in a group: dot products, no tiles."""

    @staticmethod
    def applies(c: ConvolutionSizes) -> Bool:
        """Whether groups are so small that tiles would be mostly empty."""
        return c.small

    @staticmethod
    def emit(c: ConvolutionSizes) -> None:
        """Write the loop over groups. c: strides in bytes"""
        f = c.f
        with f.loop("0", c["groups"]) as group:
            channel = f.mul(f.mul(group, c["channels"]), c["input_channel"])
            source = f.at(str(c["input"]), channel)
            filters = f.mul(group, c["filters"])
            g = f.at(str(c["out"]), f.mul(filters, c["out_channel"]))
            to = f.at(str(c["weight"]), f.mul(filters, c["weight_filter"]))
            f.line(f"call void @weight_direct(ptr %args, ptr {source}, ptr {g}, ptr {to})")


def _bytes(f: Routine, a: dict[str, str], names: str, size: int) -> None:
    for name in names.split():
        a[name] = f.mul(a[name], str(size))


class _TapRow:
    """Loads the elements of an image's row that a tap meets for neighbouring positions."""

    def __init__(self, f: Routine, source: ElementReader, a: dict[str, str]) -> None:
        self.f, self.source = f, source
        self.jump = f.mul(a["stride_width"], a["input_column"])
        self.beside = f.is_("eq", self.jump, str(source.size))
        self.kind = f"<{source.shape.lanes} x i32>"
        self.width = spread_integer(f, source.shape.lanes, a["input_width"])
        steps = spread_integer(f, source.shape.lanes, a["stride_width"])
        self.columns = f.let(f"mul {self.kind} {counted(source.shape.lanes)}, {steps}")

    def load(self, pointer: str, iw: str, mask: str) -> str:
        """Load an element for each position in a mask, and 0 outside the image.

        pointer: the address of the first position's element
        iw: the column of the image of the first position's element
        """
        f = self.f
        first = spread_integer(f, self.source.shape.lanes, iw)
        columns = f.let(f"add {self.kind} {self.columns}, {first}")
        inside = f.let(f"icmp ult {self.kind} {columns}, {self.width}")
        mask = f.let(f"and <{self.source.shape.lanes} x i1> {mask}, {inside}")
        number = f.fresh()[1:]
        f.line(f"br i1 {self.beside}, label %beside.{number}, label %apart.{number}")
        f.label(f"beside.{number}")
        x = self.source.vector(f, pointer, mask)
        near = f.block
        f.line(f"br label %seen.{number}")
        f.label(f"apart.{number}")
        y = self.source.gathered(f, pointer, self.jump, mask)
        far = f.block
        f.line(f"br label %seen.{number}")
        f.label(f"seen.{number}")
        return f.let(f"phi {self.source.shape.vector} [ {x}, %{near} ], [ {y}, %{far} ]")


def convolve_direct(shape: TileConfig, dtype: str, names: list[str]) -> str:
    """The text of `convolve_direct`, for a single image and group."""
    pointers = ("args", "image", "weight", "out")
    parameters = [*(("ptr", word) for word in pointers), ("i64", "at0"), ("i64", "at1")]
    f = Routine("convolve_direct", parameters, internal=True)
    a = arguments(f, names, "epilogue state scratch")
    source = ElementReader(shape, dtype)
    _bytes(f, a, "input_channel input_row input_column weight_filter", source.size)
    _bytes(f, a, "out_channel", shape.size)
    planes = Planes.of(f, source, a)
    with f.when(planes.fits()):
        planes.write()
        f.leave_when("true")
    window = _TapRow(f, source, a)
    taps = f.mul(f.mul(a["kernel_height"], a["kernel_width"]), str(source.size))
    top, end = f.div(a["first_column"], a["out_width"]), a["last_column"]
    side = f.sub(a["first_column"], f.mul(top, a["out_width"]))
    handed = f.is_("ne", a["epilogue"], "null", "ptr")
    added = f.is_("ne", a["accumulate"], "0")
    with f.loop("0", a["filters"]) as row, f.turns(a["first_column"], end) as run:
        oh, ow = run.carry("i64", top), run.carry("i64", side)
        count = f.minimum(f.sub(a["out_width"], ow), f.sub(end, run.index))
        count = f.minimum(count, str(shape.lanes))
        run.step = count
        right = f.add(ow, count)
        over = f.is_("eq", right, a["out_width"])
        run.become(oh, f.add(oh, f.let(f"zext i1 {over} to i64")))
        run.become(ow, f.select(over, "0", right))
        mask = lane_mask(f, shape.lanes, count)
        sums = _sums(f, shape, source, a, window, row, taps, oh, ow, mask)
        place = f.add(f.mul(row, a["out_channel"]), f.mul(run.index, str(shape.size)))
        to = f.at("%out", place)
        with f.when(handed):
            f.store(shape.vector, sums, a["scratch"], shape.size)
            there = ("1", count), (row, run.index), ("%at0", "%at1")
            call_epilogue(f, a["epilogue"], a["scratch"], *there, a["state"])
        with f.when(f.let(f"xor i1 {handed}, true")):
            masked_add(f, shape, sums, to, mask, added)
    return f.text()


def _sums(
    f: Routine,
    shape: TileConfig,
    source: ElementReader,
    a: dict[str, str],
    window: _TapRow,
    row: str,
    taps: str,
    oh: str,
    ow: str,
    mask: str,
) -> str:
    """Return a vector of sums over channels and taps, with a lane for each position."""
    ih = f.sub(f.mul(oh, a["stride_height"]), a["pad_height"])
    iw = f.sub(f.mul(ow, a["stride_width"]), a["pad_width"])
    first = steps_to_zero(f, ih, a["dilation_height"])
    last = steps_to_zero(f, f.sub(ih, a["input_height"]), a["dilation_height"])
    last = f.minimum(last, a["kernel_height"])
    kernel = f.at("%weight", f.mul(row, a["weight_filter"]))
    with f.turns("0", a["channels"]) as channels:
        total = channels.carry(shape.vector, "zeroinitializer")
        plane = f.at("%image", f.mul(channels.index, a["input_channel"]))
        weights = f.at(kernel, f.mul(channels.index, taps))
        with f.turns(first, last) as rows:
            sums = rows.carry(shape.vector, total)
            y = f.add(ih, f.mul(rows.index, a["dilation_height"]))
            line = f.at(plane, f.mul(y, a["input_row"]))
            tap = f.mul(rows.index, a["kernel_width"])
            with f.turns("0", a["kernel_width"]) as columns:
                now = columns.carry(shape.vector, sums)
                x = f.add(iw, f.mul(columns.index, a["dilation_width"]))
                seen = window.load(f.at(line, f.mul(x, a["input_column"])), x, mask)
                at = f.mul(f.add(tap, columns.index), str(source.size))
                factor = spread(f, shape, source.one(f, f.at(weights, at)))
                columns.become(now, fused(f, shape, seen, factor, now))
            rows.become(sums, now)
        channels.become(total, sums)
    return total


def weight_direct(shape: TileConfig, dtype: str, names: list[str]) -> str:
    """The text of `weight_direct`, for a group: a dot product per filter, channel and tap."""
    parameters = [("ptr", word) for word in ("args", "input", "out", "weight")]
    f = Routine("weight_direct", parameters, internal=True)
    a = arguments(f, names, "")
    source = ElementReader(shape, dtype)
    sides = "input_image input_channel input_row input_column out_image out_channel"
    _bytes(f, a, sides, source.size)
    _bytes(f, a, "weight_filter", shape.size)
    window = _TapRow(f, source, a)
    added = f.is_("ne", a["accumulate"], "0")
    taps = f.mul(a["kernel_height"], a["kernel_width"])
    with (
        f.loop("0", a["filters"]) as row,
        f.loop("0", a["channels"]) as channel,
        f.loop("0", a["kernel_height"]) as kh,
        f.loop("0", a["kernel_width"]) as kw,
    ):
        total = _dot(f, shape, source, a, window, row, channel, kh, kw)
        tap = f.add(f.mul(kh, a["kernel_width"]), kw)
        place = f.mul(f.add(f.mul(channel, taps), tap), str(shape.size))
        to = f.at(f.at("%weight", f.mul(row, a["weight_filter"])), place)
        element = shape.element
        sums = f.let(
            f"call reassoc {element} @llvm.vector.reduce.fadd.{shape.suffix}"
            f"({element} 0.0, {shape.vector} {total})"
        )
        with f.when(added):
            f.store(element, f.let(f"fadd {element} {sums}, {f.load(element, to)}"), to)
        with f.when(f.let(f"xor i1 {added}, true")):
            f.store(element, sums, to)
    return f.text()


def _dot(
    f: Routine,
    shape: TileConfig,
    source: ElementReader,
    a: dict[str, str],
    window: _TapRow,
    row: str,
    channel: str,
    kh: str,
    kw: str,
) -> str:
    """Return the gradient of an element of the weight, as a vector whose lanes are to be added."""
    ih = f.sub(f.mul(kh, a["dilation_height"]), a["pad_height"])
    iw = f.sub(f.mul(kw, a["dilation_width"]), a["pad_width"])
    first = steps_to_zero(f, ih, a["stride_height"])
    last = f.minimum(
        steps_to_zero(f, f.sub(ih, a["input_height"]), a["stride_height"]), a["out_height"]
    )
    with f.turns("0", a["images"]) as images:
        totals = [images.carry(shape.vector, "zeroinitializer") for _ in range(_TURNS)]
        plane = f.add(f.mul(images.index, a["input_image"]), f.mul(channel, a["input_channel"]))
        above = f.add(f.mul(images.index, a["out_image"]), f.mul(row, a["out_channel"]))
        with f.turns(first, last) as rows:
            sums = [rows.carry(shape.vector, x) for x in totals]
            y = f.add(ih, f.mul(rows.index, a["stride_height"]))
            line = f.at("%input", f.add(plane, f.mul(y, a["input_row"])))
            start = f.mul(f.mul(rows.index, a["out_width"]), str(source.size))
            other = f.at("%out", f.add(above, start))
            with f.turns("0", a["out_width"], str(shape.lanes)) as columns:
                now = [columns.carry(shape.vector, x) for x in sums]
                ow = columns.index
                count = f.sub(a["out_width"], ow)
                x = f.add(iw, f.mul(ow, a["stride_width"]))
                mask = lane_mask(f, shape.lanes, count)
                seen = window.load(f.at(line, f.mul(x, a["input_column"])), x, mask)
                g = source.vector(f, f.at(other, f.mul(ow, str(source.size))), mask)
                for name, x in zip(now, [*now[1:], fused(f, shape, seen, g, now[0])]):
                    columns.become(name, x)
            for name, x in zip(sums, now):
                rows.become(name, x)
        for name, x in zip(totals, sums):
            images.become(name, x)
    total = totals[0]
    for x in totals[1:]:
        total = f.let(f"fadd {shape.vector} {total}, {x}")
    return total
