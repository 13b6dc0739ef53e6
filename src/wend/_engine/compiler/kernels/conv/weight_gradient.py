"""The gradient of a convolution's weight, as a matrix product over lines of the image.

The transpose of the gradient, (C * KH * KW, F), is a matrix product. The left operand is the image
shifted by each tap, read in place. The right operand is the output's gradient, whose panels are
packed. The image is copied first where it needs padding or where its type is narrower. Sums are
kept in the workspace, and transposed in the end. Several small images form a block of depth, so
that their sums are read and written once. `winograd.weight_gradient` computes the gradient of many
kernels of 3 x 3 instead.
"""

from __future__ import annotations

from wend._engine.base.records import Record
from wend._engine.compiler.kernels.conv.depthwise import DirectWeight
from wend._engine.compiler.kernels.conv.sizes import ConvolutionSizes, write_variant
from wend._engine.compiler.kernels.conv.winograd.weight_gradient import WinogradWeight
from wend._engine.compiler.kernels.matmul.macrokernel import DEPTH, arguments, column_panels, panels
from wend._engine.compiler.kernels.matmul.microkernel import (
    TileConfig,
    lane_mask,
    lane_range,
    masked_add,
    masked_store,
)
from wend._engine.compiler.kernels.matmul.operands import Matrix, pack_panel
from wend._engine.compiler.kernels.matmul.packing import SOURCES, ElementReader, transposed
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.integers import Bool
from wend._engine.compiler.llvm_ir.variants import Variant, variant

#: The most elements of a channel, in all images that are copied at a time.
COPIED = 2 * DEPTH


class _Image(Record):
    """The address of the channels, and strides in bytes."""

    base: str
    image: str
    channel: str
    row: str
    column: str


def convolve_weight(shape: TileConfig, dtype: str, names: list[str]) -> str:
    """The text of `convolve_weight`, see `conv.forward`."""
    f = Routine("convolve_weight", [("ptr", "args")])
    a = arguments(f, names, "input out weight workspace scratch")
    write_variant(WinogradWeight, ConvolutionSizes.in_code(f, shape, dtype, a))
    size = str(SOURCES[dtype][1])
    for name in "input_image input_channel input_row input_column out_image out_channel".split():
        a[name] = f.mul(a[name], size)
    a["weight_filter"] = f.mul(a["weight_filter"], str(shape.size))
    site = _LineSite.of(f, shape, dtype, a)
    write_variant(DirectWeight, ConvolutionSizes.in_code(f, shape, dtype, a))
    ImageLines.emit(site)
    return f.text()


class _LineSite(Record):
    """The place where the product over lines is written: words, and the parts of the workspace.

    rows: the rows of the product
    sums, sums_bytes: the sums in the workspace
    copy: the address of copied images
    height, width: the extents that the kernel touches in the image with its padding
    stands: an i1, whether images are read in place
    apart, plane, line, column: the bytes to the next image, channel, row and column
    together: the number of images in a block of depth
    """

    f: Routine
    shape: TileConfig
    a: dict[str, str]
    size: str
    taps: str
    rows: str
    sums: str
    sums_bytes: str
    copy: str
    height: str
    width: str
    stands: str
    apart: str
    plane: str
    line: str
    column: str
    together: str

    @staticmethod
    def of(f: Routine, shape: TileConfig, dtype: str, a: dict[str, str]) -> _LineSite:
        taps = f.mul(a["kernel_height"], a["kernel_width"])
        rows = f.mul(a["channels"], taps)
        # The workspace: where each row begins in the image; the sums; the copied image.
        whole = f.add(rows, str(shape.rows))
        sums = f.at(a["workspace"], _up(f, f.mul(whole, "8")))
        a["sums_row"] = f.mul(f.ceil_div(a["filters"], shape.lanes), str(shape.bytes))
        sums_bytes = f.mul(whole, a["sums_row"])
        height = _reach(f, a, "height")
        width = _reach(f, a, "width")
        copy = f.at(sums, _up(f, sums_bytes))
        stands = _stands(f, a, shape, dtype, height, width)
        unit = str(shape.size)
        line = f.select(stands, a["input_row"], f.mul(width, unit))
        area = f.mul(height, width)
        plane = f.select(stands, a["input_channel"], f.mul(area, unit))
        apart = f.select(stands, a["input_image"], f.mul(a["channels"], plane))
        together = _together(f, a, stands, area)
        column = f.select(stands, a["input_column"], unit)
        size = str(SOURCES[dtype][1])
        return _LineSite(
            f, shape, a, size, taps, rows, sums, sums_bytes, copy, height, width, stands, apart,
            plane, line, column, together,
        )  # fmt: skip


@variant("convolve_weight", after="DirectWeight")
class ImageLines(Variant):
    """All else: a product whose left rows are the image, seen through one tap."""

    @staticmethod
    def applies(c: ConvolutionSizes) -> Bool:
        """Whether no variant before applies."""
        return ~(WinogradWeight.applies(c) | DirectWeight.applies(c))

    @staticmethod
    def emit(site: _LineSite) -> None:
        """Write the loops over groups and images."""
        f, shape, a, rows, sums = site.f, site.shape, site.a, site.rows, site.sums
        image = _Image("", site.apart, site.plane, site.line, site.column)
        _find_places(f, a, site.taps, rows, image, shape)
        with f.loop("0", a["groups"]) as group:
            with f.loop("0", site.sums_bytes, str(shape.bytes)) as at:
                f.store(shape.vector, "zeroinitializer", f.at(sums, at), shape.size)
            channel = f.mul(f.mul(group, a["channels"]), a["input_channel"])
            filters = f.mul(group, a["filters"])
            with f.loop("0", a["images"], site.together) as first:
                here = f.at(a["input"], f.add(f.mul(first, a["input_image"]), channel))
                images = f.minimum(f.sub(a["images"], first), site.together)
                copied = f.select(site.stands, "0", images)
                with f.loop("0", copied) as i:
                    f.line(
                        f"call void @pad_image(ptr %args, "
                        f"ptr {f.at(here, f.mul(i, a['input_image']))}, i64 {site.height}, "
                        f"i64 {site.width}, ptr {f.at(site.copy, f.mul(i, site.apart))})"
                    )
                base = f.select(site.stands, here, site.copy, "ptr")
                g = f.add(f.mul(first, a["out_image"]), f.mul(filters, a["out_channel"]))
                matrix = Matrix(f.at(a["out"], g), a["out_channel"], site.size)
                seen = _Image(base, site.apart, site.plane, site.line, site.column)
                _add_images(f, shape, a, rows, seen, images, matrix, sums)
            to = f.at(a["weight"], f.mul(filters, a["weight_filter"]))
            _turn(f, shape, a, rows, sums, to)


def _up(f: Routine, size: str) -> str:
    """Return a number of bytes, rounded up to a multiple of 64."""
    return f.let(f"and i64 {f.add(size, '63')}, -64")


def _reach(f: Routine, a: dict[str, str], dim: str) -> str:
    """The extent that the kernel touches in the image with its padding. dim: height or width"""
    steps = f.mul(f.sub(a["out_" + dim], "1"), a["stride_" + dim])
    return f.add(f.add(steps, f.mul(f.sub(a["kernel_" + dim], "1"), a["dilation_" + dim])), "1")


def _stands(
    f: Routine, a: dict[str, str], shape: TileConfig, dtype: str, height: str, width: str
) -> str:
    """Whether the image can be read in place: no padding and no conversion is needed.

    height, width: the extents that the kernel touches
    """
    if SOURCES[dtype][0] != shape.element:
        return "false"
    condition = f.both(f.is_("eq", a["pad_height"], "0"), f.is_("eq", a["pad_width"], "0"))
    condition = f.both(condition, f.is_("sle", height, a["input_height"]))
    return f.both(condition, f.is_("sle", width, a["input_width"]))


def _together(f: Routine, a: dict[str, str], stands: str, area: str) -> str:
    """The number of images in a block of depth.

    As many images as fit, with room for their copies; 1 if an image is several blocks.

    stands: an i1, whether images are read in place
    area: the elements of a channel in a copy
    """
    divisor = f.mul(a["out_height"], a["out_width"])
    fit = f.div(str(DEPTH), f.select(f.is_("eq", divisor, "0"), "1", divisor))
    room = f.div(str(COPIED), f.select(f.is_("sgt", area, "0"), area, "1"))
    fit = f.select(stands, fit, f.minimum(fit, room))
    return f.select(f.is_("sgt", fit, "1"), fit, "1")


def _find_places(
    f: Routine, a: dict[str, str], taps: str, rows: str, image: _Image, shape: TileConfig
) -> None:
    """Write to the workspace where each row of the product begins in the image.

    The last row is repeated to fill the last tile.
    """
    last = f.sub(rows, "1")
    down = f.mul(a["dilation_height"], image.row)
    across = f.mul(a["dilation_width"], image.column)
    with f.when(f.is_("ne", rows, "0")), f.loop("0", f.add(rows, str(shape.rows))) as i:
        row = f.minimum(i, last)
        channel = f.div(row, taps)
        tap = f.sub(row, f.mul(channel, taps))
        kh = f.div(tap, a["kernel_width"])
        kw = f.sub(tap, f.mul(kh, a["kernel_width"]))
        place = f.add(f.mul(kh, down), f.mul(kw, across))
        place = f.add(place, f.mul(channel, image.channel))
        f.store("i64", place, f.at(a["workspace"], f.mul(i, "8")), 8)


def _add_images(
    f: Routine,
    shape: TileConfig,
    a: dict[str, str],
    rows: str,
    image: _Image,
    images: str,
    gradient: Matrix,
    sums: str,
) -> None:
    """Add the contribution of images: a whole block of depth, or a single image block by block.

    rows: the rows of the product, channels times taps
    image: the images, or their copies
    images: the number of images
    gradient: the gradient of the output
    sums: the address of the sums
    """
    most = str(DEPTH)
    step = f.mul(a["stride_width"], image.column)
    long = f.minimum(a["out_width"], most)
    divisor = f.select(f.is_("eq", long, "0"), "1", long)
    many = f.div(most, divisor)  # 1 if a line is longer than a block
    chunk = str(column_panels(shape) * shape.panel)
    with f.turns("0", a["filters"]) as chunks:
        first, last = chunks.index, f.minimum(f.add(chunks.index, chunk), a["filters"])
        rest = f.is_("sle", f.sub(a["filters"], last), str(shape.lanes))
        last = f.select(rest, a["filters"], last)
        chunks.step = f.sub(last, first)
        with f.loop("0", a["out_height"], many) as oh, f.loop("0", a["out_width"], divisor) as ow:
            count = f.minimum(f.sub(a["out_height"], oh), many)
            length = f.minimum(f.sub(a["out_width"], ow), long)
            each = f.mul(count, length)
            depth = f.mul(each, images)
            start = f.add(f.mul(oh, a["out_width"]), ow)
            here = Matrix(
                f.at(gradient.base, f.mul(start, gradient.step)), gradient.line, gradient.step
            )
            bytes_ = f.mul(depth, str(shape.size))
            with panels(f, shape, first, last, a["filters"]) as at:
                place = f.at(a["scratch"], f.mul(f.sub(at[0], first), bytes_))
                part = f.mul(f.mul(each, at[1]), str(shape.bytes))
                with f.loop("0", images) as i:
                    lines = Matrix(f.at(here.base, f.mul(i, a["out_image"])), here.line, here.step)
                    into = f.at(place, f.mul(i, part))
                    pack_panel(f, shape, lines, a["filters"], each, *at, into)
            y = f.mul(f.mul(oh, a["stride_height"]), image.row)
            corner = f.at(image.base, f.add(y, f.mul(ow, step)))
            jump = f.sub(f.mul(a["stride_height"], image.row), f.mul(length, step))
            with f.loop("0", rows, str(shape.rows)) as row:
                places = f.at(a["workspace"], f.mul(row, "8"))
                with panels(f, shape, first, last, a["filters"]) as (column, wide):
                    panel = f.at(a["scratch"], f.mul(f.sub(column, first), bytes_))
                    offset = f.add(f.mul(row, a["sums_row"]), f.mul(column, str(shape.size)))
                    function = f.at("@lines", f.mul(f.sub(wide, "1"), "8"))
                    f.line(
                        f"call void {f.load('ptr', function, 8)}(ptr {corner}, ptr {places}, "
                        f"i64 {step}, i64 {jump}, i64 {image.image}, i64 {length}, i64 {count}, "
                        f"i64 {images}, ptr {panel}, "
                        f"i64 {f.mul(wide, str(shape.bytes))}, ptr {f.at(sums, offset)}, "
                        f"i64 {a['sums_row']})"
                    )


def _turn(
    f: Routine, shape: TileConfig, a: dict[str, str], rows: str, sums: str, weight: str
) -> None:
    """Transpose the sums, and store them in the weight's gradient or add them to the gradient."""
    lanes, unit = shape.lanes, str(shape.size)
    last = f.sub(rows, "1")
    more = f.is_("ne", a["accumulate"], "0")
    with f.loop("0", rows, str(lanes)) as row, f.loop("0", a["filters"], str(lanes)) as column:
        mask = lane_mask(f, lanes, f.sub(rows, row))
        offset = f.mul(column, unit)
        block = []
        for i in range(lanes):
            line = f.mul(f.minimum(f.add(row, str(i)), last), a["sums_row"])
            block.append(f.load(shape.vector, f.at(sums, f.add(line, offset)), shape.size))
        for i, x in enumerate(transposed(f, shape, block)):
            filter_ = f.add(column, str(i))
            with f.when(f.is_("slt", filter_, a["filters"])):
                to = f.add(f.mul(filter_, a["weight_filter"]), f.mul(row, unit))
                to = f.at(weight, to)
                masked_add(f, shape, x, to, mask, more)


def pad_image(shape: TileConfig, dtype: str, names: list[str]) -> str:
    """The text of `pad_image`: it copies the channels of a group with their padding, densely.

    void pad_image(args, image, height, width, copy)
    """
    parameters = [("ptr", "args"), ("ptr", "image"), ("i64", "height"), ("i64", "width")]
    f = Routine("pad_image", [*parameters, ("ptr", "copy")], internal=True)
    a = arguments(f, names, "")
    source = ElementReader(shape, dtype)
    lanes, size = shape.lanes, str(source.size)
    for name in ("input_channel", "input_row", "input_column"):
        a[name] = f.mul(a[name], size)
    beside = f.is_("eq", a["input_column"], size)
    apart = f.let(f"xor i1 {beside}, true")
    row_bytes = f.mul("%width", str(shape.size))
    start = f.mul(a["pad_width"], a["input_column"])
    with f.loop("0", a["channels"]) as channel, f.loop("0", "%height") as row:
        ih = f.sub(row, a["pad_height"])
        inside = f.is_("ult", ih, a["input_height"])
        low = a["pad_width"]
        high = f.select(inside, f.add(a["input_width"], low), "0")
        offset = f.add(f.mul(channel, a["input_channel"]), f.mul(ih, a["input_row"]))
        line = f.at("%image", f.sub(offset, start))
        to = f.at("%copy", f.mul(f.add(f.mul(channel, "%height"), row), row_bytes))
        with f.loop("0", "%width", str(lanes)) as at:
            mask = lane_range(f, lanes, f.sub(low, at), f.sub(high, at))
            stored = lane_mask(f, lanes, f.sub("%width", at))
            here = f.at(line, f.mul(at, a["input_column"]))
            into = f.at(to, f.mul(at, str(shape.size)))
            with f.when(beside):
                masked_store(f, shape, source.vector(f, here, mask), into, stored)
            with f.when(apart):
                x = source.gathered(f, here, a["input_column"], mask)
                masked_store(f, shape, x, into, stored)
    return f.text()
