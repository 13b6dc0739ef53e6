"""The three ops of `ops.conv` on an accelerator: products whose operands are found while running.

No matrix of windows is made: each work item works out where its elements lie. Rows are filters, or
the channels of an input gradient; columns are images and positions, or channels and taps.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from wend._engine.base.dtypes import DType
from wend._engine.compiler.ir.kernel import Kernel, Slot
from wend._engine.compiler.ir.loops import Function
from wend._engine.compiler.ir.symbolic_extents import ONE, ZERO, Poly, constant, mul, product, scale
from wend._engine.compiler.kernels.conv.lowering import ROLES
from wend._engine.compiler.kernels.on_device.tail import add_tail
from wend._engine.compiler.kernels.on_device.tiles import COMMON, NAME, TileCode
from wend._engine.compiler.llvm_ir.jit import Target, written_for
from wend._engine.compiler.schedule.epilogue_ops import head_of
from wend._engine.compiler.schedule.fusion_group import Region

#: Facts of each spatial dim: extents, steps, padding in front, strides in elements.
_SIDES = ("taps places sizes stride dilation pad weight_step out_step input_step").split()


def words_of(sides: int) -> list[str]:
    """The words of the argument block, for so many spatial dims."""
    fixed = (
        "filters channels images weight_filter weight_channel out_image out_channel input_image "
        "input_channel"
    ).split()
    return [*COMMON, *fixed, *(f"{name}{d}" for name in _SIDES for d in range(sides))]


def device_convolution(f: Function, region: Region) -> Kernel:
    """Return the kernel of a convolution, or of a gradient, with the ops behind it."""
    op = head_of(region)
    node, prim = op.node, op.node.prim
    sides = len(prim.stride)
    dtype = f.dtypes[op.out]
    kernel = Kernel(NAME, convolution_text(written_for(), prim.name, dtype, sides), prim.name)
    operands = [read.value for read in op.reads]
    values = dict(zip(ROLES[prim.name], [*operands, op.out], strict=True))
    kernel.reads = sorted({f.layout(i).base for i in operands})
    kernel.writes = [op.out]
    kernel.is_whole = True
    words = geometry(f, node, values)
    left, right, out = SIDES_OF[prim.name]
    slots: dict[str, Slot] = {}
    for name, role in (("left", left), ("right", right), ("out", out)):
        layout = f.layout(values[role])
        slots[name] = Slot("pointer", layout.base, scale(layout.offset, dtype.itemsize))
        words[f"{name}0"], words[f"{name}1"] = words[f"{role}_group"], ZERO
    slots |= {name: Slot("extent", words[name]) for name in words_of(sides)[3:]}
    kernel.slots = [slots[name] for name in words_of(sides)]
    return add_tail(
        f, kernel, region, lambda: ConvolutionCode(written_for(), prim.name, dtype, sides)
    )


#: The roles of the left and the right operand, and of the result.
SIDES_OF = {
    "convolve": ("weight", "input", "out"),
    "convolve_weight": ("out", "input", "weight"),
    "convolve_input": ("weight", "out", "input"),
}


def geometry(f: Function, node: Any, values: dict[str, int]) -> dict[str, Poly]:
    """Return extents, steps and strides by word.

    values: the operands and the result, by role
    """
    prim = node.prim
    sides = len(prim.stride)
    sizes = [f.extents.path_expr(e) for e in node.args]
    # The args end with the padding in front, the padding behind, and the groups.
    groups, padding = sizes[-1], sizes[-1 - 2 * sides : -1 - sides]
    shapes = {role: f.shape(i) for role, i in values.items()}
    strides = {role: f.layout(i).strides for role, i in values.items()}
    filters = f.extents.quotient(shapes["weight"][0], groups)
    channels, images = shapes["weight"][1], shapes["input"][0]
    taps, places, inputs = (shapes[role][2:] for role in ("weight", "out", "input"))
    rows, columns, depth = {
        "convolve": (filters, product([images, *places]), product([channels, *taps])),
        "convolve_weight": (filters, product([channels, *taps]), product([images, *places])),
        "convolve_input": (channels, product([images, *inputs]), product([filters, *taps])),
    }[prim.name]
    words = {
        "rows": rows, "columns": columns, "depth": depth, "batch0": groups, "batch1": ONE,
        "filters": filters, "channels": channels, "images": images,
        "weight_filter": strides["weight"][0], "weight_channel": strides["weight"][1],
        "weight_group": mul(filters, strides["weight"][0]),
        "out_group": mul(filters, strides["out"][1]),
        "input_group": mul(channels, strides["input"][1]),
    }  # fmt: skip
    for role in ("out", "input"):
        words[f"{role}_image"], words[f"{role}_channel"] = strides[role][:2]
    for d in range(sides):
        own = (
            taps[d], places[d], inputs[d], constant(prim.stride[d]), constant(prim.dilation[d]),
            padding[d], *(strides[role][2 + d] for role in ("weight", "out", "input")),
        )  # fmt: skip
        words |= {f"{name}{d}": p for name, p in zip(_SIDES, own, strict=True)}
    return words


@cache
def convolution_text(target: Target, name: str, dtype: DType, sides: int) -> str:
    """Return the module of a convolution, or of a gradient."""
    return ConvolutionCode(target, name, dtype, sides).write()


class ConvolutionCode(TileCode):
    """Writes the kernel of a convolution."""

    def __init__(self, target: Target, name: str, dtype: DType, sides: int) -> None:
        super().__init__(target, dtype, words_of(sides))
        self.op, self.sides = name, range(sides)
        self.left_near = "true"
        self.right_near = "true" if name == "convolve_weight" else "false"

    def named(self, number: str, side: str) -> list[str]:
        """The places along a row of dims that a number stands for: the first, and the spatial ones.

        side: "taps", "places" of windows, or "sizes" of the input
        """
        return self.parted(number, ["", *(self.w[f"{side}{d}"] for d in self.sides)])

    def at(self, base: str, role: str, *numbers: str) -> str:
        """The address of an element.

        role: "weight", "input" or "out"
        numbers: the places along its two first dims, then along its spatial dims
        """
        firsts = ("filter", "channel") if role == "weight" else ("image", "channel")
        words = [*(f"{role}_{first}" for first in firsts), *(f"{role}_step{d}" for d in self.sides)]
        steps = zip(numbers, [self.w[word] for word in words], strict=True)
        return self.moved(base, self.kind, *steps)

    def window(self, places: list[str], taps: list[str]) -> tuple[list[str], str]:
        """The places of the input that taps of windows read, and whether all exist."""
        w, text = self.w, self.text
        read, inside = [], "true"
        for d, (place, tap) in enumerate(zip(places, taps, strict=True)):
            begin = text.let(f"mul i64 {place}, {w[f'stride{d}']}")
            apart = text.let(f"mul i64 {tap}, {w[f'dilation{d}']}")
            at = text.let(f"add i64 {begin}, {apart}")
            at = text.let(f"sub i64 {at}, {w[f'pad{d}']}")
            # Places before the first are large numbers without a sign.
            here = text.let(f"icmp ult i64 {at}, {w[f'sizes{d}']}")
            inside = text.let(f"and i1 {inside}, {here}")
            read.append(at)
        return read, inside

    def source(self, places: list[str], taps: list[str]) -> tuple[list[str], str]:
        """The windows of which taps read places of the input, and whether all exist."""
        w, text = self.w, self.text
        read, inside = [], "true"
        for d, (place, tap) in enumerate(zip(places, taps, strict=True)):
            apart = text.let(f"mul i64 {tap}, {w[f'dilation{d}']}")
            begin = text.let(f"add i64 {place}, {w[f'pad{d}']}")
            begin = text.let(f"sub i64 {begin}, {apart}")
            number = text.let(f"udiv i64 {begin}, {w[f'stride{d}']}")
            back = text.let(f"mul i64 {number}, {w[f'stride{d}']}")
            whole = text.let(f"icmp eq i64 {back}, {begin}")
            here = text.let(f"icmp ult i64 {number}, {w[f'places{d}']}")
            begun = text.let(f"icmp sge i64 {begin}, 0")
            for condition in (whole, here, begun):
                inside = text.let(f"and i1 {inside}, {condition}")
            read.append(number)
        return read, inside

    def left_at(self, left: str, row: str, step: str) -> tuple[str, str]:
        """See `TileCode`."""
        if self.op == "convolve_weight":
            image, *places = self.named(step, "places")
            return self.at(left, "out", image, row, *places), ""
        first, *taps = self.named(step, "taps")
        if self.op == "convolve":
            return self.at(left, "weight", row, first, *taps), ""
        return self.at(left, "weight", first, row, *taps), ""

    def right_at(self, right: str, column: str, step: str) -> tuple[str, str]:
        """See `TileCode`."""
        if self.op == "convolve_input":
            image, *places = self.named(column, "sizes")
            filter_, *taps = self.named(step, "taps")
            windows, inside = self.source(places, taps)
            return self.at(right, "out", image, filter_, *windows), inside
        if self.op == "convolve":
            image, *places = self.named(column, "places")
            channel, *taps = self.named(step, "taps")
        else:
            channel, *taps = self.named(column, "taps")
            image, *places = self.named(step, "places")
        read, inside = self.window(places, taps)
        return self.at(right, "input", image, channel, *read), inside

    def out_at(self, out: str, row: str, column: str) -> str:
        """See `TileCode`."""
        if self.op == "convolve_weight":
            channel, *taps = self.named(column, "taps")
            return self.at(out, "weight", row, channel, *taps)
        role = "out" if self.op == "convolve" else "input"
        image, *places = self.named(column, "places" if role == "out" else "sizes")
        return self.at(out, role, image, row, *places)

    def places(self, batch: list[str], row: str, column: str) -> list[str]:
        """See `TileCode`: image, group, filter, and position."""
        number = "1"
        for d in self.sides:
            number = self.text.let(f"mul i64 {number}, {self.w[f'places{d}']}")
        position, image = self.divided(column, number)
        return [image, batch[0], row, position]
