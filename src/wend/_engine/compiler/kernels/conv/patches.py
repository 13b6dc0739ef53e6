"""Convolutions image by image and group by group, as products of the weight and of patches.

Several small images form a product (`image_batches`). The image itself is the matrix of patches
where the kernel is a single tap in steps of 1; otherwise patches are packed (`im2col`).
"""

from __future__ import annotations

from wend._engine.base.records import Record
from wend._engine.compiler.kernels.conv.image_batches import COLUMNS, bundled, pieces, share_state
from wend._engine.compiler.kernels.conv.sizes import ConvolutionSizes
from wend._engine.compiler.kernels.matmul.blocks import CacheBlock, PanelAddresses
from wend._engine.compiler.kernels.matmul.macrokernel import Multiply, Scratch, panels
from wend._engine.compiler.kernels.matmul.operands import Matrix, Operands
from wend._engine.compiler.kernels.matmul.packing import SOURCES
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.integers import Bool, Int
from wend._engine.compiler.llvm_ir.variants import Variant, variant


class ImageBundles(Record):
    """The facts that hold for all images and groups. a: words, with strides in bytes

    shared: memory for the state of `share_tile`
    depth, positions: the steps of the product, and the positions of an image
    accumulate: whether to add to the result
    together: the images of a bundle
    several: whether these are several
    stands: whether the image itself is the matrix of patches
    """

    f: Routine
    c: ConvolutionSizes
    a: dict[str, str]
    shared: str
    depth: str
    positions: str
    accumulate: str
    together: str
    several: str
    stands: str
    room: Scratch

    @staticmethod
    def of(f: Routine, c: ConvolutionSizes, a: dict[str, str], shared: str) -> ImageBundles:
        taps = f.mul(a["kernel_height"], a["kernel_width"])
        depth = f.mul(a["channels"], taps)
        positions = f.mul(a["out_height"], a["out_width"])
        small = str(c.small)
        accumulate = f.is_("ne", a["accumulate"], "0")
        all_ = f.both(f.is_("eq", a["first_column"], "0"), f.is_("eq", a["last_column"], positions))
        other = f.let(f"xor i1 {f.either(small, accumulate)}, true")
        together = bundled(f, c.shape, positions, a["images"], f.both(all_, other))
        several = f.is_("sgt", together, "1")
        stands = str(_stands(c, taps))
        stands = f.both(stands, f.let(f"xor i1 {several}, true"))
        room = Scratch.of(f, c.shape, a["scratch"])
        fields = depth, positions, accumulate, together, several, stands, room
        return ImageBundles(f, c, a, shared, *fields)

    def site(self, image: str, group: str) -> ImageSite:
        """The place in the loops over images and groups. image: the first image of a bundle"""
        f, a = self.f, self.a
        images = f.minimum(f.sub(a["images"], image), self.together)
        columns = f.mul(self.positions, images)
        channel = f.mul(f.mul(group, a["channels"]), a["input_channel"])
        source = f.at(a["input"], f.add(f.mul(image, a["input_image"]), channel))
        filters = f.mul(group, a["filters"])
        weight = f.at(a["weight"], f.mul(filters, a["weight_filter"]))
        out = f.add(f.mul(image, a["out_image"]), f.mul(filters, a["out_channel"]))
        out = f.at(a["out"], out)
        place = f.add(image, a["origin"]), group
        return ImageSite(self, columns, source, weight, out, place)


class ImageSite(Record):
    """The place where the code for a bundle of images and a group is written.

    columns: the positions of all images
    source, weight, out: addresses
    place: the number of the first image, as an epilogue is told, and the group
    """

    bundles: ImageBundles
    columns: str
    source: str
    weight: str
    out: str
    place: tuple[str, str]

    def share(self) -> None:
        """Write the state of `share_tile`, for a bundle of several images."""
        bundles, a = self.bundles, self.bundles.a
        state = [
            ("ptr", a["epilogue"]),
            ("ptr", a["state"]),
            ("i64", bundles.positions),
            ("ptr", self.out),
            ("i64", a["out_image"]),
            ("i64", a["out_channel"]),
        ]
        share_state(bundles.f, bundles.shared, state)


@variant("convolve, image by image", after="DirectImage")
class Patches(Variant):
    """All else: a product with panels of patches; small images are one product side by side."""

    @staticmethod
    def applies(c: ConvolutionSizes) -> Bool:
        """Whether patches are multiplied."""
        return ~c.small

    @staticmethod
    def emit(site: ImageSite) -> None:
        """Write the product of the weight and the patches."""
        bundles, f, a = site.bundles, site.bundles.f, site.bundles.a
        shape, dtype = bundles.c.shape, bundles.c.dtype
        several, stands = bundles.several, bundles.stands
        size = str(SOURCES[dtype][1])
        left = Matrix(site.weight, a["weight_filter"], size)
        right = Matrix(site.source, size, a["input_channel"])
        operands = Operands(f, shape, dtype, bundles.room, left, right, site.columns, stands)
        last = f.select(several, site.columns, a["last_column"])
        Multiply(
            f,
            shape,
            right=lambda block: _patches(bundles, operands, block),
            left=operands.left_rows,
            room=bundles.room,
            part_rows=("0", a["filters"]),
            part_columns=(a["first_column"], last),
            columns=site.columns,
            depth=bundles.depth,
            out=f.select(several, a["bundle"], site.out, "ptr"),
            out_row=f.select(several, f.mul(site.columns, str(shape.size)), a["out_channel"]),
            accumulate=bundles.accumulate,
            epilogue=f.select(several, "@share_tile", a["epilogue"], "ptr"),
            state=f.select(several, bundles.shared, a["state"], "ptr"),
            place=site.place,
            chunk=str(COLUMNS * shape.panel),
        ).write()


def _stands(c: ConvolutionSizes, taps: str) -> Bool:
    """Whether the image itself is the matrix of patches: a tap of stride 1, no padding, dense."""
    size = SOURCES[c.dtype][1]
    condition = Int(taps, c.f) == 1
    row = c["input_width"] * size
    condition = condition & (c["stride_height"] == 1) & (c["stride_width"] == 1)
    condition = condition & (c["pad_height"] == 0) & (c["pad_width"] == 0)
    condition = condition & (c["input_column"] == size) & (c["input_row"] == row)
    condition = condition & (c["out_height"] == c["input_height"])
    return condition & (c["out_width"] == c["input_width"])


def _patches(bundles: ImageBundles, operands: Operands, block: CacheBlock) -> PanelAddresses:
    """Return the panels of a block: the image itself if it is the patches, else packed patches."""
    f, shape, stands = bundles.f, bundles.c.shape, bundles.stands
    addresses = operands.panels(block, stands)
    bytes_ = f.mul(block.depth, str(shape.size))
    with (
        f.when(f.let(f"xor i1 {stands}, true")),
        panels(f, shape, block.first, block.last, operands.columns) as (column, width),
    ):
        lanes = f.mul(width, str(shape.lanes))
        valid = f.minimum(f.sub(operands.columns, column), lanes)
        place = f.at(operands.room.panels, f.mul(f.sub(column, block.first), bytes_))
        with pieces(f, bundles.positions, column, valid) as (image, position, before, count):
            source = f.at(operands.right.base, f.mul(image, bundles.a["input_image"]))
            into = f.at(place, f.mul(before, str(shape.size)))
            f.line(
                f"call void @pack_patches(ptr %args, ptr {source}, i64 {position}, i64 {count}, "
                f"i64 {lanes}, i64 {block.start}, i64 {block.depth}, ptr {into})"
            )
    return addresses
