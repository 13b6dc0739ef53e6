"""The gradient of a kernel of 3 x 3 by fewer multiplications: see `winograd.tiles_2x2`.

The gradient is the adjoint of the transformed convolution, as a function of its kernel. The
gradient of the output is transformed by the adjoint of how sums are joined, and the image is
transformed as in the convolution. In each of the 16 places, a product of (filters, squares) and
(squares, channels) adds over squares. The adjoint of the kernel's transform comes last.

    void winograd_weight(args)                  `convolve_weight`, for all images
    void spread_gradient(args, out, first, count, line, to, apart)
    void join_weight(args, sums, line, apart)
"""

from __future__ import annotations

from contextlib import nullcontext

from wend._engine.compiler.kernels.conv.image_batches import pieces
from wend._engine.compiler.kernels.conv.sizes import ConvolutionSizes
from wend._engine.compiler.kernels.conv.winograd.squares import (
    NARROW,
    chunk_of,
    halves,
    is_large,
    is_worth,
    least,
    parameters,
    runs,
    squares_of,
    stored_ways,
)
from wend._engine.compiler.kernels.conv.winograd.tiles_2x2 import spread_image
from wend._engine.compiler.kernels.conv.winograd.transforms import (
    both_ways,
    join_taps_2,
    spread_outputs_2,
    total,
)
from wend._engine.compiler.kernels.matmul.macrokernel import Multiply, Scratch, arguments
from wend._engine.compiler.kernels.matmul.microkernel import (
    TileConfig,
    lane_mask,
    masked_load,
    masked_store,
    masked_update,
)
from wend._engine.compiler.kernels.matmul.operands import Matrix, Operands
from wend._engine.compiler.kernels.matmul.packing import transposed
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.integers import Bool
from wend._engine.compiler.llvm_ir.variants import Variant, variant

_TAPS = 9
#: The least number of squares for which transforming pays if the weight is large.
_SQUARES = 24


@variant("convolve_weight")
class WinogradWeight(Variant):
    """The kernels of Winograd2x2, with 24 squares or more if the weight is large."""

    @staticmethod
    def applies(c: ConvolutionSizes) -> Bool:
        """Whether the gradient is computed by squares. c: the words of `convolve_weight`"""
        if not _has_lanes(c.shape):
            return c.never
        forward = c["dilation_width"] == 1
        large = is_large(c["filters"], c["channels"])
        fewest = large.choose(_SQUARES, least(c.shape)[2])
        return forward & is_worth(c, c["images"], fewest)

    @staticmethod
    def emit(c: ConvolutionSizes) -> None:
        """Write the call of `winograd_weight`."""
        c.f.line("call void @winograd_weight(ptr %args)")


def _has_lanes(shape: TileConfig) -> bool:
    """Whether a vector has room for all nine taps, or for all but one."""
    return shape.size == 4 and shape.lanes >= _TAPS - 1


def winograd_weight(shape: TileConfig, dtype: str, names: list[str]) -> str:
    """The text of `winograd_weight`, and of the functions that it calls."""
    if not _has_lanes(shape):
        return Routine("winograd_weight", [("ptr", "args")], internal=True).text()
    f = Routine("winograd_weight", [("ptr", "args")], internal=True)
    a = arguments(f, names, "input out scratch spread")
    room = Scratch.of(f, shape, a["scratch"])
    unit = str(shape.size)
    high, wide = squares_of(f, a, NARROW)
    squares = f.mul(high, wide)
    columns = f.mul(squares, a["images"])
    out_row = f.mul(f.ceil_div(a["channels"], shape.lanes), str(shape.bytes))
    plane = f.add(f.mul(a["filters"], out_row), str(shape.bytes))
    seen = f.at(a["spread"], f.mul(plane, str(NARROW.places)))
    with f.turns("0", columns) as chunks:
        first = chunks.index
        count = chunk_of(f, shape, a, NARROW, columns, first)
        chunks.step = count
        line = f.mul(f.ceil_div(count, shape.lanes), str(shape.bytes))
        apart = f.add(f.mul(line, a["channels"]), str(shape.bytes))
        gradients = f.at(seen, f.mul(apart, str(NARROW.places)))
        gradients_apart = f.add(f.mul(line, a["filters"]), str(shape.bytes))
        with pieces(f, squares, first, count) as (image, at, before, some):
            for name, role, to, plane_ in (
                ("image", "input", seen, apart),
                ("gradient", "out", gradients, gradients_apart),
            ):
                source = f.at(a[role], f.mul(image, f.mul(a[role + "_image"], unit)))
                f.line(
                    f"call void @spread_{name}(ptr %args, ptr {source}, i64 {at}, i64 {some}, "
                    f"i64 {line}, ptr {f.at(to, f.mul(before, unit))}, i64 {plane_})"
                )
        with f.loop("0", str(NARROW.places)) as k:
            left_ = Matrix(f.at(gradients, f.mul(k, gradients_apart)), line, unit)
            right = Matrix(f.at(seen, f.mul(k, apart)), line, unit)
            operands = Operands(f, shape, dtype, room, left_, right, a["channels"], "false")
            Multiply(
                f,
                shape,
                right=operands.panels,
                left=operands.left_rows,
                room=room,
                part_rows=("0", a["filters"]),
                part_columns=("0", a["channels"]),
                columns=a["channels"],
                depth=count,
                out=f.at(a["spread"], f.mul(k, plane)),
                out_row=out_row,
                accumulate=f.is_("ne", first, "0"),
                epilogue="null",
                state="null",
                place=("0", "0"),
            ).write()
    f.line(f"call void @join_weight(ptr %args, ptr {a['spread']}, i64 {out_row}, i64 {plane})")
    texts = [
        spread_image(shape, dtype, names),
        _spread_gradient(shape, names),
        _join_weight(shape, names),
        f.text(),
    ]
    return "\n".join(texts)


def _spread_gradient(shape: TileConfig, names: list[str]) -> str:
    words = "ptr args, ptr out, i64 first, i64 count, i64 line, ptr to, i64 apart"
    f = Routine("spread_gradient", parameters(words), internal=True)
    a = arguments(f, names, "")
    lanes, unit = shape.lanes, str(shape.size)
    channel = f.mul(a["out_channel"], unit)
    _, wide = squares_of(f, a, NARROW)
    with runs(f, shape, wide) as (at, y, x, count):
        top, side = f.mul(y, "2"), f.mul(x, "2")
        length = f.minimum(f.mul(count, "2"), f.sub(a["out_width"], side))
        lower = f.select(f.is_("slt", f.add(top, "1"), a["out_height"]), length, "0")
        position = f.mul(f.add(f.mul(top, a["out_width"]), side), unit)
        ways = stored_ways(f, shape, at, count)
        masks = [
            [lane_mask(f, lanes, f.sub(valid, str(part * lanes))) for part in (0, 1)]
            for valid in (length, lower)
        ]
        to = f.at("%to", f.mul(at, unit))
        for way, stored in ways:
            with f.when(way) if way else nullcontext(), f.loop("0", a["filters"]) as i:
                here = f.at("%out", f.add(f.mul(i, channel), position))
                rows = []
                for down, pair in enumerate(masks):
                    base = f.at(here, f.mul(a["out_width"], unit)) if down else here
                    read = [
                        masked_load(f, shape, f.at(base, part * shape.bytes), mask)
                        for part, mask in enumerate(pair)
                    ]
                    rows.append(halves(f, shape, read))
                spread = both_ways(f, shape, spread_outputs_2, zip(*rows, strict=True))
                place = f.at(to, f.mul(i, "%line"))
                for down, row in enumerate(spread):
                    for across, z in enumerate(row):
                        into = f.at(place, f.mul("%apart", str(NARROW.seen * down + across)))
                        masked_update(f, shape, z, into, stored)
    return f.text()


def _join_weight(shape: TileConfig, names: list[str]) -> str:
    f = Routine("join_weight", parameters("ptr args, ptr sums, i64 line, i64 apart"), internal=True)
    a = arguments(f, names, "weight")
    lanes, unit = shape.lanes, str(shape.size)
    filter_bytes = f.mul(a["weight_filter"], unit)
    more = f.select(f.is_("ne", a["accumulate"], "0"), str(_TAPS), "0")
    with f.loop("0", a["filters"]) as i, f.loop("0", a["channels"], str(lanes)) as c:
        here = f.at("%sums", f.add(f.mul(i, "%line"), f.mul(c, unit)))
        sums = [
            f.load(shape.vector, f.at(here, f.mul("%apart", str(k))), shape.size)
            for k in range(NARROW.places)
        ]
        columns = [sums[k :: NARROW.seen] for k in range(NARROW.seen)]
        taps = [x for row in both_ways(f, shape, join_taps_2, columns) for x in row]
        to = f.at(a["weight"], f.add(f.mul(i, filter_bytes), f.mul(c, str(_TAPS * shape.size))))
        store = _store_most if lanes < _TAPS else _store_all
        store(f, shape, taps, to, f.sub(a["channels"], c), more)
    return f.text()


def _store_all(
    f: Routine, shape: TileConfig, taps: list[str], to: str, channels: str, more: str
) -> None:
    """Store the taps of some channels, or add them to the weight's gradient.

    A vector has room for all taps of a channel.

    taps: nine vectors, a vector for each tap, with a channel in each lane
    to: the address of the first channel's taps
    channels: the number of channels
    more: the number of taps to add to those in memory: all of them, or 0
    """
    lanes = shape.lanes
    taps = taps + ["zeroinitializer"] * (lanes - _TAPS)
    for k, x in enumerate(transposed(f, shape, taps)):
        there = f.is_("slt", str(k), channels)
        place = f.at(to, k * _TAPS * shape.size)
        old = masked_load(f, shape, place, lane_mask(f, lanes, f.select(there, more, "0")))
        mask = lane_mask(f, lanes, f.select(there, str(_TAPS), "0"))
        masked_store(f, shape, total(f, shape, x, old), place, mask)


def _store_most(
    f: Routine, shape: TileConfig, taps: list[str], to: str, channels: str, more: str
) -> None:
    """Do as `_store_all`, where a vector has no room for the last tap: it is stored alone."""
    lanes, kind = shape.lanes, shape.element
    *most, last = taps
    one = lane_mask(f, lanes, f.minimum(more, "1"))
    for k, x in enumerate(transposed(f, shape, most)):
        place = f.at(to, k * _TAPS * shape.size)
        behind = f.at(place, shape.bytes)
        with f.when(f.is_("slt", str(k), channels)):
            old = masked_load(f, shape, place, lane_mask(f, lanes, more))
            f.store(shape.vector, total(f, shape, x, old), place, shape.size)
            tap = f.let(f"extractelement {shape.vector} {last}, i64 {k}")
            old = masked_load(f, shape, behind, one)
            old = f.let(f"extractelement {shape.vector} {old}, i64 0")
            f.store(kind, f.let(f"fadd {kind} {tap}, {old}"), behind, shape.size)
